#!/usr/bin/env python3
"""What programs in a guest feel: the same work on turnbox's /workspace, on QEMU's C virtiofsd and on the guest's own tmpfs,
in one boot, in turns (guest_bench_init.cpp).

Both daemons serve memory: turnbox-fsd its tree, virtiofsd a directory of the host's tmpfs with cache=always. The machine is
the image's kernel under a bare QEMU with one processor; it is emulated where there is no KVM, so only ratios mean something.

Usage: guest_bench.py TURNBOX_FSD GUEST_INIT [--files N] [--tree N] [--untar N] [--inserts N] [--rounds N] [--no-tools]
                      [--json FILE]
Environment as for the boot tests. Ends with 77 where it cannot be measured; a missed target fails nothing.
"""
import argparse
import collections
import io
import json
import os
import resource
import shutil
import socket
import statistics
import subprocess
import sys
import tarfile
import tempfile
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "boot"))
import bare_guest  # noqa: E402
import support  # noqa: E402

VIRTIOFSD = "/usr/lib/qemu/virtiofsd"
LIMIT_S = 3000

# what: at least so many times as fast as virtiofsd, at most so many times tmpfs's time
ROWS = {
    "open + read": (8, 1.5), "repeated stat": (None, 1.5), "second stat of a missing name": (8, 1.5),
    "first stat of a missing name": (None, None), "first stat after close": (None, None),
    "create + 4 KiB": (3, None), "(syncfs after them, a file)": (None, None), "unlink": (3, None), "rm -r": (3, None),
    "git status, warm": (2, 2), "git status, cold": (2, 2), "untar": (2, 2), "rm -r of what was untarred": (None, None),
    "sqlite3 inserts": (2, 2), "python imports, warm": (2, 2), "python imports, cold": (2, 2),
}

INSERTS = """
import os, sqlite3, sys, time
path = sys.argv[1]
if os.path.exists(path):
    os.remove(path)
db = sqlite3.connect(path)
db.execute("create table t (id integer primary key, name text, value blob)")
db.commit()
start = time.monotonic_ns()
with db:
    for i in range(COUNT):
        db.execute("insert into t (name, value) values (?, ?)", ("row %d" % i, b"x" * 100))
print(time.monotonic_ns() - start)
"""

IMPORTS = """
import sys, time, warnings
warnings.simplefilter("ignore")
skipped = {"antigravity", "this", "idlelib", "turtle", "turtledemo", "tkinter", "test", "lib2to3", "pydoc_data"}
start = time.monotonic_ns()
for name in sorted(sys.stdlib_module_names):
    if name in skipped or name.startswith("_"):
        continue
    try:
        __import__(name)
    except ImportError:
        pass
print(time.monotonic_ns() - start)
"""


def may_open():
    """virtiofsd holds a descriptor for every file that its guest knows."""
    return resource.getrlimit(resource.RLIMIT_NOFILE)[1]


class Virtiofsd:
    """QEMU's C virtiofsd with its best options for a directory of /dev/shm."""

    def __init__(self):
        self.base = tempfile.mkdtemp(prefix="tbpeer-", dir="/dev/shm")
        os.mkdir(f"{self.base}/served")
        self.path = f"{self.base}/socket"
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(self.path)
        listener.listen(1)
        self.process = subprocess.Popen(
            [VIRTIOFSD, f"--fd={listener.fileno()}", "-o", f"source={self.base}/served", "-o", "sandbox=chroot",
             "-o", "cache=always", "--thread-pool-size=0", f"--rlimit-nofile={may_open()}", "-o", "log_level=err"],
            pass_fds=[listener.fileno()], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        listener.close()

    def end(self):
        self.process.kill()
        self.process.wait()
        shutil.rmtree(self.base)


def add(archive, name, body):
    info = tarfile.TarInfo(name)
    info.size = len(body)
    archive.addfile(info, io.BytesIO(body))


def tree_of(count, per_dir=100, size=600):
    for i in range(count):
        yield f"d{i // per_dir:03}/file-{i}.txt", (f"{i} " * size)[:size].encode()


def write_data(path, base, chosen):
    """The tools' input as one archive: a repository, files to unpack, two scripts."""
    repo = f"{base}/repo"
    for name, body in tree_of(chosen.tree):
        os.makedirs(os.path.dirname(f"{repo}/{name}"), exist_ok=True)
        with open(f"{repo}/{name}", "wb") as file:
            file.write(body)
    git = ["git", "-C", repo, "-c", "gc.auto=0", "-c", "user.name=bench", "-c", "user.email=bench@invalid"]
    for words in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "all"],
                  ["-c", "pack.threads=1", "repack", "-adq"]):
        subprocess.run(git + words, check=True, stdin=subprocess.DEVNULL)
    with tarfile.open(f"{base}/repo.tar", "w") as archive:
        archive.add(repo, "repo")
    shutil.rmtree(repo)
    with tarfile.open(f"{base}/files.tar", "w") as archive:
        for name, body in tree_of(chosen.untar):
            add(archive, name, body)
    with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as archive:
        for name in ("repo.tar", "files.tar"):
            archive.add(f"{base}/{name}", name)
            os.remove(f"{base}/{name}")
        add(archive, "inserts.py", INSERTS.replace("COUNT", str(chosen.inserts)).encode())
        add(archive, "imports.py", IMPORTS.encode())


