"""`turnbox mount` from the outside: what it shows, who may write, and that it leaves nothing behind."""
import json
import os
import signal
import subprocess
import sys
import tempfile
import unittest

import support
from support import BootTest, sh, start, turnbox, wait_until


def mounted_at(path):
    with open("/proc/self/mountinfo", encoding="utf-8") as table:
        return [line for line in table if line.split(" ")[4] == path]


def need_fuse():
    if os.path.exists("/dev/fuse") and os.geteuid() == 0:
        return
    print("no /dev/fuse, or not root", file=sys.stderr)
    sys.exit(1 if "mount" in os.environ.get("TURNBOX_MUST_RUN", "").split(",") else 77)


class MountTest(BootTest):
    def setUp(self):
        self.dir = os.path.realpath(tempfile.mkdtemp(prefix="turnbox-mount-", dir="/var/tmp"))
        self.addCleanup(os.rmdir, self.dir)
        self.addCleanup(subprocess.run, ["umount", "-l", self.dir], stderr=subprocess.DEVNULL, check=False)

    def mount(self, *words):
        """Starts the command; returns it once it says that the mount is there."""
        command = start("mount", *words)
        self.addCleanup(self.close, command)
        line = command.stdout.readline().decode()
        self.assertIn(words[1], line, command.stderr.read().decode() if not line else line)
        return command

    @staticmethod
    def close(command):
        if command.poll() is None:
            command.kill()
        command.communicate()

    def ended(self, command, status=0):
        out, err = command.communicate(timeout=60)
        self.assertEqual(command.returncode, status, (out, err))
        self.assertEqual(mounted_at(self.dir), [])
        self.assertEqual(os.listdir(self.dir), [])
        return err.decode()

    def start_sandbox(self, script):
        """A run that says a line when it is ready, then does what each line of its input says; and its demand."""
        loop = '; echo ready; while read -r line; do eval "$line"; sync; echo done; done'
        run = start("run", "--quiet", "--", "sh", "-c", script + loop, stdin=subprocess.PIPE)
        self.addCleanup(self.close, run)
        self.assertEqual(run.stdout.readline(), b"ready\n")
        [directory] = support.sandbox_dirs()
        return run, os.path.basename(directory)


