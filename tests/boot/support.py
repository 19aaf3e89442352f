"""What the boot tests share: one state directory with the default image, the turnbox command, and a look for leftovers.

The environment names the parts: TURNBOX (the built command), TURNBOX_TEST_STATE (a state directory that outlives the tests of
one build). A test that cannot boot exits 77 with the reason, or fails under TURNBOX_MUST_RUN=boot.
"""
import fcntl
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

TURNBOX = os.environ["TURNBOX"]


def open_to_others(path):
    """QEMU runs as a user of its own, which must reach the image: a build below a closed directory cannot hold it."""
    while not os.path.isdir(path):
        path = os.path.dirname(path)
    while path != "/":
        if not os.stat(path).st_mode & 0o001:
            return False
        path = os.path.dirname(path)
    return True


STATE = os.environ["TURNBOX_TEST_STATE"]
if os.geteuid() == 0 and not open_to_others(STATE):
    STATE = "/var/tmp/turnbox-test-" + hashlib.sha256(STATE.encode()).hexdigest()[:12]
os.environ["TURNBOX_TEST_STATE"] = STATE
RUNTIME_BASE = "/run/turnbox" if os.geteuid() == 0 else os.path.join(
    os.environ.get("XDG_RUNTIME_DIR", f"/tmp/turnbox-{os.geteuid()}"), "turnbox")
FIRST_UID = 0x70000000
BOOT = 120  # seconds that a whole run under emulation may take on a busy machine


def runtime_of(state):
    digest = hashlib.sha256(os.path.realpath(state).encode()).hexdigest()[:8]
    return f"{RUNTIME_BASE}/s-{digest}"


def turnbox(*words, state=STATE, timeout=BOOT, **options):
    """Runs the command to its end; stdin is empty unless given."""
    if "input" not in options:
        options.setdefault("stdin", subprocess.DEVNULL)
    env = dict(os.environ, TURNBOX_STATE=state)
    env.update(options.pop("env", {}))
    return subprocess.run([TURNBOX, *words], capture_output=True, timeout=timeout, env=env, check=False, **options)


def start(*words, state=STATE, **options):
    """Starts the command with pipes, for tests that act while it runs."""
    options.setdefault("stdin", subprocess.DEVNULL)
    env = dict(os.environ, TURNBOX_STATE=state)
    return subprocess.Popen([TURNBOX, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env, **options)


def sh(script, *options, **more):
    """`turnbox run [options] -- sh -c script`."""
    return turnbox("run", *options, "--", "sh", "-c", script, **more)


def turns(state=STATE):
    return json.loads(turnbox("turn", "list", "--json", state=state).stdout)["turns"]


def record(turn, state=STATE):
    return json.loads(turnbox("turn", "show", turn, "--json", state=state).stdout)


def last_record(state=STATE):
    return record(turns(state)[-1]["turn"], state)


def wait_until(what, condition, seconds=BOOT):
    """Waits for an outside event that nothing can be waited on for; fails with its name."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found = condition()
        if found:
            return found
        time.sleep(0.05)
    raise AssertionError(f"{what} did not happen within {seconds} s")


def sandbox_dirs(state=STATE):
    try:
        names = os.listdir(runtime_of(state))
    except FileNotFoundError:
        return []
    return [f"{runtime_of(state)}/{name}" for name in names]


def processes_of(state=STATE):
    """pid → command line of everything that names this state's runtime directory or runs as a sandbox's user."""
    found = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                words = file.read()
            uid = os.stat(f"/proc/{pid}").st_uid
        except OSError:
            continue
        if runtime_of(state).encode() in words or (os.geteuid() == 0 and FIRST_UID <= uid < FIRST_UID + 3 * 65536):
            found[int(pid)] = words.replace(b"\0", b" ").decode(errors="replace")
    return found


def children_of(pid, name):
    """Pids of live descendants whose program has this name."""
    parents = {}
    names = {}
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{entry}/stat", encoding="utf-8", errors="replace") as file:
                text = file.read()
            with open(f"/proc/{entry}/cmdline", "rb") as file:
                words = file.read().split(b"\0")
        except OSError:
            continue
        parents[int(entry)] = int(text.rsplit(")", 1)[1].split()[1])
        names[int(entry)] = os.path.basename(words[0].decode(errors="replace")) if words[0] else ""
    def descends(child):
        while child in parents:
            child = parents[child]
            if child == pid:
                return True
        return False
    return [child for child, found in names.items() if found == name and descends(child)]


def qemu_of(state=STATE):
    return [pid for pid, words in processes_of(state).items() if "qemu-system" in words.split(" ")[0]]


class BootTest(unittest.TestCase):
    """A test that must leave nothing behind."""

    maxDiff = None

    def tearDown(self):
        self.assert_nothing_left()

    def assert_nothing_left(self, state=STATE):
        wait_until("the end of every process of the sandbox", lambda: not processes_of(state), 10)
        self.assertEqual(sandbox_dirs(state), [], "a runtime directory was left")

    def assert_ok(self, done, status=0):
        self.assertEqual(done.returncode, status, done.stderr.decode(errors="replace"))

    def scratch(self):
        path = tempfile.mkdtemp(prefix="turnbox-boot-", dir="/var/tmp")
        os.chmod(path, 0o755)
        self.addCleanup(shutil.rmtree, path, True)
        return path


def unavailable(reason):
    print(f"cannot boot here: {reason}", file=sys.stderr)
    sys.exit(1 if "boot" in os.environ.get("TURNBOX_MUST_RUN", "").split(",") else 77)


def prepare_image():
    """Builds the default image once for all tests of a build."""
    os.makedirs(STATE, exist_ok=True)
    with open(f"{STATE}/test.lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        built = turnbox("image", "build", timeout=900)
    if built.returncode != 0:
        unavailable(built.stderr.decode(errors="replace"))


def main():
    for program in ("qemu-system-x86_64", "mmdebstrap", "mkfs.erofs"):
        if shutil.which(program) is None:
            unavailable(f"{program} is not installed")
    prepare_image()
    unittest.main(verbosity=2)
