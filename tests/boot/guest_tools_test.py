"""What real tools lean on, in a guest on /workspace: the programs of tests/mount/real, and overlayfs above the share.

TURNBOX_NIGHTLY=1 takes the long ones too; TURNBOX_SQLITE_SECONDS says how long SQLite works (20 unless given).
"""
import os
import unittest

import support
from support import BootTest, turnbox

REAL = os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "mount", "real")
NIGHTLY = os.environ.get("TURNBOX_NIGHTLY") == "1"
SECONDS = os.environ.get("TURNBOX_SQLITE_SECONDS", "20")

# An upper layer on the share: whiteouts, opaque directories and copies up are device nodes, xattrs and renames there.
OVERLAY = r"""
set -eu; cd /workspace; mkdir lower upper work merged lower/dir lower/dir/deep
for i in 1 2 3 4 5; do echo "lower $i" >lower/dir/$i; done; echo deep >lower/dir/deep/file; echo same >lower/same
mount -t overlay overlay -o lowerdir=lower,upperdir=upper,workdir=work merged
cd merged; echo changed >dir/1; rm dir/2; mv dir/3 dir/three; rm -r dir/deep; mkdir dir/deep; echo new >dir/deep/new
chmod 700 dir/4; ln dir/5 dir/five; cat dir/1 dir/deep/new; ls dir dir/deep; cd ..
test "$(stat -c %t:%T:%F upper/dir/2)" = "0:0:character special file"
umount merged; mount -t overlay overlay -o lowerdir=lower,upperdir=upper,workdir=work merged
test ! -e merged/dir/2; test ! -e merged/dir/3; test ! -e merged/dir/deep/file; test "$(cat merged/dir/three)" = "lower 3"
test "$(stat -c %a merged/dir/4)" = 700; test "$(cat merged/same)" = same; umount merged; echo whole
"""


class InGuest(BootTest):
    def real(self, program, *tests, **variables):
        words = [word for name, value in variables.items() for word in ("--env", f"{name}={value}")]
        done = turnbox("run", "--quiet", "--memory", "1024", "--input", f"real={REAL}", *words,
                       "--env", "PYTHONDONTWRITEBYTECODE=1", "--env", "TURNBOX_PLACE=/workspace", "--", "sh", "-c",
                       f"exec python3 $TURNBOX_INPUTS/real/{program}_test.py {' '.join(tests)} 2>&1", timeout=3600)
        text = done.stdout.decode(errors="replace")
        self.assertEqual(done.returncode, 0, text + done.stderr.decode(errors="replace"))
        self.assertRegex(text, r"Ran \d+ tests?")

    def test_attributes(self):
        self.real("attr")

    def test_content(self):
        self.real("content")

    def test_locks(self):
        self.real("lock")

    def test_names(self):
        self.real("name", TURNBOX_NAMES=100_000 if NIGHTLY else 5_000)

    def test_git(self):
        self.real("tool", "Git")

    def test_trees_of_links(self):
        self.real("tool", "Tools.test_a_tree_of_hard_links_and_symlinks")

    def test_sqlite(self):
        self.real("sqlite", TURNBOX_SQLITE_SECONDS=SECONDS)

    @unittest.skipUnless(NIGHTLY, "nightly")
    def test_overlayfs_with_its_upper_layer_on_the_share(self):
        done = support.sh(OVERLAY)
        text = done.stdout.decode(errors="replace")
        self.assertEqual(done.returncode, 0, text + done.stderr.decode(errors="replace"))
        self.assertTrue(text.endswith("whole\n"), text)


if __name__ == "__main__":
    support.main()
