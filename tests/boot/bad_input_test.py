"""Every kind of bad input: one clear sentence, the right status, nothing left, never half a record."""
import json
import os
import shutil
import subprocess
import unittest

from support import STATE, BootTest, main, sh, start, turnbox, turns


def image_dir(state=STATE, name="default"):
    return os.path.realpath(f"{state}/images/{name}")


class Usage(BootTest):
    def refused(self, words, status, *parts):
        before = len(turns())
        done = turnbox(*words)
        text = done.stderr.decode()
        self.assertEqual(done.returncode, status, text)
        self.assertTrue(text.startswith("turnbox: "), text)
        self.assertEqual(len(text.splitlines()), 1, text)
        self.assertEqual(done.stdout, b"")
        for part in parts:
            self.assertIn(part, text)
        self.assertEqual(len(turns()), before)

    def test_usage_is_2(self):
        for words, part in (
                ((), "no verb"),
                (("fly",), "no verb fly"),
                (("turn", "fly"), "fly"),
                (("run",), "no command"),
                (("run", "--"), "no command"),
                (("run", "--frobnicate", "--", "true"), "--frobnicate"),
                (("run", "true"), "true"),
                (("run", "--tier", "gold", "--", "true"), "gold is not hardware or emulated"),
                (("run", "--memory", "lots", "--", "true"), "lots is no whole number from 1 to"),
                (("run", "--vcpus", "0", "--", "true"), "0 is no whole number from 1 to 64"),
                (("run", "--timeout", "-1", "--", "true"), "-1 is no number of seconds above 0"),
                (("run", "--timeout", "nan", "--", "true"), "nan is no number of seconds above 0"),
                (("run", "--input", "a/b=/etc/passwd", "--", "true"), "a/b"),
                (("run", "--input", "..=/etc/passwd", "--", "true"), ".."),
                (("run", "--input", "nopath", "--", "true"), "NAME=PATH"),
                (("run", "--input", "a=/etc/passwd", "--input", "a=/etc/group", "--", "true"), "twice"),
                (("run", "--env", "novalue", "--", "true"), "K=V"),
                (("turn", "show"), "ID"),
                (("turn", "show", "--bogus", "x"), "--bogus"),
        ):
            with self.subTest(words=words):
                self.refused(words, 2, part)

    def test_what_is_not_there_is_125(self):
        for words, part in (
                (("run", "--image", "nope", "--", "true"), "turnbox image build"),
                (("run", "--workspace", "/no/such/dir", "--", "true"), "/no/such/dir"),
                (("run", "--input", "a=/no/such/file", "--", "true"), "/no/such/file"),
                (("run", "--memory", "16", "--", "true"), "too small"),
                (("turn", "show", "01NOSUCHTURN"), "01NOSUCHTURN"),
        ):
            with self.subTest(words=words):
                self.refused(words, 125, part)

    def test_hardware_tier_without_kvm_is_refused_with_the_reason(self):
        doctor = turnbox("doctor").stdout.decode()
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            flags = file.read().split()
        if "emulated" not in doctor or "vmx" in flags or "svm" in flags:
            self.skipTest("this host may have KVM")
        self.refused(("run", "--tier", "hardware", "--", "true"), 125, "KVM")

    def test_every_verb_has_help(self):
        overview = turnbox("--help").stdout.decode()
        verbs = [line[2:].split("  ")[0] for line in overview.splitlines() if line.startswith("  ") and line[2].islower()]
        self.assertGreaterEqual(len(verbs), 21)
        for verb in verbs:
            done = turnbox(*verb.split(), "--help")
            self.assert_ok(done)
            self.assertIn(f"usage: turnbox {verb}", done.stdout.decode())
            self.assertIn("example\n", done.stdout.decode())