class Live(MountTest):
    def test_a_live_workspace_is_shown_and_goes_with_its_sandbox(self):
        run, demand = self.start_sandbox("echo first >file; mkdir sub; ln -s ../file sub/link; chmod 4755 file; sync")
        command = self.mount(demand, self.dir, "--flush")
        self.assertEqual(sorted(os.listdir(self.dir)), ["file", "sub"])
        with open(f"{self.dir}/sub/link", encoding="utf-8") as file:
            self.assertEqual(file.read(), "first\n")
        self.assertEqual(os.stat(f"{self.dir}/file").st_mode & 0o7777, 0o4755)
        self.assertIn("nosuid", mounted_at(self.dir)[0])
        self.assertIn("nodev", mounted_at(self.dir)[0])
        with self.assertRaises(OSError):
            os.mkdir(f"{self.dir}/new")
        run.stdin.close()
        run.stdin = None
        self.assertIn("ended", self.ended(command))
        run.communicate(timeout=support.BOOT)
        self.assertEqual(run.returncode, 0)

    def do(self, run, line):
        run.stdin.write(line.encode() + b"\n")
        run.stdin.flush()
        self.assertEqual(run.stdout.readline(), b"done\n")

    def test_a_live_mount_follows_the_guest(self):
        run, demand = self.start_sandbox("true")
        command = self.mount(demand, self.dir)
        self.assertEqual(os.listdir(self.dir), [])
        self.do(run, "echo one >file; mkdir dir")
        self.assertEqual(sorted(os.listdir(self.dir)), ["dir", "file"])
        with open(f"{self.dir}/file", "rb") as held:
            self.assertEqual(held.read(), b"one\n")
            self.do(run, "echo two >>file; mv dir moved")
            self.assertEqual(held.read(), b"two\n")
            self.assertEqual(os.path.getsize(f"{self.dir}/file"), 8)
            self.do(run, "rm file; echo other >file")
            held.seek(0)
            self.assertEqual(held.read(), b"one\ntwo\n", "what is open stays")
        with open(f"{self.dir}/file", "rb") as anew:
            self.assertEqual(anew.read(), b"other\n")
        self.assertEqual(sorted(os.listdir(self.dir)), ["file", "moved"])
        refused = turnbox("mount", demand, self.dir, "--write")
        self.assertEqual(refused.returncode, 2)
        self.assertIn(b"fork", refused.stderr)
        command.send_signal(signal.SIGTERM)
        self.ended(command)
        run.stdin.close()
        run.stdin = None
        run.communicate(timeout=support.BOOT)
        self.assertEqual(run.returncode, 0)


    def test_a_fork_of_a_live_workspace_is_written_beside_it(self):
        run, demand = self.start_sandbox("echo guest >file")
        self.assert_ok(turnbox("workspace", "snapshot", demand, "first"))
        self.assert_ok(turnbox("workspace", "fork", demand, "work"))
        command = self.mount(f"{demand}@work", self.dir, "--write")
        with open(f"{self.dir}/file", "a", encoding="utf-8") as file:
            file.write("operator\n")
        os.mkdir(f"{self.dir}/made")
        shown = turnbox("workspace", "cat", f"{demand}@work", "file")
        self.assertEqual(shown.stdout, b"guest\noperator\n", shown.stderr)
        self.assertEqual(turnbox("workspace", "cat", f"{demand}@first", "file").stdout, b"guest\n")
        command.send_signal(signal.SIGINT)
        self.ended(command)
        command = self.mount(f"{demand}@first", self.dir)
        self.assertEqual(os.listdir(self.dir), ["file"])
        command.send_signal(signal.SIGINT)
        self.ended(command)
        refused = turnbox("mount", f"{demand}@first", self.dir, "--write")
        self.assertEqual(refused.returncode, 125)
        self.assertIn(b"fork", refused.stderr)
        run.stdin.close()
        run.stdin = None
        run.communicate(timeout=support.BOOT)
        self.assertEqual(run.returncode, 0)


