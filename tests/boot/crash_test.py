"""Several runs at once, parts killed in mid-run, and what the next command cleans."""
import os
import signal
import unittest

from support import (STATE, BootTest, children_of, last_record, main, processes_of, qemu_of, record, runtime_of,
                     sandbox_dirs, sh, start, turnbox, turns, wait_until)

LONG = "echo early > note; echo ready; sleep 600"


class Together(BootTest):
    def test_five_runs_at_once_all_land(self):
        before = {turn["turn"] for turn in turns()}
        runs = [start("run", "--quiet", "--", "sh", "-c", f"echo number {i} | tee $TURNBOX_OUTPUTS/n") for i in range(5)]
        said = [run.communicate(timeout=400) for run in runs]
        self.assertEqual([run.returncode for run in runs], [0] * 5, [errors for _, errors in said])
        outputs = sorted(output for output, _ in said)
        self.assertEqual(outputs, [f"number {i}\n".encode() for i in range(5)])
        new = [turn["turn"] for turn in turns() if turn["turn"] not in before]
        self.assertEqual(len(new), 5)
        kept = sorted(turnbox("turn", "cat", turn, "outputs/run/n").stdout for turn in new)
        self.assertEqual(kept, outputs)


class Killed(BootTest):
    def running(self):
        run = start("run", "--", "sh", "-c", LONG)
        self.assertEqual(run.stdout.readline(), b"ready\n")
        return run

    def ends_as_infrastructure(self, run, word):
        _, errors = run.communicate(timeout=60)
        text = errors.decode(errors="replace")
        self.assertEqual(run.returncode, 125, text)
        self.assertIn(word, text)
        kept = last_record()
        self.assertEqual((kept["status"], kept["reason"]), ("failed", "infrastructure"))
        self.assertNotIn("digest", str(kept["stages"][0]["outputs"]))
        self.assert_ok(turnbox("turn", "verify", kept["turn"]))

    def test_fsd_killed(self):
        run = self.running()
        os.kill(children_of(run.pid, "turnbox-fsd")[0], signal.SIGKILL)
        self.ends_as_infrastructure(run, "turnbox-fsd was killed by signal 9")

    def test_vsockd_killed(self):
        run = self.running()
        os.kill(children_of(run.pid, "turnbox-vsockd")[0], signal.SIGKILL)
        self.ends_as_infrastructure(run, "turnbox-vsockd was killed by signal 9")

    def test_qemu_killed(self):
        run = self.running()
        os.kill(qemu_of()[0], signal.SIGKILL)
        self.ends_as_infrastructure(run, "QEMU died")

    def test_guest_powers_off_in_mid_run(self):
        run = start("run", "--", "sh", "-c", "echo o > /proc/sysrq-trigger; sleep 600")
        self.ends_as_infrastructure(run, "switched itself off")

    def test_turnbox_killed_and_the_next_command_cleans(self):
        before = len(turns())
        run = self.running()
        other = self.running()
        run.kill()
        run.communicate(timeout=60)
        # The daemons go with their owner; QEMU and the directory stay until somebody looks.
        self.assertEqual(len(sandbox_dirs()), 2)
        self.assertEqual(len(turns()), before)
        # `turn list` cleaned what it could lock, and left the living one alone.
        self.assertEqual(len(sandbox_dirs()), 1)
        self.assertEqual(len(qemu_of()), 1)
        self.assertIsNone(other.poll())
        other.send_signal(signal.SIGTERM)
        other.communicate(timeout=60)
        self.assertEqual(other.returncode, 143)
        self.assertEqual(len(turns()), before + 1)

    def test_turnbox_killed_while_booting(self):
        run = start("run", "--", "true")
        wait_until("QEMU's start", qemu_of)
        run.kill()
        run.communicate(timeout=60)
        self.assert_ok(turnbox("turn", "list"))


if __name__ == "__main__":
    main()
