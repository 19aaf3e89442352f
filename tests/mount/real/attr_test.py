"""Attributes: modes and who clears them, times, extended attributes, what df and du say."""
import errno
import os
import stat
import time
import unittest

import place

NOBODY = 65534
UTIME_NOW, UTIME_OMIT = (1 << 30) - 1, (1 << 30) - 2


class Attributes(place.PlaceTest):
    def mode(self, name):
        return stat.S_IMODE(os.stat(self.path(name)).st_mode)

    def as_user(self, work, uid=NOBODY, groups=()):
        """Runs work() as another user; returns its errno, 0 when it did its work."""
        if os.geteuid() != 0:
            self.skipTest("changing users needs root")
        child = os.fork()
        if child == 0:
            status = 255
            try:
                os.setgroups(list(groups))
                os.setresgid(uid, uid, uid)
                os.setresuid(uid, uid, uid)
                work()
                status = 0
            except OSError as failed:
                status = failed.errno
            finally:
                os._exit(status)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

    def test_umask(self):
        old = os.umask(0o027)
        try:
            self.write("file")
            os.mkdir(self.path("dir"), 0o777)
            os.mkfifo(self.path("fifo"), 0o666)
        finally:
            os.umask(old)
        self.assertEqual([self.mode(name) for name in ("file", "dir", "fifo")], [0o640, 0o750, 0o640])

    def test_suid_and_sgid_go_when_others_write(self):
        os.chmod(self.dir, 0o777)
        for how in ("write", "truncate", "shared"):
            name = self.write(how, b"x" * 100)
            os.chmod(name, 0o6777)

            def work(name=name, how=how):
                fd = os.open(name, os.O_RDWR)
                if how == "write":
                    os.write(fd, b"y")
                elif how == "truncate":
                    os.ftruncate(fd, 10)
                else:
                    os.pwrite(fd, b"z", 50)

            self.assertEqual(self.as_user(work), 0, how)
            self.assertEqual(self.mode(how), 0o777, how)

    def test_suid_and_sgid_stay_when_root_writes_and_go_with_the_owner(self):
        if os.geteuid() != 0:
            self.skipTest("needs root")
        name = self.write("tool", b"x")
        os.chmod(name, 0o6755)
        with open(name, "r+b") as file:
            file.write(b"y")
        self.assertEqual(self.mode("tool"), 0o6755)
        os.chown(name, NOBODY, NOBODY)
        self.assertEqual(self.mode("tool"), 0o755)
        os.chmod(name, 0o2745)  # sgid without execution by the group: a mark for locking, which stays
        os.chown(name, 0, 0)
        self.assertEqual(self.mode("tool") & 0o7777, 0o2745)

    def test_setgid_directories_hand_on_their_group(self):
        if os.geteuid() != 0:
            self.skipTest("needs root")
        os.chown(self.dir, 0, 1234)
        os.chmod(self.dir, 0o2777)
        self.write("file")
        os.mkdir(self.path("dir"))
        os.symlink("x", self.path("link"))
        self.assertEqual({os.lstat(self.path(name)).st_gid for name in ("file", "dir", "link")}, {1234})
        self.assertEqual(self.mode("dir"), 0o2755)

        def work():
            os.close(os.open(self.path("theirs"), os.O_CREAT | os.O_WRONLY, 0o2777))

        self.assertEqual(self.as_user(work), 0)
        self.assertEqual(self.mode("theirs") & 0o2000, 0, "no sgid for a group that one is not in")

    def test_sticky_directories_protect_names(self):
        os.chmod(self.dir, 0o1777)
        self.write("roots")
        self.assertEqual(self.as_user(lambda: os.unlink(self.path("roots"))), errno.EPERM)
        self.assertEqual(self.as_user(lambda: os.rename(self.path("roots"), self.path("taken"))), errno.EPERM)
        self.assertEqual(self.as_user(lambda: os.mkdir(self.path("own"))), 0)
        self.assertEqual(self.as_user(lambda: os.rmdir(self.path("own"))), 0)

    def test_permissions_are_checked(self):
        os.chmod(self.dir, 0o755)
        os.chmod(self.write("private", b"x"), 0o600)
        self.assertEqual(self.as_user(lambda: open(self.path("private"), "rb").close()), errno.EACCES)
        self.assertEqual(self.as_user(lambda: os.mkdir(self.path("new"))), errno.EACCES)
        self.assertEqual(self.as_user(lambda: os.chmod(self.path("private"), 0o644)), errno.EPERM)
        os.chmod(self.path("private"), 0o640)
        os.chown(self.path("private"), 0, 1234)
        self.assertEqual(self.as_user(lambda: open(self.path("private"), "rb").close(), groups=[1234]), 0)

    def test_times_to_the_nanosecond_and_omitted(self):
        name = self.write("timed", b"x")
        os.utime(name, ns=(1_500_000_000_123_456_789, 1_600_000_000_987_654_321))
        found = os.stat(name)
        self.assertEqual((found.st_atime_ns, found.st_mtime_ns), (1_500_000_000_123_456_789, 1_600_000_000_987_654_321))
        # One of two, as touch -a and -m set them; the other is given as UTIME_OMIT.
        self.needs("touch")
        self.sh("touch -a -d '2001-02-03 04:05:06.5 UTC' timed")
        found = os.stat(name)
        self.assertEqual((found.st_atime_ns, found.st_mtime_ns), (981_173_106_500_000_000, 1_600_000_000_987_654_321))
        before = found.st_ctime_ns
        self.sh("touch -m -d '1970-01-01 00:00:01 UTC' timed")
        found = os.stat(name)
        self.assertEqual((found.st_atime_ns, found.st_mtime_ns), (981_173_106_500_000_000, 1_000_000_000))
        self.assertGreater(found.st_ctime_ns, before)
        os.utime(name, ns=(-5_000_000_000, -1))  # before 1970
        found = os.stat(name)
        self.assertEqual((found.st_atime_ns, found.st_mtime_ns), (-5_000_000_000, -1))
        os.symlink("nowhere", self.path("link"))
        os.utime(self.path("link"), ns=(1, 2), follow_symlinks=False)
        self.assertEqual(os.lstat(self.path("link")).st_mtime_ns, 2)

    def test_changes_move_the_times(self):
        name = self.write("moved", b"x")

        def moves(what, path, *, mtime):
            os.utime(path, ns=(1, 1))
            before = os.stat(path).st_ctime_ns
            time.sleep(0.01)  # a kernel's own file systems have a clock of a few milliseconds
            what()
            after = os.stat(path)
            self.assertGreater(after.st_ctime_ns, before)
            self.assertEqual(after.st_mtime_ns != 1, mtime)

        moves(lambda: self.write("moved", b"y"), name, mtime=True)
        moves(lambda: os.chmod(name, 0o600), name, mtime=False)
        moves(lambda: os.link(name, self.path("other")), name, mtime=False)
        moves(lambda: os.unlink(self.path("other")), name, mtime=False)
        moves(lambda: os.rename(name, self.path("moved2")) or os.rename(self.path("moved2"), name), name, mtime=False)
        moves(lambda: self.write("new"), self.dir, mtime=True)
        moves(lambda: os.unlink(self.path("new")), self.dir, mtime=True)

    def test_extended_attributes(self):
        name = self.write("attrs")
        try:
            os.setxattr(name, "user.one", b"1")
        except OSError as refused:
            self.assertEqual(refused.errno, errno.EOPNOTSUPP)
            self.skipTest("no extended attributes here")
        os.setxattr(name, "user.two", b"\0binary\xff" * 1000)
        self.assertEqual(os.getxattr(name, "user.two"), b"\0binary\xff" * 1000)
        self.assertEqual(sorted(n for n in os.listxattr(name) if n.startswith("user.")), ["user.one", "user.two"])
        with self.assertRaises(FileExistsError):
            os.setxattr(name, "user.one", b"2", os.XATTR_CREATE)
        with self.assertRaises(OSError) as none:
            os.setxattr(name, "user.three", b"3", os.XATTR_REPLACE)
        self.assertEqual(none.exception.errno, errno.ENODATA)
        os.setxattr(name, "user.one", b"", os.XATTR_REPLACE)
        self.assertEqual(os.getxattr(name, "user.one"), b"")
        os.removexattr(name, "user.one")
        with self.assertRaises(OSError) as gone:
            os.getxattr(name, "user.one")
        self.assertEqual(gone.exception.errno, errno.ENODATA)
        os.setxattr(self.dir, "user.dir", b"d")
        os.rename(name, self.path("renamed"))
        self.assertEqual(len(os.getxattr(self.path("renamed"), "user.two")), 8000)
        if os.geteuid() == 0:
            os.setxattr(self.path("renamed"), "trusted.overlay.opaque", b"y")
            self.assertEqual(os.getxattr(self.path("renamed"), "trusted.overlay.opaque"), b"y")

    def test_df_and_du_agree_and_freeing_recovers(self):
        before = os.statvfs(self.dir)
        fd = os.open(self.path("big"), os.O_CREAT | os.O_WRONLY, 0o644)
        for _ in range(16):
            os.write(fd, b"b" * (1 << 20))
        os.close(fd)
        after = os.statvfs(self.dir)  # behind a close, which writes back
        self.assertEqual((before.f_bfree - after.f_bfree) * after.f_frsize, 16 << 20)
        self.assertEqual(before.f_ffree - after.f_ffree, 1)
        self.assertEqual(os.stat(self.path("big")).st_blocks * 512, 16 << 20)
        os.unlink(self.path("big"))
        end = time.monotonic() + 10
        while True:  # a kernel gives a FUSE inode back a moment behind the unlink
            again = os.statvfs(self.dir)
            if (again.f_bfree, again.f_ffree) == (before.f_bfree, before.f_ffree) or time.monotonic() > end:
                break
            time.sleep(0.01)
        self.assertEqual((again.f_bfree, again.f_ffree), (before.f_bfree, before.f_ffree))


if __name__ == "__main__":
    place.main()
