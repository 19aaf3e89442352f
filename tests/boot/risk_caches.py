#!/usr/bin/env python3
"""What a real guest kernel's caches show of both virtio-fs devices while the host changes the tree: a bare QEMU, the
modules and kernel of a built image, and turnbox-fsd. What was found stands in docs/decisions/0121-caches.md.

usage: risk_caches.py TURNBOX_FSD CACHES_GUEST
"""

import json
import os
import shutil
import sys
import tempfile
import threading

import bare_guest
import support

FIRST, SECOND = "01ARZ3NDEKTSV4RRFFQ69G5FAV", "01ARZ3NDEKTSV4RRFFQ69G5FAW"
LIMIT_S = 240


def find_image():
    support.prepare_image()
    return os.path.realpath(f"{support.STATE}/images/default")


class Host(bare_guest.Fsd):
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


def main():
    image = find_image()
    if image is None or shutil.which("qemu-system-x86_64") is None:
        print("no built image, or no qemu-system-x86_64: run «turnbox image build»")
        sys.exit(1 if "boot" in os.environ.get("TURNBOX_MUST_RUN", "").split(",") else 77)
    base = tempfile.mkdtemp(prefix="tbcaches-", dir="/tmp")
    fsd = machine = None
    result = ""
    try:
        bare_guest.write_initrd(image, base + "/initrd", "caches_guest", sys.argv[2])
        fsd = Host(sys.argv[1], base)
        machine = bare_guest.start(bare_guest.command(image, base + "/initrd", "/caches_guest",
                                                      {device: f"{base}/{device}" for device in ("workspace", "turn")}))
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
            fsd.end()
        shutil.rmtree(base)
    if not result.endswith(" FAILURES 0") or not alive:
        sys.exit(f"the guest said «{result}»; turnbox-fsd {'lives' if alive else 'ended'}")


main()
