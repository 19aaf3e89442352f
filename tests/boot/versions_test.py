"""turnbox workspace and run --apply/--from, from the outside, on real runs. Few boots: each is worth several looks."""
import json
import os
import subprocess
import tarfile
import unittest

from support import BootTest, last_record, main, sandbox_dirs, sh, start, turnbox, turns


def read(path):
    with open(path, "rb") as file:
        return file.read()


def tree_of(path):
    """path → (type, mode, content) of everything below."""
    found = {}
    for top, dirs, files in os.walk(path):
        for name in dirs + files:
            at = os.path.join(top, name)
            st = os.lstat(at)
            kind = "d" if os.path.isdir(at) and not os.path.islink(at) else "l" if os.path.islink(at) else "f"
            content = os.readlink(at) if kind == "l" else read(at) if kind == "f" else None
            found[os.path.relpath(at, path)] = (kind, st.st_mode & 0o7777, content)
    return found


class Stored(BootTest):
    def project(self):
        path = self.scratch() + "/project"
        os.makedirs(path + "/src")
        for name, text in (("keep", "keep\n"), ("edit", "old\n"), ("drop", "drop\n"), ("src/a", "a\n")):
            with open(f"{path}/{name}", "w", encoding="utf-8") as file:
                file.write(text)
        os.symlink("keep", path + "/link")
        return path

    SCRIPT = ("echo new > edit; rm drop; mkdir made; echo x > made/x; chmod 755 keep; ln made/x made/y; ln -s ../src made/to; "
              "touch -d @1000000000 made/x")

    def workspace(self, *words, status=0):
        done = turnbox("workspace", *words)
        self.assert_ok(done, status)
        return done.stdout.decode()

    def test_apply_then_look_at_the_versions_of_the_turn(self):
        project = self.project()
        done = sh(self.SCRIPT, "--workspace", project, "--apply")
        self.assert_ok(done)
        self.assertIn(b"applied", done.stderr)
        self.assertEqual(read(project + "/edit"), b"new\n")
        self.assertFalse(os.path.exists(project + "/drop"))
        self.assertEqual(os.stat(project + "/keep").st_mode & 0o7777, 0o755)
        self.assertEqual(os.stat(project + "/made/x").st_ino, os.stat(project + "/made/y").st_ino)
        self.assertEqual(os.stat(project + "/made/x").st_mtime, 1000000000)
        self.assertEqual(os.readlink(project + "/made/to"), "../src")
        turn = turns()[-1]["turn"]

        # diff, by digests
        lines = self.workspace("diff", turn + ":before", turn).splitlines()
        self.assertEqual(sorted(lines), sorted(["- drop", "~ edit", "~ keep  (mode 0644 → 0755)", "+ made/", "+ made/to", "+ made/x",
                                                "+ made/y"]))
        self.assertEqual(self.workspace("diff", turn + ":before", turn, "--stat"),
                         "4 added, 2 changed (1 modes), 1 removed\n")
        changes = json.loads(self.workspace("diff", turn, turn + ":before", "--json"))["changes"]
        self.assertIn({"change": "+", "type": "f", "path": "drop"}, changes)
        self.assertEqual(self.workspace("diff", turn, turn), "")

        # ls, cat
        names = [line.split()[-1] for line in self.workspace("ls", turn, "made").splitlines()]
        self.assertEqual(names, ["to", "x", "y"])
        entries = json.loads(self.workspace("ls", turn + ":before", "--json"))["entries"]
        self.assertIn({"type": "f", "mode": "0644", "size": "4", "name": "edit"}, entries)
        self.assertEqual(self.workspace("cat", turn + ":before", "edit"), "old\n")
        self.assertEqual(self.workspace("cat", turn, "made/to"), "../src")

        # export: what comes out is what was applied
        out = self.scratch()
        self.workspace("export", turn, out + "/v")
        self.assertEqual(tree_of(out + "/v"), tree_of(project))
        again = turnbox("workspace", "export", turn, out + "/v")
        self.assertEqual(again.returncode, 125)
        self.assertIn(b"not empty", again.stderr)
        self.workspace("export", turn + ":before", out + "/v.tar")
        with tarfile.open(out + "/v.tar") as archive:
            self.assertEqual(archive.extractfile("drop").read(), b"drop\n")
            self.assertEqual(archive.getmember("link").linkname, "keep")

        # a fork of the store, and a run from it
        name = "fork-" + turn[-8:].lower()
        self.assertEqual(self.workspace("fork", turn + ":before", name), name + "\n")
        taken = turnbox("workspace", "fork", turn, name)
        self.assertEqual(taken.returncode, 125)
        self.assertIn(name.encode(), taken.stderr)
        listed = json.loads(self.workspace("list", "--json"))
        self.assertIn((name, turn + ":before"), [(row["version"], row["origin"]) for row in listed["forks"]])
        self.assertIn(turn + ":after", [row["version"] for row in listed["stored"]])
        before = last_record()["workspace"]["before"]
        done = sh("cat edit drop; stat -c %Y keep", "--from", name, "--quiet")
        self.assert_ok(done)
        self.assertEqual(done.stdout.splitlines()[:2], [b"old", b"drop"])
        self.assertEqual(last_record()["workspace"]["before"]["content"], before["content"])
        self.workspace("rm", name)
        gone = turnbox("workspace", "ls", name)
        self.assertEqual(gone.returncode, 125)
        self.assertIn(name.encode(), gone.stderr)

    def test_apply_refuses_what_changed_meanwhile_and_the_turn_is_recorded(self):
        project = self.project()
        run = start("run", "--workspace", project, "--apply", "--", "sh", "-c", "echo up; read x; echo new > edit; echo y > other",
                    stdin=subprocess.PIPE)
        self.assertEqual(run.stdout.readline(), b"up\n")
        with open(project + "/edit", "w", encoding="utf-8") as file:
            file.write("mine\n")
        before = tree_of(project)
        _, errors = run.communicate(b"go\n", timeout=120)
        self.assertEqual(run.returncode, 125, errors)
        self.assertIn((project + "/edit").encode(), errors)
        self.assertEqual(tree_of(project), before)
        self.assertEqual(last_record()["status"], "completed")

    def test_apply_does_nothing_after_a_failed_command(self):
        project = self.project()
        before = tree_of(project)
        done = sh("echo new > edit; exit 3", "--workspace", project, "--apply")
        self.assert_ok(done, 3)
        self.assertIn(b"nothing was applied", done.stderr)
        self.assertEqual(tree_of(project), before)

    @unittest.skipUnless(os.geteuid() == 0, "mounts")
    def test_apply_onto_a_read_only_directory_is_one_sentence(self):
        project = self.project()
        subprocess.run(["mount", "--bind", project, project], check=True)
        self.addCleanup(subprocess.run, ["umount", project], check=True)
        subprocess.run(["mount", "-o", "remount,bind,ro", project], check=True)
        count = len(turns())
        done = sh("echo new > edit", "--workspace", project, "--apply", "--quiet")
        self.assert_ok(done, 125)
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        self.assertIn(b"cannot be written to", done.stderr)
        self.assertEqual(read(project + "/edit"), b"old\n")
        self.assertEqual(len(turns()), count + 1)