def measure(image, base, chosen):
    """what → place → nanoseconds of every round."""
    bare_guest.write_initrd(image, f"{base}/initrd", "guest_bench", chosen.init)
    more = bare_guest.read_only_disk("root", f"{image}/root.erofs")
    if not chosen.no_tools:
        write_data(f"{base}/data.tar", base, chosen)
        more += bare_guest.read_only_disk("data", f"{base}/data.tar")
    fsd = peer = machine = None
    rows = collections.defaultdict(lambda: collections.defaultdict(list))
    try:
        fsd = bare_guest.Fsd(chosen.fsd, base)
        peer = Virtiofsd()
        machine = bare_guest.start(bare_guest.command(
            image, f"{base}/initrd", "/guest_bench", {"workspace": f"{base}/workspace", "peer": peer.path},
            memory="3G", more=more, words=f"tsc=reliable bench.files={chosen.files} bench.rounds={chosen.rounds}"))
        watchdog = threading.Timer(LIMIT_S, machine.kill)
        watchdog.start()
        done = False
        for raw in machine.stdout:
            line = raw.decode("utf-8", "replace").rstrip()
            if line.startswith("ROW\t"):
                _, what, place, took = line.split("\t")
                rows[what][place].append(int(took))
            elif line == "BENCH DONE":
                done = True
            elif line:
                print(line, flush=True)
        watchdog.cancel()
        if not done:
            sys.exit("the guest did not come to its end; what it said stands above")
    finally:
        for started in (fsd, peer):
            if started is not None:
                started.end()
        if machine is not None:
            machine.kill()
            machine.wait()
    return rows


def verdict(ratio, target, sign):
    if target is None:
        return "", None
    met = ratio >= target if sign == "≥" else ratio <= target
    return f" {sign} {target} " + ("met" if met else f"missed by {abs(ratio - target) / target:.0%}"), met


def report(rows, rounds):
    """Prints the table; the rows for JSON."""
    print(f"\nmedian of {rounds} rounds in one boot, microseconds; load {os.getloadavg()[0]:.1f}")
    print(f"{'':32} {'turnbox':>10} {'virtiofsd':>10} {'tmpfs':>10}   virtiofsd / turnbox        turnbox / tmpfs")
    out = []
    for what, (faster, slower) in ROWS.items():
        if what not in rows:
            continue
        ours, theirs, best = (statistics.median(rows[what][place]) / 1e3 for place in ("turnbox", "virtiofsd", "tmpfs"))
        speed, speed_met = verdict(theirs / ours, faster, "≥")
        cost, cost_met = verdict(ours / best, slower, "≤")
        print(f"{what:32} {ours:10.1f} {theirs:10.1f} {best:10.1f}   {theirs / ours:6.2f}{speed:20} {ours / best:6.2f}{cost}")
        out.append({"what": what, "turnbox_us": ours, "virtiofsd_us": theirs, "tmpfs_us": best,
                    "times_virtiofsd": theirs / ours, "times_virtiofsd_at_least": faster, "times_virtiofsd_met": speed_met,
                    "of_tmpfs": ours / best, "of_tmpfs_at_most": slower, "of_tmpfs_met": cost_met})
    return out


def check(out, chosen):
    """A bench that measured nothing is a failure, whatever the machine."""
    wanted = [what for what in ROWS if not chosen.no_tools or what in list(ROWS)[:9]]
    missing = [what for what in wanted if what not in [row["what"] for row in out]]
    if missing or any(not row["times_virtiofsd"] > 0 or not row["of_tmpfs"] > 0 for row in out):
        sys.exit(f"rows are missing or empty: {missing or out}")


def main():
    arguments = argparse.ArgumentParser(description="file work in a guest: turnbox, virtiofsd, tmpfs")
    arguments.add_argument("fsd", help="the built turnbox-fsd")
    arguments.add_argument("init", help="the built guest_bench_init")
    arguments.add_argument("--files", type=int, default=2000)
    arguments.add_argument("--tree", type=int, default=20000, help="files of the git repository")
    arguments.add_argument("--untar", type=int, default=5000)
    arguments.add_argument("--inserts", type=int, default=10000)
    arguments.add_argument("--rounds", type=int, default=5)
    arguments.add_argument("--no-tools", action="store_true", help="system calls only")
    arguments.add_argument("--json", help="write the rows to this file")
    chosen = arguments.parse_args()
    for program in (VIRTIOFSD, "qemu-system-x86_64"):
        if shutil.which(program) is None:
            support.unavailable(f"{program} is not installed")
    if chosen.tree > may_open() * 3 // 5:
        chosen.tree = may_open() * 3 // 5
        print(f"virtiofsd may open {may_open()} files here: the repository has {chosen.tree}")
    support.prepare_image()
    image = os.path.realpath(f"{support.STATE}/images/default")
    base = tempfile.mkdtemp(prefix="tbbench-", dir="/tmp")
    try:
        rows = measure(image, base, chosen)
    finally:
        shutil.rmtree(base)
    out = report(rows, chosen.rounds)
    check(out, chosen)
    if chosen.json:
        with open(chosen.json, "w", encoding="utf-8") as file:
            json.dump({"bench": "guest", "load": os.getloadavg()[0], "rows": out}, file, indent=1)


if __name__ == "__main__":
    main()
