"""turnbox turn: what a record says, that it verifies, and that a stranger can check an export."""
import os
import subprocess
import sys
import tarfile

from support import BootTest, main, record, sh, turnbox, turns

VERIFIER = os.environ["TURNBOX_VERIFIER"]


class Records(BootTest):
    @classmethod
    def setUpClass(cls):
        done = sh(r'mkdir -p a/b; f=a/$(printf "\351"); printf x > "$f"; ln "$f" hard; ln -s hard soft; mkdir void; '
                  "truncate -s 1T huge; echo result > $TURNBOX_OUTPUTS/result")
        assert done.returncode == 0, done.stderr
        cls.turn = turns()[-1]["turn"]

    def test_show_says_what_happened(self):
        kept = record(self.turn)
        self.assertEqual(kept["turn"], self.turn)
        self.assertEqual((kept["account"], kept["project"], kept["thread"]), ("local", "default", "main"))
        self.assertEqual(kept["demand"], "run-" + self.turn[-8:].lower())
        self.assertEqual(kept["status"], "completed")
        self.assertEqual(kept["chain_index"], 0)
        self.assertEqual(kept["sandbox"]["fresh"], True)
        self.assertIn("network", kept["capture"]["denied"])
        text = turnbox("turn", "show", self.turn).stdout.decode()
        self.assertIn("completed", text)

    def test_verify_recomputes_everything(self):
        done = turnbox("turn", "verify", self.turn)
        self.assert_ok(done)
        self.assertIn(b"GOOD", done.stdout)

    def test_prefix_and_unknown_ids(self):
        self.assert_ok(turnbox("turn", "show", self.turn[:24]))
        self.assert_ok(turnbox("turn", "show", "0000NOPE"), 125)

    def test_export_is_checked_by_a_stranger(self):
        scratch = self.scratch()
        self.assert_ok(turnbox("turn", "export", self.turn, f"{scratch}/turn.tar"))
        checked = subprocess.run([sys.executable, "-I", VERIFIER, f"{scratch}/turn.tar"], capture_output=True, check=False)
        self.assertEqual(checked.returncode, 0, checked.stdout + checked.stderr)
        again = turnbox("turn", "export", self.turn, "-")
        with open(f"{scratch}/turn.tar", "rb") as file:
            self.assertEqual(file.read(), again.stdout)

    def test_export_that_was_touched_fails(self):
        scratch = self.scratch()
        self.assert_ok(turnbox("turn", "export", self.turn, f"{scratch}/turn.tar"))
        with tarfile.open(f"{scratch}/turn.tar") as tar:
            member = max((m for m in tar.getmembers() if "objects/" in m.name and m.size), key=lambda m: m.size)
            offset = member.offset_data
        with open(f"{scratch}/turn.tar", "r+b") as file:
            file.seek(offset)
            byte = file.read(1)
            file.seek(offset)
            file.write(bytes([byte[0] ^ 1]))
        checked = subprocess.run([sys.executable, "-I", VERIFIER, f"{scratch}/turn.tar"], capture_output=True, check=False)
        self.assertEqual(checked.returncode, 1, checked.stdout + checked.stderr)

    def test_files_and_cat(self):
        files = turnbox("turn", "files", self.turn).stdout.decode()
        for name in ("workspace/a/b", "workspace/hard", "workspace/soft", "workspace/void", "outputs/run/result",
                     "workspace/huge", r"\xe9"):
            self.assertIn(name, files)
        self.assertEqual(turnbox("turn", "cat", self.turn, "outputs/run/result").stdout, b"result\n")
        self.assertEqual(turnbox("turn", "cat", self.turn, "workspace/nothing").returncode, 125)


if __name__ == "__main__":
    main()
