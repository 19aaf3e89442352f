"""turnbox run: time-outs and cancellation."""
import signal
import time

from support import BootTest, last_record, main, sh, start, turnbox, turns


class TimeOut(BootTest):
    def test_timeout_is_124_and_takes_everything_along(self):
        # The grandchild left the session and ignores signals: only killing the whole tree ends it.
        began = time.monotonic()
        done = sh("setsid sh -c 'trap \"\" TERM INT HUP; while :; do sleep 1; done' & echo started; sleep 600",
                  "--timeout", "3")
        self.assert_ok(done, 124)
        self.assertEqual(done.stdout, b"started\n")
        self.assertLess(time.monotonic() - began, 100)
        kept = last_record()
        self.assertEqual((kept["status"], kept["reason"]), ("cancelled", "timeout"))
        self.assertIs(kept["stages"][0]["exit"]["timed_out"], True)

    def test_what_was_written_before_the_timeout_is_kept(self):
        self.assert_ok(sh("echo kept > $TURNBOX_OUTPUTS/early; sleep 600", "--timeout", "3", "--quiet"), 124)
        self.assertEqual(turnbox("turn", "cat", turns()[-1]["turn"], "outputs/run/early").stdout, b"kept\n")


class Cancel(BootTest):
    def cancel(self, number, status):
        run = start("run", "--", "sh", "-c", "echo early > note; echo ready; sleep 600")
        self.assertEqual(run.stdout.readline(), b"ready\n")
        run.send_signal(number)
        _, errors = run.communicate(timeout=60)
        self.assertEqual(run.returncode, status, errors.decode(errors="replace"))
        kept = last_record()
        self.assertEqual((kept["status"], kept["reason"]), ("cancelled", "signal"))
        self.assertIs(kept["capture"]["flushed"], True)
        self.assertEqual(turnbox("turn", "cat", kept["turn"], "workspace/note").stdout, b"early\n")

    def test_interrupt_is_130(self):
        self.cancel(signal.SIGINT, 130)

    def test_terminate_is_143(self):
        self.cancel(signal.SIGTERM, 143)

    def test_cancel_while_booting(self):
        run = start("run", "--", "true")
        time.sleep(0.6)
        run.send_signal(signal.SIGTERM)
        _, errors = run.communicate(timeout=60)
        self.assertEqual(run.returncode, 143, errors.decode(errors="replace"))
        self.assertEqual(last_record()["status"], "cancelled")


if __name__ == "__main__":
    main()
