#!/usr/bin/env python3
"""What embedded libvirt can carry: cold and warm caches, runs side by side, kill -9 at every point of a life, an
unprivileged user, a user of its own for QEMU. Prints one line a trial and, at the end, the table that
docs/decisions/0161-embedded-libvirt.md quotes. Exits 77 without a kernel to boot.

usage: risk_libvirt.py DOMAIN_PROBE MINI_INIT
"""

import glob
import gzip
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

import support

BASE = tempfile.mkdtemp(prefix="tbrisk-", dir="/tmp")
PROBE, INIT = BASE + "/domain_probe", sys.argv[2]
OWN_UID = 1879044096  # below turnbox's own range, above every account
rows = []
failures = []


def find_kernel():
    support.prepare_image()
    return os.path.realpath(f"{support.STATE}/images/default/kernel")


def cpio(name, mode, data=b"", rdev=(0, 0)):
    head = "070701" + "".join("%08X" % n for n in (
        cpio.ino, mode, 0, 0, 1, 0, len(data), 0, 0, rdev[0], rdev[1], len(name) + 1, 0))
    cpio.ino += 1
    out = head.encode() + name.encode() + b"\0"
    out += b"\0" * (-len(out) % 4) + data
    return out + b"\0" * (-len(out) % 4)


cpio.ino = 1


def make_initramfs(path):
    with open(INIT, "rb") as f:
        init = f.read()
    archive = cpio("dev", 0o40755) + cpio("dev/console", 0o20600, rdev=(5, 1)) + cpio("init", 0o100755, init)
    with open(path, "wb") as f:
        f.write(gzip.compress(archive + cpio("TRAILER!!!", 0), 1))


def qemu_below(path):
    """Independent of the code under test: every QEMU with this path in its arguments."""
    found = []
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            with open(f"/proc/{entry}/cmdline", "rb") as f:
                words = f.read().split(b"\0")
        except OSError:
            continue
        if b"qemu-system" in words[0] and any(path.encode() + b"/" in w for w in words[1:]):
            found.append(int(entry))
    return found


class Run:
    count = 0

    def __init__(self, cache, *options, wrap=()):
        Run.count += 1
        self.dir = os.path.join(BASE, f"r{Run.count}")
        os.mkdir(self.dir)
        os.chmod(self.dir, 0o777)
        self.root = self.dir + "/v"
        self.seen = {}
        self.other = []
        self.process = subprocess.Popen(
            [*wrap, PROBE, self.root, cache, KERNEL, INITRAMFS, *options],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, errors="replace",
            env={"PATH": "/usr/bin:/bin", "HOME": "/nonexistent"})

    def until(self, word):
        """Reads events up to `word`; its rest, or None at the end of the output."""
        for line in self.process.stdout:
            ms, _, what = line.rstrip("\n").partition(" ")
            if not ms.isdigit():
                self.other.append(line.rstrip("\n"))  # the console's last lines
                continue
            name, _, rest = what.partition(" ")
            self.seen[name] = (int(ms), rest)
            if name == word:
                return rest
        return None

    def ms(self, first, last):
        return self.seen[last][0] - self.seen[first][0]

    def finish(self):
        self.process.stdin.close()
        self.until("closed")
        return self.process.wait(timeout=60)

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(timeout=60)
        self.process.stdout.close()

    def left(self):
        """What is left of the run, as words; nothing when clean."""
        words = [f"QEMU {pid}" for pid in qemu_below(self.dir)]
        if os.path.exists(self.root):
            words.append("its root")
        return ", ".join(words)

    def clean(self):
        out = subprocess.run([PROBE, "clean", self.dir], capture_output=True, text=True, timeout=60)
        if out.returncode != 0:
            return out.stdout.strip()
        shutil.rmtree(self.root, ignore_errors=True)
        return ""


def trial(name, wanted, got):
    good = wanted == got if not callable(wanted) else wanted(got)
    rows.append((name, got, good))
    if not good:
        failures.append(name)
    print(("ok    " if good else "FAIL  ") + f"{name}: {got}", flush=True)


def whole(name, cache, *options, wrap=()):
    run = Run(cache, *options, wrap=wrap)
    if run.until("up") is None:
        trial(name, "up", str(run.seen))
        return None
    status = run.finish()
    left = run.left()
    text = (f"connect {run.ms('begin', 'connected')} ms, start {run.ms('starting', 'started')} ms, "
            f"up {run.ms('begin', 'up')} ms, end {run.ms('destroying', 'closed')} ms")
    trial(name, lambda _: status == 0 and not left, text + (f"; left: {left}" if left else ""))
    return run


def caches():
    cache = BASE + "/cache-a"
    cold = whole("cold cache", cache)
    warm = whole("warm cache", cache)
    if cold and warm:
        ratio = cold.ms("begin", "connected") / max(1, warm.ms("begin", "connected"))
        trial("a warm cache is faster", lambda _: ratio > 1.5, f"{ratio:.1f} times")


def side_by_side(name, cache):
    runs = [Run(cache) for _ in range(5)]
    ups = [run.until("up") for run in runs]
    ends = [run.finish() for run in runs]
    left = [run.left() for run in runs if run.left()]
    for run, up in zip(runs, ups):
        if up is None:
            print(f"      one did not come up: {run.seen} {run.other}")
    slowest = max((run.seen["up"][0] for run in runs if "up" in run.seen), default=0)
    trial(name, lambda _: None not in ups and ends == [0] * 5 and not left,
          f"{sum(up is not None for up in ups)} of 5 up, slowest after {slowest} ms; left: {left or 'nothing'}")