class Images(BootTest):
    def test_changed_image_is_refused(self):
        state = self.scratch()
        os.makedirs(f"{state}/images")
        shutil.copytree(image_dir(), f"{state}/images/{os.path.basename(image_dir())}")
        os.symlink(os.path.basename(image_dir()), f"{state}/images/default")
        self.assert_ok(turnbox("image", "verify", state=state))
        with open(f"{image_dir(state)}/root.erofs", "r+b") as file:
            file.seek(123_456)
            byte = file.read(1)
            file.seek(123_456)
            file.write(bytes([byte[0] ^ 1]))
        done = sh("true", state=state)
        self.assert_ok(done, 125)
        self.assertIn(b"root.erofs", done.stderr)
        self.assert_nothing_left(state)

    def variant(self, change):
        """A state directory with an image of its own, whole by its digests, whose initramfs was changed."""
        import hashlib
        state = self.scratch()
        os.makedirs(f"{state}/images")
        work = f"{state}/images/work"
        shutil.copytree(image_dir(), work)
        change(f"{work}/initramfs")
        with open(f"{work}/image.json", "rb") as file:
            described = json.loads(file.read())
        with open(f"{work}/initramfs", "rb") as file:
            content = file.read()
        entry = next(entry for entry in described["files"] if entry["name"] == "initramfs")
        entry.update(sha256=hashlib.sha256(content).hexdigest(), size=str(len(content)))
        text = json.dumps(described, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
        digest = hashlib.sha256(b"turnbox.image.v1\0" + text).hexdigest()
        with open(f"{work}/image.json", "wb") as file:
            file.write(text)
        os.rename(work, f"{state}/images/{digest}")
        os.symlink(digest, f"{state}/images/default")
        for leftover in os.listdir(f"{state}/images/{digest}"):
            if "stamp" in leftover:
                os.unlink(f"{state}/images/{digest}/{leftover}")
        return state

    def test_kernel_that_panics_shows_the_console(self):
        def empty(path):
            with open(path, "wb") as file:
                file.truncate(0)
        state = self.variant(empty)
        done = sh("true", state=state)
        self.assert_ok(done, 125)
        self.assertIn(b"Kernel panic", done.stderr)
        self.assertIn(b"panicked", done.stderr)
        self.assert_nothing_left(state)

    def test_guest_that_never_answers_meets_the_boot_deadline(self):
        state = self.variant(lambda path: self.replace_init(path))
        done = sh("true", "--boot-timeout", "12", state=state)
        self.assert_ok(done, 125)
        self.assertIn(b"did not answer within 12 s", done.stderr)
        self.assertIn(b"here I sit", done.stderr)
        self.assert_nothing_left(state)

    def replace_init(self, path):
        """An initramfs whose /init says one line and then waits for ever."""
        scratch = self.scratch()
        source = (b"#include <fcntl.h>\n#include <unistd.h>\nint main(void) { int fd = open(\"/dev/console\", O_WRONLY);"
                  b" if (write(fd, \"here I sit\\n\", 11)) {} for (;;) pause(); }\n")
        with open(f"{scratch}/init.c", "wb") as file:
            file.write(source)
        subprocess.run(["gcc", "-static", "-o", f"{scratch}/init", f"{scratch}/init.c"], check=True)
        os.makedirs(f"{scratch}/root/dev")
        shutil.copy(f"{scratch}/init", f"{scratch}/root/init")
        os.mknod(f"{scratch}/root/dev/console", 0o20600, os.makedev(5, 1))
        listing = b"\n".join([b".", b"dev", b"dev/console", b"init"])
        archive = subprocess.run(["cpio", "-o", "-H", "newc", "--quiet"], cwd=f"{scratch}/root", input=listing,
                                 capture_output=True, check=True).stdout
        with open(path, "wb") as file:
            file.write(archive)

    def test_memory_too_small_to_boot_is_refused_and_the_least_boots(self):
        few = sh("true", "--memory", "127")
        self.assert_ok(few, 125)
        self.assertIn(b"give 128 or more", few.stderr)
        self.assert_ok(sh("true", "--memory", "128"), 0)


class States(BootTest):
    def with_image(self, state):
        os.makedirs(f"{state}/images", exist_ok=True)
        os.symlink(image_dir(), f"{state}/images/{os.path.basename(image_dir())}")
        os.symlink(os.path.basename(image_dir()), f"{state}/images/default")

    def test_state_that_is_no_directory(self):
        scratch = self.scratch()
        with open(f"{scratch}/file", "w", encoding="utf-8"):
            pass
        done = sh("true", state=f"{scratch}/file")
        self.assert_ok(done, 125)
        self.assertIn(b"--state", done.stderr)

    @unittest.skipUnless(os.geteuid() == 0, "mounts need root")
    def test_store_of_a_newer_schema_is_refused_by_every_verb_and_stays_as_it_is(self):
        state = self.scratch()
        self.assert_ok(turnbox("turn", "list", state=state))
        subprocess.run([os.environ["TURNBOX_STORE_CHILD"], "schema", state, "7"], check=True)
        with open(f"{state}/store/data.mdb", "rb") as file:
            before = file.read()
        for words in (("turn", "list"), ("turn", "show", "01JD"), ("turn", "verify", "01JD"), ("workspace", "list"),
                      ("workspace", "ls", "01JD"), ("run", "--from", "01JD", "--", "true")):
            with self.subTest(words=words):
                done = turnbox(*words, state=state)
                text = done.stderr.decode()
                self.assertEqual(done.returncode, 125, text)
                self.assertEqual(len(text.splitlines()), 1, text)
                self.assertIn("schema version 7" if words[0] != "run" else "", text)
        with open(f"{state}/store/data.mdb", "rb") as file:
            self.assertEqual(file.read(), before)

    def test_read_only_state(self):
        scratch = self.scratch()
        subprocess.run(["mount", "-t", "tmpfs", "-o", "ro,size=1m", "none", scratch], check=True)
        try:
            done = sh("true", state=scratch)
        finally:
            subprocess.run(["umount", scratch], check=True)
        self.assert_ok(done, 125)
        self.assertIn(scratch.encode(), done.stderr)
        self.assertIn(b"--state", done.stderr)

    @unittest.skipUnless(os.geteuid() == 0, "mounts need root")
    def test_full_disk_at_commit_and_space_again(self):
        scratch = self.scratch()
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24m", "none", scratch], check=True)
        try:
            self.with_image(scratch)
            self.assert_ok(sh("true", "--quiet", state=scratch))
            done = sh("head -c 40000000 /dev/urandom > $TURNBOX_OUTPUTS/large", "--quiet", state=scratch)
            self.assert_ok(done, 125)
            self.assertIn(b"not recorded", done.stderr)
            self.assertIn(b"no space is left", done.stderr)
            self.assert_nothing_left(scratch)
            self.assertEqual(len(turns(scratch)), 1)
            subprocess.run(["mount", "-o", "remount,size=200m", scratch], check=True)
            self.assert_ok(sh("echo again > $TURNBOX_OUTPUTS/small", "--quiet", state=scratch))
            self.assertEqual(len(turns(scratch)), 2)
            self.assert_ok(turnbox("turn", "verify", turns(scratch)[-1]["turn"], state=scratch))
        finally:
            subprocess.run(["umount", scratch], check=True)


if __name__ == "__main__":
    main()
