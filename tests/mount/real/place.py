"""What the tests of real file system use share: a directory on the file system under test.

    TURNBOX_PLACE=DIR python3 NAME_test.py        (tests/support/with_mount sets it; any directory will do, a guest's too)

Each test has an empty directory of its own there.
"""
import os
import shutil
import subprocess
import sys
import unittest

PLACE = os.environ.get("TURNBOX_PLACE", "")


class PlaceTest(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        self.dir = os.path.join(PLACE, self.id().rsplit(".", 1)[1])
        os.mkdir(self.dir)
        self.addCleanup(shutil.rmtree, self.dir, True)

    def path(self, *names):
        return os.path.join(self.dir, *names)

    def write(self, name, content=b""):
        with open(self.path(name), "wb") as file:
            file.write(content)
        return self.path(name)

    def read(self, name):
        with open(self.path(name), "rb") as file:
            return file.read()

    def sh(self, script, **options):
        """Runs a shell script in the test's directory; its output. What it says on failure stands in the error."""
        done = subprocess.run(["sh", "-euc", script], cwd=self.dir, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, check=False, **options)
        text = done.stdout.decode(errors="replace")
        self.assertEqual(done.returncode, 0, text)
        return text

    def forks(self, count, work):
        """Runs work(i) in `count` processes at once; each must return without an exception."""
        children = []
        for i in range(count):
            child = os.fork()
            if child == 0:
                status = 1
                try:
                    work(i)
                    status = 0
                except BaseException as failed:  # the child's own seam: nothing may go on behind it
                    print(f"process {i}: {failed!r}", file=sys.stderr, flush=True)
                finally:
                    os._exit(status)
            children.append(child)
        for child in children:
            self.assertEqual(os.waitpid(child, 0)[1], 0)

    def needs(self, *programs):
        for program in programs:
            if shutil.which(program) is None:
                self.skipTest(f"{program} is not installed")


def main():
    if not PLACE or not os.path.isdir(PLACE):
        print("TURNBOX_PLACE names no directory", file=sys.stderr)
        sys.exit(2)
    os.umask(0o022)
    unittest.main(verbosity=2)