class Live(BootTest):
    def workspace(self, *words, status=0):
        done = turnbox("workspace", *words)
        self.assert_ok(done, status)
        return done.stdout.decode()

    def write_to(self, fork, snapshot):
        """A fork is mounted for writing; the snapshot it began as stays, and is not."""
        refused = turnbox("mount", snapshot, self.scratch(), "--write")
        self.assertEqual(refused.returncode, 125)
        self.assertIn(b"fork", refused.stderr)
        directory = self.scratch()
        mount = start("mount", fork, directory, "--write")
        self.assertIn(b"for writing", mount.stdout.readline())
        with open(directory + "/written", "w", encoding="utf-8") as file:
            file.write("from outside\n")
        subprocess.run(["umount", directory], check=True)
        mount.communicate(timeout=60)
        self.assertEqual(self.workspace("cat", fork, "written"), "from outside\n")
        self.assertEqual(self.workspace("diff", snapshot, fork), "+ written\n")

    def test_a_running_sandbox_is_kept_compared_and_put_back(self):
        script = "echo one > file; chmod 600 file; echo up; read x; echo two > file; chmod 644 file; echo more > more; echo again; read x"
        run = start("run", "--", "sh", "-c", script, stdin=subprocess.PIPE)
        self.assertEqual(run.stdout.readline(), b"up\n")
        demand = json.loads(self.workspace("list", "--json"))["live"][0]["demand"]
        self.assertEqual(self.workspace("snapshot", demand, "first"), f"{demand}@first\n")
        run.stdin.write(b"go\n")
        run.stdin.flush()
        self.assertEqual(run.stdout.readline(), b"again\n")
        self.assertEqual(self.workspace("snapshot", demand), f"{demand}@snap-1\n")

        self.assertEqual(self.workspace("cat", f"{demand}@first", "file"), "one\n")
        self.assertEqual(self.workspace("cat", demand, "file"), "two\n")
        self.assertEqual(self.workspace("diff", f"{demand}@first", f"{demand}@snap-1").splitlines(),
                         ["~ file  (mode 0600 → 0644)", "+ more"])
        versions = [row["version"] for row in json.loads(self.workspace("list", demand, "--json"))["live"]]
        self.assertEqual(versions, [demand, f"{demand}@first", f"{demand}@snap-1"])

        # a live version against a stored one, and out of the sandbox
        stored = turns()[-1]["turn"] if turns() else None
        if stored:
            self.assertIn("+ more", self.workspace("diff", stored + ":before", demand).splitlines())
        out = self.scratch()
        self.workspace("export", f"{demand}@first", out + "/v")
        self.assertEqual(tree_of(out + "/v"), {"file": ("f", 0o600, b"one\n")})

        # a fork is another tree, and begins as the snapshot
        self.assertEqual(self.workspace("fork", f"{demand}@first", "try"), f"{demand}@try\n")
        self.assertEqual(self.workspace("diff", f"{demand}@first", f"{demand}@try"), "")
        self.assertIn("+ more", self.workspace("diff", f"{demand}@try", demand).splitlines())
        if os.path.exists("/dev/fuse"):
            self.write_to(f"{demand}@try", f"{demand}@first")
        self.workspace("rm", f"{demand}@try")

        # restore: refused while the command runs, which is named; then it is ended
        refused = turnbox("workspace", "restore", demand, f"{demand}@first")
        self.assertEqual(refused.returncode, 125)
        turn = [d for d in sandbox_dirs() if d.endswith(demand)]
        self.assertTrue(turn)
        self.assertIn(demand[-8:].upper().encode(), refused.stderr)
        self.assertIn("restored", self.workspace("restore", demand, f"{demand}@first", "--end"))
        run.communicate(timeout=120)
        self.assertEqual(run.returncode, 137)
        record = last_record()
        self.assertEqual(record["reason"], "command")
        self.assertEqual(self.workspace("cat", record["turn"], "file"), "one\n")
        self.assertEqual(self.workspace("ls", record["turn"]).split()[1], "0600")


