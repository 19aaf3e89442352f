"""Locks between processes: flock(2), fcntl(2) ranges, their end with the process."""
import errno
import fcntl
import os
import struct
import unittest

import place


class Locks(place.PlaceTest):
    def held_elsewhere(self, take, then):
        """A child takes a lock and keeps it while then() runs here; afterwards it is gone with the child."""
        ready, done = os.pipe(), os.pipe()
        child = os.fork()
        if child == 0:
            status = 1
            try:
                held = take()
                os.write(ready[1], b"1")
                os.read(done[0], 1)
                held.close()
                status = 0
            finally:
                os._exit(status)
        os.read(ready[0], 1)
        try:
            then()
        finally:
            os.write(done[1], b"1")
            self.assertEqual(os.waitpid(child, 0)[1], 0)

    def test_flock_between_processes(self):
        name = self.write("flock")

        def take():
            file = open(name, "rb")
            fcntl.flock(file, fcntl.LOCK_EX)
            return file

        def refused():
            with open(name, "rb") as file, self.assertRaises(BlockingIOError):
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)

        self.held_elsewhere(take, refused)
        with open(name, "rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def test_shared_flocks_stand_beside_each_other(self):
        name = self.write("shared")

        def take():
            file = open(name, "rb")
            fcntl.flock(file, fcntl.LOCK_SH)
            return file

        def beside():
            with open(name, "rb") as file:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
                with self.assertRaises(BlockingIOError):
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)

        self.held_elsewhere(take, beside)

    def test_fcntl_ranges_between_processes(self):
        name = self.write("ranges", b"x" * 100)

        def take():
            file = open(name, "r+b")
            fcntl.lockf(file, fcntl.LOCK_EX, 10, 20)
            return file

        def elsewhere():
            with open(name, "r+b") as file:
                fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 20, 0)
                fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 10, 30)
                with self.assertRaises(OSError) as refused:
                    fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 29)
                self.assertIn(refused.exception.errno, (errno.EAGAIN, errno.EACCES))
                asked = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
                kind, _, start, length, holder = struct.unpack("hhqqi4x", fcntl.fcntl(file, fcntl.F_GETLK, asked))
                self.assertEqual((kind, start, length), (fcntl.F_WRLCK, 20, 10))
                self.assertGreater(holder, 0)

        self.held_elsewhere(take, elsewhere)
        with open(name, "r+b") as file:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def test_a_counter_under_a_lock_counts_right(self):
        name = self.write("counter", b"0")

        def work(_):
            for _ in range(200):
                with open(name, "r+b") as file:
                    fcntl.lockf(file, fcntl.LOCK_EX)
                    count = int(file.read())
                    file.seek(0)
                    file.write(str(count + 1).encode())
                    file.flush()

        self.forks(4, work)
        self.assertEqual(self.read("counter"), b"800")


if __name__ == "__main__":
    place.main()
