"""turnbox run --workspace: what is imported, what is listed, and that the host's directory stays as it was."""
import os
import shutil
import socket
import subprocess
import tempfile
import unittest

from support import BootTest, main, sh, turnbox, turns


def fingerprint(path):
    rows = []
    for directory, names, files in sorted(os.walk(path)):
        for name in sorted(names + files):
            full = os.path.join(directory, name)
            st = os.lstat(full)
            rows.append((full, st.st_mode, st.st_nlink, st.st_size, st.st_mtime_ns, st.st_ctime_ns))
    return rows


class Workspace(BootTest):
    def tree(self):
        root = self.scratch() + "/ws"
        os.makedirs(f"{root}/dir/deeper")
        with open(f"{root}/dir/file", "w", encoding="utf-8") as file:
            file.write("content\n")
        os.chmod(f"{root}/dir/file", 0o751)
        os.utime(f"{root}/dir/file", ns=(1_500_000_000_123_456_789, 1_500_000_000_123_456_789))
        os.link(f"{root}/dir/file", f"{root}/twin")
        os.symlink("dir/file", f"{root}/link")
        with open(f"{root}/doomed", "w", encoding="utf-8") as file:
            file.write("x")
        with open(os.fsencode(f"{root}/") + b"caf\xe9", "wb") as file:
            file.write(b"latin")
        with open(f"{root}/sparse", "wb") as file:
            file.truncate(1 << 30)
            file.seek((1 << 30) - 3)
            file.write(b"end")
        return root

    def test_everything_arrives_and_nothing_goes_back(self):
        root = self.tree()
        before = fingerprint(root)
        done = sh("stat -c '%n %a %h %s %.9Y' dir/file twin sparse; readlink link; ls | od -c | grep -c 351; "
                  "tail -c 3 sparse; du -k sparse | cut -f1; "
                  "echo more >> dir/file; rm doomed; echo new > 'a b'", "--workspace", root)
        self.assert_ok(done)
        lines = done.stdout.decode().splitlines()
        self.assertEqual(lines[0], "dir/file 751 2 8 1500000000.123456789")
        self.assertEqual(lines[1], "twin 751 2 8 1500000000.123456789")
        self.assertEqual(lines[2].split()[:4], ["sparse", "644", "1", str(1 << 30)])
        self.assertEqual(lines[3:5], ["dir/file", "1"])
        self.assertTrue(lines[5].startswith("end"))
        self.assertLess(int(lines[5][3:] or lines[6]), 1024)
        self.assertEqual(fingerprint(root), before)
        changes = [line.strip() for line in done.stderr.decode().splitlines() if line[:4].strip() in ("+", "~", "-")]
        self.assertEqual(changes, ["+ a b", "~ dir/file", "- doomed", "~ twin"])
        self.assertIn("+1 ~2 -1", done.stderr.decode())

    @unittest.skipUnless(os.environ.get("TURNBOX_NIGHTLY"), "a million files take minutes: in the nightly run")
    def test_a_million_entries_are_imported(self):
        root = tempfile.mkdtemp(prefix="turnbox-million-", dir="/dev/shm")
        self.addCleanup(shutil.rmtree, root)
        for directory in range(1000):
            os.mkdir(f"{root}/d{directory:03}")
            for number in range(1000):
                with open(f"{root}/d{directory:03}/{number:03}", "wb") as file:
                    file.write(b"%d" % (directory * 1000 + number))
        done = sh("ls -U | wc -l; for d in d000 d500 d999; do ls -U $d | wc -l; done; cat d123/456 d999/999; rm d500/500",
                  "--workspace", root, timeout=1200)
        self.assert_ok(done)
        self.assertEqual(done.stdout.decode().split(), ["1000", "1000", "1000", "1000", "123456999999"])
        self.assertIn("  - d500/500\n", done.stderr.decode())
        self.assertIn("+0 ~0 -1", done.stderr.decode())

    def test_what_was_there_before_is_kept_too(self):
        root = self.tree()
        self.assert_ok(sh("rm -r dir", "--workspace", root, "--quiet"))
        turn = turns()[-1]["turn"]
        self.assertEqual(turnbox("turn", "cat", turn, "workspace-before/dir/file").stdout, b"content\n")
        self.assert_ok(turnbox("turn", "verify", turn))

    def test_socket_is_refused_by_name(self):
        root = self.scratch()
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(f"{root}/agent.sock")
            done = sh("true", "--workspace", root)
        self.assert_ok(done, 125)
        self.assertIn(b"agent.sock is a socket", done.stderr)

    def test_file_is_refused(self):
        done = sh("true", "--workspace", "/etc/passwd")
        self.assert_ok(done, 125)
        self.assertIn(b"/etc/passwd is not a directory", done.stderr)


if __name__ == "__main__":
    main()