class Ends(MountTest):
    def setUp(self):
        super().setUp()
        self.assert_ok(sh("echo kept >file; mkdir -p a/b; seq 100000 >a/b/long; ln file a/again"))
        self.turn = support.turns()[-1]["turn"]

    def test_a_stored_turn_is_shown_for_reading(self):
        command = self.mount(self.turn, self.dir)
        with open(f"{self.dir}/a/b/long", encoding="utf-8") as file:
            self.assertEqual(file.read(), "".join(f"{n}\n" for n in range(1, 100001)))
        self.assertTrue(os.path.samefile(f"{self.dir}/file", f"{self.dir}/a/again"))
        with self.assertRaises(OSError):
            os.unlink(f"{self.dir}/file")
        command.send_signal(signal.SIGINT)
        self.ended(command)

    def test_an_unmount_from_outside_ends_the_command(self):
        self.assert_ok(turnbox("workspace", "fork", self.turn + ":before", f"fork-{os.getpid()}"))
        self.addCleanup(turnbox, "workspace", "rm", f"fork-{os.getpid()}")
        command = self.mount(f"fork-{os.getpid()}", self.dir)
        self.assertEqual(os.listdir(self.dir), [])
        subprocess.run(["umount", self.dir], check=True)
        self.ended(command)

    def test_what_is_written_to_a_stored_fork_is_kept(self):
        fork = f"fork-{os.getpid()}"
        self.assert_ok(turnbox("workspace", "fork", self.turn, fork))
        self.addCleanup(turnbox, "workspace", "rm", fork)
        command = self.mount(fork, self.dir, "--write")
        with open(f"{self.dir}/new", "w", encoding="utf-8") as file:
            file.write("operator\n")
        os.unlink(f"{self.dir}/a/again")
        command.send_signal(signal.SIGINT)
        self.ended(command)
        self.assertEqual(turnbox("workspace", "cat", fork, "new").stdout, b"operator\n")
        self.assertEqual(turnbox("workspace", "diff", self.turn, fork).stdout.decode().split(), ["-", "a/again", "+", "new"])
        self.assertEqual(turnbox("workspace", "cat", self.turn, "file").stdout, b"kept\n")
        run = turnbox("run", "--from", fork, "--", "sh", "-c", "cat new file; wc -l <a/b/long")
        self.assertEqual(run.stdout.decode().split(), ["operator", "kept", "100000"], run.stderr)

    def test_a_fork_that_was_changed_meanwhile_loses_nothing(self):
        fork = f"twice-{os.getpid()}"
        self.assert_ok(turnbox("workspace", "fork", self.turn, fork))
        self.addCleanup(turnbox, "workspace", "rm", fork)
        other = tempfile.mkdtemp(prefix="turnbox-mount-", dir="/var/tmp")
        self.addCleanup(os.rmdir, other)
        first, second = self.mount(fork, self.dir, "--write"), self.mount(fork, other, "--write")
        for place, text in ((self.dir, "first"), (other, "second")):
            with open(f"{place}/{text}", "w", encoding="utf-8") as file:
                file.write(text)
        first.send_signal(signal.SIGINT)
        self.ended(first)
        second.send_signal(signal.SIGINT)
        self.assertIn("was changed or removed meanwhile", self.ended(second))
        listed = json.loads(turnbox("workspace", "list", "--json").stdout)["forks"]
        forks = [row["version"] for row in listed if row["version"].startswith(fork)]
        self.assertEqual(len(forks), 2, forks)
        [kept] = set(forks) - {fork}
        self.addCleanup(turnbox, "workspace", "rm", kept)
        self.assertEqual(turnbox("workspace", "cat", fork, "first").stdout, b"first")
        self.assertEqual(turnbox("workspace", "cat", kept, "second").stdout, b"second")

    def test_a_busy_mount_is_taken_away_all_the_same(self):
        command = self.mount(self.turn, self.dir)
        held = os.open(f"{self.dir}/a", os.O_RDONLY | os.O_DIRECTORY)
        command.send_signal(signal.SIGTERM)
        self.ended(command)
        with self.assertRaises(OSError):
            os.stat("again", dir_fd=held)
        os.close(held)

    def test_a_killed_command_leaves_no_mount(self):
        command = self.mount(self.turn, self.dir)
        command.kill()
        command.wait()
        wait_until("the guard's unmount", lambda: not mounted_at(self.dir), 30)
        self.assertEqual(os.listdir(self.dir), [])

    def test_a_killed_daemon_ends_it(self):
        command = self.mount(self.turn, self.dir)
        [daemon] = support.children_of(command.pid, "turnbox-fsd")
        os.kill(daemon, signal.SIGKILL)
        self.assertIn("ended", self.ended(command))

    def test_bad_input_is_one_sentence_and_leaves_nothing(self):
        with open(f"{self.dir}/inside", "wb"):
            pass
        self.addCleanup(lambda: os.path.exists(f"{self.dir}/inside") and os.unlink(f"{self.dir}/inside"))
        cases = [
            ((self.turn, self.dir), 125, "not empty"),
            ((self.turn, f"{self.dir}/none"), 125, "there is no directory"),
            ((self.turn, f"{self.dir}/inside"), 125, "not a directory"),
            (("no-such-name", self.dir), 125, "no-such-name"),
            ((self.turn, self.dir, "--write"), 2, "fork"),
            ((self.turn,), 2, "DIR"),
        ]
        for words, status, text in cases:
            done = turnbox("mount", *words)
            said = done.stderr.decode()
            self.assertEqual(done.returncode, status, (words, said))
            self.assertIn(text, said, words)
            self.assertEqual(said.count("\n"), 1, said)
            self.assertEqual(mounted_at(self.dir), [], words)
        os.unlink(f"{self.dir}/inside")


if __name__ == "__main__":
    need_fuse()
    support.main()
