"""turnbox run: streams, exit statuses, environment, inputs."""
import hashlib
import os
import subprocess
import unittest

from support import BootTest, last_record, main, sh, start, turnbox, turns, record, wait_until, STATE


class Streams(BootTest):
    def test_ten_mebibytes_of_binary_output_arrive_byte_exact(self):
        script = ("python3 -c \"import sys,random; r=random.Random(7); "
                  "[sys.stdout.buffer.write(r.randbytes(65536)) for _ in range(160)]\"")
        done = sh(script, "--quiet")
        self.assert_ok(done)
        import random
        source = random.Random(7)
        expected = hashlib.sha256(b"".join(source.randbytes(65536) for _ in range(160))).hexdigest()
        self.assertEqual(len(done.stdout), 10 << 20)
        self.assertEqual(hashlib.sha256(done.stdout).hexdigest(), expected)
        self.assertEqual(done.stderr, b"")

    def test_output_and_error_are_apart_and_exact(self):
        done = sh(r"printf 'out\000\377\n'; printf 'err\001' >&2", "--quiet")
        self.assert_ok(done)
        self.assertEqual(done.stdout, b"out\0\xff\n")
        self.assertEqual(done.stderr, b"err\x01")

    def test_input_is_passed_whole(self):
        data = os.urandom(3 << 20)
        done = turnbox("run", "--quiet", "--", "sha256sum", input=data)
        self.assert_ok(done)
        self.assertEqual(done.stdout.split()[0].decode(), hashlib.sha256(data).hexdigest())

    def test_closed_input_is_an_empty_one(self):
        done = sh("wc -c", "--quiet")
        self.assert_ok(done)
        self.assertEqual(done.stdout.strip(), b"0")

    def test_command_that_does_not_read_its_input_ends(self):
        done = turnbox("run", "--quiet", "--", "true", input=b"x" * (1 << 20))
        self.assert_ok(done)

    def test_reader_that_goes_away_ends_the_command(self):
        run = start("run", "--quiet", "--", "yes")
        self.assertEqual(run.stdout.read(4), b"y\ny\n")
        run.stdout.close()
        _, errors = run.communicate(timeout=60)
        self.assertEqual(run.returncode, 128 + 13, errors)


class Statuses(BootTest):
    def test_exit_statuses(self):
        for script, status in (("exit 0", 0), ("exit 1", 1), ("exit 255", 255), ("kill -9 $$", 137), ("kill -15 $$", 143)):
            with self.subTest(script=script):
                done = sh(script, "--quiet")
                self.assert_ok(done, status)

    def test_not_found_is_127(self):
        done = turnbox("run", "--", "no-such-program")
        self.assert_ok(done, 127)
        self.assertIn(b"no-such-program", done.stderr)
        self.assertEqual(last_record()["status"], "failed")

    def test_not_executable_is_126(self):
        self.assert_ok(turnbox("run", "--quiet", "--", "/etc/passwd"), 126)