def killed(name, cache, point, delay=0.0, wrap=(), options=()):
    run = Run(cache, *options, wrap=wrap)
    rest = run.until(point)
    if name.startswith("after QEMU died"):
        os.kill(int(run.seen["started"][1]), signal.SIGKILL)
    if point == "up" and "destroy" in name:
        run.process.stdin.close()
    time.sleep(delay)
    run.kill()
    left = run.left() or "nothing"
    trouble = run.clean() or run.left()
    trial(name, lambda _: rest is not None and not trouble,
          f"left {left.split(' ')[0] + ' and its root' if 'QEMU' in left else left}; "
          + (f"NOT clean: {trouble}" if trouble else "cleared by the next command"))


def kills(cache):
    killed("kill -9 before the start", cache, "connected")
    for ms in (0, 5, 10, 20, 40, 80):
        killed(f"kill -9 during the start, after {ms} ms", cache, "starting", ms / 1000)
    killed("kill -9 while running", cache, "up")
    killed("kill -9 during destroy", cache, "up", 0.002)
    killed("after QEMU died: kill -9", cache, "up")
    for ms in (0, 100, 300):
        killed(f"kill -9 while QEMU is probed (cold), after {ms} ms", BASE + f"/cold-{ms}", "begin", ms / 1000)
    whole("a run after all that, same cache", cache)


def ends(cache):
    for words, wanted in (("do=off", "powered off"), ("do=reboot", "reset"), ("do=panic", "reset")):
        run = Run(cache, "--args", words)
        got = run.until("ended")
        run.finish()
        trial(f"the guest ends itself: {words}", wanted, got if not run.left() else f"{got}; left {run.left()}")
    run = Run(cache)
    run.until("up")
    os.kill(int(run.seen["started"][1]), signal.SIGKILL)
    got = run.until("ended")
    run.finish()
    trial("QEMU is killed under a living owner", "QEMU died", got if not run.left() else f"left {run.left()}")


def silent_device(cache):
    path = BASE + "/silent.sock"
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen(1)
    run = Run(cache, "--fs", path, "--deadline", "2000")
    got = run.until("failed") or ""
    run.finish()
    listener.close()
    trial("a device process that never answers", lambda text: "was not up after 2000 ms" in text and not run.left(), got)


def users(cache):
    if os.geteuid() != 0:
        trial("other users", lambda _: True, "not tried: this is not root")
        return
    nobody = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"]
    os.chmod(BASE, 0o777)
    whole("an unprivileged user, cold cache", BASE + "/cache-u", wrap=nobody)
    whole("an unprivileged user, warm cache", BASE + "/cache-u", wrap=nobody)
    killed("an unprivileged user, kill -9 while running", BASE + "/cache-u", "up", wrap=nobody)
    run = whole("QEMU under a user of its own", cache, "--uid", str(OWN_UID))
    if run:
        run = Run(cache, "--uid", str(OWN_UID))
        run.until("up")
        with open(f"/proc/{run.seen['started'][1]}/status") as f:
            status = dict(line.rstrip("\n").split(":\t", 1) for line in f if ":\t" in line)
        run.finish()
        uids = {int(u) for u in status["Uid"].split()}
        trial("… with that uid, no capabilities, seccomp",
              lambda _: uids == {OWN_UID} and int(status["CapEff"], 16) == 0 and status["Seccomp"] == "2",
              f"uid {status['Uid'].split()[0]}, effective capabilities {int(status['CapEff'], 16)}, "
              f"seccomp mode {status['Seccomp']}")
    killed("QEMU under a user of its own, kill -9 while running", cache, "up", options=("--uid", str(OWN_UID)))


KERNEL = find_kernel()
if KERNEL is None:
    print("no kernel to boot: build the image (turnbox image build) or set TURNBOX_TEST_KERNEL")
    shutil.rmtree(BASE)
    sys.exit(1 if "boot" in os.environ.get("TURNBOX_MUST_RUN", "").split(",") else 77)
# Copies, since other users may not pass through the places where they are.
INITRAMFS = BASE + "/initramfs"
os.chmod(BASE, 0o755)
shutil.copy(sys.argv[1], PROBE)
KERNEL = shutil.copyfile(KERNEL, BASE + "/vmlinuz")
make_initramfs(INITRAMFS)
try:
    caches()
    side_by_side("five at once, cold cache", BASE + "/cache-b")
    side_by_side("five at once, warm cache", BASE + "/cache-b")
    kills(BASE + "/cache-b")
    ends(BASE + "/cache-b")
    silent_device(BASE + "/cache-b")
    users(BASE + "/cache-b")
finally:
    for pid in qemu_below(BASE):
        os.kill(pid, signal.SIGKILL)
    shutil.rmtree(BASE, ignore_errors=True)
print("\n| trial | outcome |\n|---|---|")
for name, got, good in rows:
    print(f"| {name} | {got}{'' if good else ' **FAILED**'} |")
print(f"\n{len(rows) - len(failures)} of {len(rows)} as they should be")
sys.exit(1 if failures else 0)
