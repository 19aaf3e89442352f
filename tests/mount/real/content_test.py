"""Bytes: shared mappings, appenders, holes, large offsets, files without a name."""
import ctypes
import errno
import mmap
import os
import unittest

import place

LIBC = ctypes.CDLL(None, use_errno=True)
PAGE = 4096
GIB = 1 << 30


class Content(place.PlaceTest):
    def sees_holes(self):
        """Whether lseek(2) tells of holes. A guest's kernel says that all is data (decision 0211), which is true as well."""
        fd = os.open(self.path("probe"), os.O_CREAT | os.O_RDWR, 0o644)
        os.ftruncate(fd, PAGE)
        try:
            self.assertEqual(os.lseek(fd, 0, os.SEEK_DATA), 0)
            self.assertEqual(os.lseek(fd, 0, os.SEEK_HOLE), PAGE)
            return False
        except OSError as failed:
            self.assertEqual(failed.errno, errno.ENXIO)
            return True
        finally:
            os.close(fd)
            os.unlink(self.path("probe"))

    def test_shared_mappings_are_coherent_between_processes(self):
        name = self.write("shared", b"\0" * 4 * PAGE)
        ready, done = os.pipe(), os.pipe()

        def work(i):
            with open(name, "r+b") as file, mmap.mmap(file.fileno(), 0, mmap.MAP_SHARED) as pages:
                if i == 0:
                    pages[PAGE:PAGE + 5] = b"first"
                    os.write(ready[1], b"1")
                    os.read(done[0], 1)
                    assert pages[2 * PAGE:2 * PAGE + 6] == b"second", bytes(pages[2 * PAGE:2 * PAGE + 6])
                    assert os.pread(file.fileno(), 6, 2 * PAGE) == b"second"
                else:
                    os.read(ready[0], 1)
                    assert pages[PAGE:PAGE + 5] == b"first", bytes(pages[PAGE:PAGE + 5])
                    os.pwrite(file.fileno(), b"second", 2 * PAGE)
                    os.write(done[1], b"1")

        self.forks(2, work)
        content = self.read("shared")
        self.assertEqual(content[PAGE:PAGE + 5], b"first")
        self.assertEqual(content[2 * PAGE:2 * PAGE + 6], b"second")

    def test_a_mapping_is_written_by_msync_and_by_unmapping(self):
        name = self.write("mapped", b"a" * (2 * PAGE + 10))
        with open(name, "r+b") as file, mmap.mmap(file.fileno(), 0) as pages:
            pages[0:3] = b"xyz"
            pages.flush()
            pages[2 * PAGE + 9:2 * PAGE + 10] = b"!"
        self.assertEqual(self.read("mapped"), b"xyz" + b"a" * (2 * PAGE + 6) + b"!")
        self.assertEqual(os.stat(name).st_size, 2 * PAGE + 10)

    def test_appenders_lose_nothing(self):
        name = self.write("log")

        def work(i):
            fd = os.open(name, os.O_WRONLY | os.O_APPEND)
            for n in range(500):
                line = f"{i}:{n:04}:{'x' * (n % 90)}\n".encode()
                assert os.write(fd, line) == len(line)
            os.close(fd)

        self.forks(4, work)
        lines = self.read("log").decode().splitlines()
        self.assertEqual(len(lines), 4 * 500)
        for i in range(4):
            own = [line for line in lines if line.startswith(f"{i}:")]
            self.assertEqual(own, [f"{i}:{n:04}:{'x' * (n % 90)}" for n in range(500)], "each writer's own order")

    def test_exclusive_creation_without_write_permission_can_be_written(self):
        fd = os.open(self.path("sealed"), os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o444)
        self.assertEqual(os.write(fd, b"written"), 7)
        os.close(fd)
        self.assertEqual(self.read("sealed"), b"written")
        self.assertEqual(os.stat(self.path("sealed")).st_mode & 0o7777, 0o444)
        with self.assertRaises(FileExistsError):
            os.open(self.path("sealed"), os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o444)

    def test_an_unlinked_open_file_is_truncated_and_written(self):
        fd = os.open(self.path("gone"), os.O_CREAT | os.O_RDWR, 0o600)
        os.write(fd, b"x" * 3 * PAGE)
        os.unlink(self.path("gone"))
        self.assertEqual(os.fstat(fd).st_nlink, 0)
        os.ftruncate(fd, 10)
        os.pwrite(fd, b"end", PAGE)
        self.assertEqual(os.fstat(fd).st_size, PAGE + 3)
        self.assertEqual(os.pread(fd, 20, 0), b"x" * 10 + b"\0" * 10)
        self.assertEqual(os.pread(fd, 10, PAGE), b"end")
        os.close(fd)
        self.assertEqual(os.listdir(self.dir), [])

    def test_an_unnamed_file_gets_a_name(self):
        try:
            fd = os.open(self.dir, os.O_TMPFILE | os.O_RDWR, 0o640)
        except OSError as refused:
            self.assertIn(refused.errno, (errno.EOPNOTSUPP, errno.EISDIR))
            self.skipTest("no O_TMPFILE here")
        os.write(fd, b"whole")
        self.assertEqual(os.listdir(self.dir), [])
        here, follow = -100, 0x400  # AT_FDCWD, AT_SYMLINK_FOLLOW
        linked = LIBC.linkat(here, f"/proc/self/fd/{fd}".encode(), here, self.path("named").encode(), follow)
        self.assertEqual(linked, 0, os.strerror(ctypes.get_errno()))
        self.assertEqual(os.fstat(fd).st_nlink, 1)
        os.close(fd)
        self.assertEqual(self.read("named"), b"whole")
        self.assertEqual(os.stat(self.path("named")).st_mode & 0o7777, 0o640)

    def test_holes_are_found_and_take_no_room(self):
        name = self.path("sparse")
        fd = os.open(name, os.O_CREAT | os.O_RDWR, 0o644)
        os.pwrite(fd, b"data", 64 * PAGE)
        os.pwrite(fd, b"more", 200 * PAGE)
        os.ftruncate(fd, 300 * PAGE)
        if self.sees_holes():
            self.assertEqual(os.lseek(fd, 0, os.SEEK_DATA), 64 * PAGE)
            self.assertEqual(os.lseek(fd, 64 * PAGE, os.SEEK_HOLE), 65 * PAGE)
            self.assertEqual(os.lseek(fd, 65 * PAGE, os.SEEK_DATA), 200 * PAGE)
            self.assertEqual(os.lseek(fd, 0, os.SEEK_HOLE), 0)
            self.assertEqual(os.lseek(fd, 201 * PAGE, os.SEEK_HOLE), 201 * PAGE)
            with self.assertRaises(OSError) as past:
                os.lseek(fd, 201 * PAGE, os.SEEK_DATA)
            self.assertEqual(past.exception.errno, errno.ENXIO)
        os.close(fd)  # a guest's kernel counts blocks anew behind a close
        self.assertEqual(os.stat(name).st_blocks, 2 * PAGE // 512)

    def test_what_another_process_has_not_closed_is_copied_whole(self):
        self.needs("cp")
        written, copied = os.pipe(), os.pipe()

        def work(i):
            if i == 0:
                fd = os.open(self.path("open"), os.O_CREAT | os.O_RDWR, 0o644)
                os.write(fd, b"x" * 5 * PAGE)
                os.write(written[1], b"1")
                os.read(copied[0], 1)
            else:
                os.read(written[0], 1)
                self.sh("cp open copy")
                os.write(copied[1], b"1")

        self.forks(2, work)
        self.assertEqual(self.read("copy"), b"x" * 5 * PAGE)

    def test_cp_keeps_holes(self):
        self.needs("cp", "cmp")
        fd = os.open(self.path("from"), os.O_CREAT | os.O_RDWR, 0o644)
        os.pwrite(fd, os.urandom(PAGE), 1000 * PAGE)
        os.ftruncate(fd, 5000 * PAGE)
        os.close(fd)
        for how in ("auto", "always") if self.sees_holes() else ("always",):
            self.sh(f"cp --sparse={how} from {how}; cmp from {how}")
            self.assertEqual(os.stat(self.path(how)).st_blocks, PAGE // 512, how)
        self.sh("cp --sparse=never from full; cmp from full")  # copy_file_range(2) may share holes all the same

    def test_offsets_above_four_gib(self):
        fd = os.open(self.path("large"), os.O_CREAT | os.O_RDWR, 0o644)
        for at in (4 * GIB - 2, 5 * GIB, 1 << 40, (1 << 43) + 123):
            os.pwrite(fd, b"four", at)
            self.assertEqual(os.pread(fd, 8, at)[:4], b"four", at)
            self.assertEqual(os.fstat(fd).st_size, at + 4)
        if self.sees_holes():
            self.assertEqual(os.lseek(fd, 5 * GIB + PAGE, os.SEEK_DATA), 1 << 40)
        os.ftruncate(fd, 4 * GIB)
        self.assertEqual(os.pread(fd, 8, 4 * GIB - 2), b"fo")
        os.close(fd)

    def test_a_cut_and_grown_file_reads_zeros(self):
        name = self.write("cut", b"z" * (2 * PAGE))
        os.truncate(name, 100)
        os.truncate(name, 3 * PAGE)
        self.assertEqual(self.read("cut"), b"z" * 100 + b"\0" * (3 * PAGE - 100))

    def test_fallocate_and_punched_holes(self):
        fd = os.open(self.path("room"), os.O_CREAT | os.O_RDWR, 0o644)

        def fallocate(mode, offset, size):
            if LIBC.fallocate(fd, mode, ctypes.c_long(offset), ctypes.c_long(size)) != 0:
                raise OSError(ctypes.get_errno(), "fallocate")

        fallocate(0, 0, 10 * PAGE)
        self.assertEqual(os.fstat(fd).st_size, 10 * PAGE)
        os.close(os.dup(fd))  # a guest's kernel counts blocks anew behind a close
        self.assertEqual(os.fstat(fd).st_blocks, 10 * PAGE // 512)
        fallocate(1, 10 * PAGE, 10 * PAGE)  # KEEP_SIZE
        self.assertEqual(os.fstat(fd).st_size, 10 * PAGE)
        os.pwrite(fd, b"y" * 10 * PAGE, 0)
        fallocate(3, 2 * PAGE + 100, 3 * PAGE)  # PUNCH_HOLE | KEEP_SIZE
        expected = b"y" * (2 * PAGE + 100) + b"\0" * (3 * PAGE) + b"y" * (5 * PAGE - 100)
        self.assertEqual(os.pread(fd, 10 * PAGE, 0), expected)
        if self.sees_holes():
            self.assertEqual(os.lseek(fd, 0, os.SEEK_HOLE), 3 * PAGE)
        try:
            fallocate(16, 0, PAGE)  # ZERO_RANGE, which tmpfs lacks
            self.assertEqual(os.pread(fd, PAGE + 1, 0), b"\0" * PAGE + b"y")
        except OSError as refused:
            self.assertEqual(refused.errno, errno.EOPNOTSUPP)
        os.close(fd)

    def test_copy_file_range(self):
        content = os.urandom(50 * PAGE + 77)
        source = os.open(self.write("from", content), os.O_RDONLY)
        target = os.open(self.path("to"), os.O_CREAT | os.O_RDWR, 0o644)
        done = 0
        while done < len(content):
            piece = os.copy_file_range(source, target, len(content) - done, done, done)
            self.assertGreater(piece, 0)
            done += piece
        self.assertEqual(self.read("to"), content)
        os.pwrite(target, b"changed", PAGE)
        self.assertEqual(self.read("from"), content, "what was shared is not changed with the copy")
        self.assertEqual(os.copy_file_range(source, target, 100, 10, 3 * PAGE + 5), 100)
        self.assertEqual(os.pread(target, 100, 3 * PAGE + 5), content[10:110])
        os.close(source)
        os.close(target)

    def test_fsync_of_files_and_directories(self):
        fd = os.open(self.path("synced"), os.O_CREAT | os.O_RDWR, 0o644)
        os.write(fd, b"kept")
        os.fsync(fd)
        os.fdatasync(fd)
        os.close(fd)
        fd = os.open(self.dir, os.O_RDONLY | os.O_DIRECTORY)
        os.fsync(fd)
        os.close(fd)
        fd = os.open(self.path("direct"), os.O_CREAT | os.O_RDWR | os.O_SYNC, 0o644)
        self.assertEqual(os.write(fd, b"s" * 100), 100)
        os.close(fd)


if __name__ == "__main__":
    place.main()