class Guest(BootTest):
    def test_environment_and_places(self):
        done = sh('echo "$TURNBOX_TURN|$TURNBOX_STAGE|$TURNBOX_INPUTS|$TURNBOX_OUTPUTS|$GREETING|$PWD"; id -u', "--quiet",
                  "--env", "GREETING=hello world")
        self.assert_ok(done)
        stage = "/turn/main/stages/01-run"
        self.assertEqual(done.stdout.decode().split("\n")[0],
                         f"/turn/main|{stage}|{stage}/inputs|{stage}/outputs|hello world|/workspace")

    def test_no_network_device_but_loopback(self):
        done = sh("ls /sys/class/net; python3 -c \"import socket; socket.create_connection(('192.0.2.1', 80), 2)\" "
                  "2>&1 | tail -n 1", "--quiet")
        self.assert_ok(done)
        lines = done.stdout.decode().splitlines()
        self.assertEqual(lines[0], "lo")
        self.assertIn("unreachable", lines[-1])

    def test_clock_is_the_hosts(self):
        import time
        done = sh("date +%s", "--quiet")
        self.assert_ok(done)
        self.assertLess(abs(int(done.stdout) - time.time()), 60)

    def test_tools_of_the_image(self):
        done = sh("git --version && python3 -c 'import json, ssl' && test -s /etc/ssl/certs/ca-certificates.crt && "
                  "git init -q . && git -c user.name=a -c user.email=b@c commit -q --allow-empty -m x && git log --oneline | "
                  "wc -l", "--quiet")
        self.assert_ok(done)
        self.assertEqual(done.stdout.split()[-1], b"1")

    def test_inputs_are_there_twice_and_read_only(self):
        scratch = self.scratch()
        os.makedirs(f"{scratch}/tree/sub")
        with open(f"{scratch}/tree/sub/file", "w", encoding="utf-8") as file:
            file.write("deep")
        with open(f"{scratch}/one", "w", encoding="utf-8") as file:
            file.write("single")
        done = sh('cat /turn/main/inputs/one $TURNBOX_INPUTS/one /turn/main/inputs/tree/sub/file '
                  '$TURNBOX_INPUTS/tree/sub/file; echo; '
                  'for f in /turn/main/inputs/one $TURNBOX_INPUTS/tree/sub/file; do '
                  '  (echo x > $f) 2>&1 | grep -o "Read-only file system"; done; '
                  'touch $TURNBOX_INPUTS/new 2>&1 | grep -o "Read-only file system"; '
                  'rm $TURNBOX_INPUTS/one 2>&1 | grep -o "Read-only file system"',
                  "--quiet", "--input", f"one={scratch}/one", "--input", f"tree={scratch}/tree")
        self.assert_ok(done)
        self.assertEqual(done.stdout.decode(), "singlesingledeepdeep\n" + "Read-only file system\n" * 4)
        kept = last_record()
        self.assertEqual([entry["name"] for entry in kept["inputs"]], ["one", "tree"])

    def test_outputs_are_kept(self):
        done = sh('printf done > $TURNBOX_OUTPUTS/result; mkdir $TURNBOX_OUTPUTS/empty')
        self.assert_ok(done)
        turn = turns()[-1]["turn"]
        self.assertEqual(turnbox("turn", "cat", turn, "outputs/run/result").stdout, b"done")
        files = turnbox("turn", "files", turn).stdout.decode()
        self.assertIn("outputs/run/empty", files)

    def test_events_of_the_command_are_kept(self):
        done = sh('echo \'{"note": "hello"}\' >> /turn/main/events; '
                  'echo nonsense | tee -a /turn/main/events 2>&1 >/dev/null | grep -o "Invalid argument"', "--quiet")
        self.assert_ok(done)
        self.assertEqual(done.stdout, b"Invalid argument\n")
        turn = turns()[-1]["turn"]
        log = turnbox("turn", "cat", turn, "events").stdout.splitlines()
        self.assertEqual(log[0], b'{"turnbox":{"event":"command_started","stage":"run"}}')
        self.assertIn(b'{"note": "hello"}', log)
        self.assertEqual(log[-1], b'{"turnbox":{"event":"command_ended","stage":"run"}}')
        self.assertEqual(record(turn)["events"]["count"], len(log))

    def test_eight_boots_in_a_row(self):
        before = len(turns())
        for _ in range(8):
            self.assert_ok(turnbox("run", "--quiet", "--", "true"))
        self.assertEqual(len(turns()), before + 8)


class Summary(BootTest):
    def test_summary_and_record_file(self):
        scratch = self.scratch()
        done = sh("echo hi > new", "--record", f"{scratch}/record.json")
        self.assert_ok(done)
        turn = turns()[-1]
        text = done.stderr.decode()
        self.assertIn(turn["turn"], text)
        self.assertIn(turn["record"], text)
        self.assertIn("completed, exit 0", text)
        self.assertIn("emulated" if turn["tier"] == "emulated" else "hardware", text)
        self.assertIn("+ new", text)
        self.assertIn("+1 ~0 -0", text)
        with open(f"{scratch}/record.json", "rb") as file:
            self.assertEqual(file.read() + b"\n", turnbox("turn", "show", turn["turn"], "--json").stdout)
        self.assertNotIn("\x1b", text)


if __name__ == "__main__":
    main()
