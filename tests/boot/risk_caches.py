#!/usr/bin/env python3
"""What a real guest kernel's caches show of both virtio-fs devices while the host changes the tree: a bare QEMU, the
modules and kernel of a built image, and turnbox-fsd. What was found stands in docs/decisions/0121-caches.md.

usage: risk_caches.py TURNBOX_FSD CACHES_GUEST
"""

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading

import support

FIRST, SECOND = "01ARZ3NDEKTSV4RRFFQ69G5FAV", "01ARZ3NDEKTSV4RRFFQ69G5FAW"
LIMIT_S = 240


def find_image():
    support.prepare_image()
    return os.path.realpath(f"{support.STATE}/images/default")


def cpio_file(name, data):
    """One member and the trailer of a «newc» archive: the kernel unpacks it on top of the image's own."""
    def member(name, mode, data):
        head = "070701" + "".join("%08X" % n for n in (
            1, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(name) + 1, 0))
        out = head.encode() + name.encode() + b"\0"
        out += b"\0" * (-len(out) % 4) + data
        return out + b"\0" * (-len(out) % 4)
    return member(name, 0o100755, data) + member("TRAILER!!!", 0, b"")


class Fsd:
    def __init__(self, program, base):
        listeners = []
        for device in ("workspace", "turn"):
            listener = socket.socket(socket.AF_UNIX)
            listener.bind(f"{base}/{device}")
            listener.listen(1)
            listeners.append(listener)
        self.control, theirs = socket.socketpair()
        fds = [s.fileno() for s in (*listeners, theirs)]
        self.process = subprocess.Popen(
            [program, "--workspace-fd", str(fds[0]), "--turn-fd", str(fds[1]), "--control-fd", str(fds[2])],
            pass_fds=fds)
        for s in (*listeners, theirs):
            s.close()
        self.lines = self.control.makefile("rb")
        self.count = 0

    def call(self, method, **params):
        self.count += 1
        request = {"jsonrpc": "2.0", "id": self.count, "method": method, "params": params}
        self.control.sendall(json.dumps(request).encode() + b"\n")
        for line in self.lines:
            answer = json.loads(line)
            if answer.get("id") == self.count:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]
        raise RuntimeError("turnbox-fsd ended")

    def begin(self, turn, seq):
        self.call("turn.begin", turn=turn, demand="d", thread="main", thread_seq=seq, tier="emulated", inputs=[])

    def do(self, word):
        """What the guest asked for."""
        if word == "begin":
            self.begin(FIRST, 1)
            self.call("stage.begin", turn=FIRST, stage="run")
        elif word == "events":
            for i in range(50):
                self.call("event.append", turn=FIRST, event={"host": i})
        elif word == "seal":
            self.call("stage.seal", turn=FIRST, stage="run")
        elif word == "again":
            ended = self.call("turn.end", turn=FIRST, status="completed")
            if ended["events"] != "851" and ended["events"] != 851:
                raise RuntimeError(f"the log has {ended['events']} lines, not 851")
            self.begin(SECOND, 2)
        elif word == "epoch":
            self.call("workspace.epoch")


def qemu(base, image, initrd):
    with open("/proc/cpuinfo", encoding="ascii", errors="replace") as f:
        khz = int(float(re.search(r"cpu MHz\s*:\s*([\d.]+)", f.read()).group(1)) * 1000)
    with open(image + "/image.json", encoding="utf-8") as f:
        words = " ".join(json.load(f)["kernel_words"])
    arguments = ["qemu-system-x86_64", "-M", "microvm,memory-backend=mem", "-accel", "tcg", "-cpu", "max", "-m", "512",
                 "-object", "memory-backend-memfd,id=mem,size=512M,share=on", "-nodefaults", "-no-reboot",
                 "-display", "none", "-serial", "stdio", "-global", "virtio-mmio.force-legacy=false",
                 "-kernel", image + "/kernel", "-initrd", initrd,
                 "-append", f"console=ttyS0 quiet panic=-1 rdinit=/caches_guest tsc_early_khz={khz} {words}"]
    for device in ("workspace", "turn"):
        arguments += ["-chardev", f"socket,id={device},path={base}/{device}",
                      "-device", f"vhost-user-fs-device,chardev={device},tag={device},queue-size=1024"]
    return subprocess.Popen(arguments, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)


def main():
    image = find_image()
    if image is None or shutil.which("qemu-system-x86_64") is None:
        print("no built image, or no qemu-system-x86_64: run «turnbox image build»")
        sys.exit(1 if "boot" in os.environ.get("TURNBOX_MUST_RUN", "").split(",") else 77)
    base = tempfile.mkdtemp(prefix="tbcaches-", dir="/tmp")
    fsd = machine = None
    result = ""
    try:
        with open(image + "/initramfs", "rb") as f, open(sys.argv[2], "rb") as guest:
            archive = f.read()
            archive += b"\0" * (-len(archive) % 4) + cpio_file("caches_guest", guest.read())
        with open(base + "/initrd", "wb") as f:
            f.write(archive)
        fsd = Fsd(sys.argv[1], base)
        machine = qemu(base, image, base + "/initrd")
        watchdog = threading.Timer(LIMIT_S, machine.kill)
        watchdog.start()
        for raw in machine.stdout:
            line = raw.decode("utf-8", "replace").rstrip()
            print(line, flush=True)
            if line.startswith("@@"):
                fsd.do(line[2:])
            elif line.startswith("CHECKS "):
                result = line
        watchdog.cancel()
        stats = fsd.call("fs.stats")
        print(json.dumps(stats))
        alive = fsd.process.poll() is None
    finally:
        if machine is not None:
            machine.kill()
            machine.wait()
        if fsd is not None:
            fsd.process.kill()
            fsd.process.wait()
        shutil.rmtree(base)
    if not result.endswith(" FAILURES 0") or not alive:
        sys.exit(f"the guest said «{result}»; turnbox-fsd {'lives' if alive else 'ended'}")


main()
