"""Names: links, renames, large directories that are read while they change."""
import ctypes
import errno
import os
import struct
import unittest

import place

LIBC = ctypes.CDLL(None, use_errno=True)
GETDENTS64 = 217  # x86-64
RENAME_NOREPLACE, RENAME_EXCHANGE, RENAME_WHITEOUT = 1, 2, 4


def renameat2(old, new, flags):
    if LIBC.renameat2(-100, old.encode(), -100, new.encode(), flags) != 0:
        raise OSError(ctypes.get_errno(), f"rename {old} to {new}")


def getdents(fd, size):
    """One call: [(name, offset behind it)]."""
    buffer = ctypes.create_string_buffer(size)
    got = LIBC.syscall(GETDENTS64, fd, buffer, size)
    if got < 0:
        raise OSError(ctypes.get_errno(), "getdents64")
    found, at = [], 0
    while at < got:
        _, offset, length = struct.unpack_from("=QqH", buffer.raw, at)
        found.append((buffer.raw[at + 19:at + length].split(b"\0", 1)[0].decode(), offset))
        at += length
    return found


class Names(place.PlaceTest):
    def test_a_hard_link_outlives_the_first_name(self):
        first = self.write("first", b"content")
        os.link(first, self.path("second"))
        self.assertEqual(os.stat(first).st_nlink, 2)
        self.assertTrue(os.path.samefile(first, self.path("second")))
        os.unlink(first)
        self.assertEqual(os.stat(self.path("second")).st_nlink, 1)
        self.assertEqual(self.read("second"), b"content")

    def test_rename_over_a_file_keeps_what_is_open(self):
        old = self.write("old", b"old")
        new = self.write("new", b"new")
        with open(old, "rb") as held:
            os.rename(new, old)
            self.assertEqual(held.read(), b"old")
            self.assertEqual(os.fstat(held.fileno()).st_nlink, 0)
        self.assertEqual(self.read("old"), b"new")
        self.assertEqual(os.listdir(self.dir), ["old"])

    def test_rename_into_and_over_directories(self):
        os.makedirs(self.path("a", "b"))
        os.mkdir(self.path("c"))
        self.write("a/b/file", b"1")
        os.rename(self.path("a", "b"), self.path("c"))  # over an empty one
        self.assertEqual(self.read("c/file"), b"1")
        self.assertEqual(os.stat(self.path("a")).st_nlink, 2)
        os.mkdir(self.path("full"))
        with self.assertRaises(OSError) as kept:
            os.rename(self.path("full"), self.path("c"))
        self.assertEqual(kept.exception.errno, errno.ENOTEMPTY)
        with self.assertRaises(OSError) as loop:
            os.rename(self.path("c"), self.path("c", "inside"))
        self.assertEqual(loop.exception.errno, errno.EINVAL)
        with self.assertRaises(NotADirectoryError):
            os.rename(self.path("c"), self.write("plain"))

    def test_rename_flags(self):
        a, b = self.write("a", b"a"), self.write("b", b"b")
        with self.assertRaises(FileExistsError):
            renameat2(a, b, RENAME_NOREPLACE)
        renameat2(a, b, RENAME_EXCHANGE)
        self.assertEqual((self.read("a"), self.read("b")), (b"b", b"a"))
        with self.assertRaises(FileNotFoundError):
            renameat2(a, self.path("none"), RENAME_EXCHANGE)
        renameat2(a, self.path("c"), RENAME_NOREPLACE)
        self.assertEqual(sorted(os.listdir(self.dir)), ["b", "c"])

    def test_a_whiteout_is_left_behind(self):
        if os.geteuid() != 0:
            self.skipTest("whiteouts need root")
        name = self.write("lower", b"x")
        renameat2(name, self.path("upper"), RENAME_WHITEOUT)
        left = os.lstat(name)
        self.assertEqual((left.st_mode & 0o170000, left.st_rdev), (0o020000, 0))
        self.assertEqual(self.read("upper"), b"x")

    def test_a_large_directory_is_read_whole_while_names_come_and_go(self):
        count = int(os.environ.get("TURNBOX_NAMES", "100000"))
        for i in range(count):
            os.close(os.open(self.path(f"kept-{i:06}"), os.O_CREAT | os.O_WRONLY, 0o644))
        for i in range(1000):
            self.write(f"goes-{i:04}")
        fd = os.open(self.dir, os.O_RDONLY | os.O_DIRECTORY)
        seen, rounds = {}, 0
        while entries := getdents(fd, 2048):
            for name, _ in entries:
                seen[name] = seen.get(name, 0) + 1
            if rounds < 1000:
                os.unlink(self.path(f"goes-{rounds:04}"))
                self.write(f"comes-{rounds:04}")
            rounds += 1
        os.close(fd)
        self.assertGreater(rounds, count // 100)
        kept = [name for name in seen if name.startswith("kept-")]
        self.assertEqual(len(kept), count)
        self.assertEqual({name: n for name, n in seen.items() if n != 1}, {}, "nothing is told twice")
        self.assertEqual(len(os.listdir(self.dir)), count + 1000)

    def test_every_place_in_a_listing_can_be_taken_up_again(self):
        names = {f"name-{i}" for i in range(500)}
        for name in names:
            self.write(name)
        fd = os.open(self.dir, os.O_RDONLY | os.O_DIRECTORY)
        order = []
        while entries := getdents(fd, 2048):
            order += entries
        self.assertEqual({name for name, _ in order}, names | {".", ".."})
        for i in range(0, len(order) - 1, 7):
            os.lseek(fd, order[i][1], os.SEEK_SET)
            self.assertEqual(getdents(fd, 2048)[0][0], order[i + 1][0], f"behind entry {i}")
        os.unlink(self.path(order[300][0]))  # the place behind a name stays when the name goes
        os.lseek(fd, order[300][1], os.SEEK_SET)
        self.assertEqual(getdents(fd, 2048)[0][0], order[301][0])
        os.lseek(fd, 0, os.SEEK_SET)
        self.assertEqual(len(sum(iter(lambda: getdents(fd, 4096), []), [])), len(order) - 1)
        os.close(fd)

    def test_long_and_odd_names(self):
        odd = ["x" * 255, "\udcff\udcfe", "new\nline", " ", "ü", "-rf"]
        for name in odd:
            self.write(name, b"1")
        self.assertEqual(sorted(os.listdir(self.dir)), sorted(odd))
        with self.assertRaises(OSError) as long:
            self.write("x" * 256)
        self.assertEqual(long.exception.errno, errno.ENAMETOOLONG)
        os.symlink("t" * 4000, self.path("link"))
        self.assertEqual(os.readlink(self.path("link")), "t" * 4000)

    def test_special_files_are_kept(self):
        os.mkfifo(self.path("fifo"), 0o640)
        import socket
        with socket.socket(socket.AF_UNIX) as listener:
            os.chdir(self.dir)
            listener.bind("socket")
            listener.listen()
            with socket.socket(socket.AF_UNIX) as client:
                client.connect("socket")
            os.chdir("/")
        kinds = {name: os.lstat(self.path(name)).st_mode & 0o170000 for name in os.listdir(self.dir)}
        self.assertEqual(kinds, {"fifo": 0o010000, "socket": 0o140000})
        if os.geteuid() == 0:
            os.mknod(self.path("device"), 0o020600, os.makedev(260, 70000))
            self.assertEqual(os.lstat(self.path("device")).st_rdev, os.makedev(260, 70000))


if __name__ == "__main__":
    place.main()