class Words(BootTest):
    def test_wrong_words(self):
        for words, status, part in (
                (("workspace",), 2, "needs a verb"),
                (("workspace", "fly"), 2, "fly"),
                (("workspace", "ls", "NO/SUCH"), 2, "DEMAND@NAME"),
                (("workspace", "ls", "no-such"), 125, "no-such"),
                (("workspace", "ls", "no-such@x"), 125, "no-such"),
                (("workspace", "snapshot", "no-such"), 125, "no-such"),
                (("workspace", "ls", "01NOSUCHTURN"), 125, "01NOSUCHTURN"),
                (("workspace", "fork", "01NOSUCHTURN", "2bad"), 2, "2bad"),
                (("workspace", "restore", "run-1", "01JD"), 2, "run-1@NAME"),
                (("workspace", "rm", "01JD"), 125, "record"),
                (("run", "--apply", "--", "true"), 2, "--workspace"),
                (("run", "--from", "x", "--workspace", "/tmp", "--", "true"), 2, "one of them"),
                (("run", "--from", "no-such-fork", "--", "true"), 125, "no-such-fork"),
                (("run", "--from", "run-1@x", "--", "true"), 2, "running sandbox"),
        ):
            with self.subTest(words=words):
                done = turnbox(*words)
                text = done.stderr.decode()
                self.assertEqual(done.returncode, status, text)
                self.assertEqual(len(text.splitlines()), 1, text)
                self.assertIn(part, text)

    def test_every_verb_has_help(self):
        for verb in ("list", "snapshot", "fork", "diff", "ls", "cat", "export", "restore", "rm"):
            done = turnbox("workspace", verb, "--help")
            self.assert_ok(done)
            self.assertTrue(done.stdout.startswith(b"usage: turnbox workspace " + verb.encode()))


if __name__ == "__main__":
    main()
