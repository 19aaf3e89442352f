"""A guest without libvirt or a broker: a turnbox-fsd started from descriptors, and QEMU with the kernel and modules of a built
image, a first process of the test's own, and vhost-user devices on any sockets."""
import json
import os
import re
import socket
import subprocess


def cpio_file(name, data):
    """One member and the trailer of a «newc» archive: the kernel unpacks it on top of the image's own."""
    def member(name, mode, data):
        head = "070701" + "".join("%08X" % n for n in (
            1, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(name) + 1, 0))
        out = head.encode() + name.encode() + b"\0"
        out += b"\0" * (-len(out) % 4) + data
        return out + b"\0" * (-len(out) % 4)
    return member(name, 0o100755, data) + member("TRAILER!!!", 0, b"")


def write_initrd(image, path, name, program):
    """The image's initramfs with a program beside what it has: /NAME."""
    with open(image + "/initramfs", "rb") as old, open(program, "rb") as body, open(path, "wb") as new:
        archive = old.read()
        new.write(archive + b"\0" * (-len(archive) % 4) + cpio_file(name, body.read()))


class Fsd:
    """A turnbox-fsd with its device sockets at BASE/workspace and BASE/turn, and its control socket in our hands."""

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

    def end(self):
        self.process.kill()
        self.process.wait()


def command(image, initrd, init, sockets, memory="512M", more=(), words=""):
    """QEMU's words. `sockets`: tag → path of a vhost-user-fs device; `words`: for the guest's kernel."""
    with open("/proc/cpuinfo", encoding="ascii", errors="replace") as f:
        khz = int(float(re.search(r"cpu MHz\s*:\s*([\d.]+)", f.read()).group(1)) * 1000)
    with open(image + "/image.json", encoding="utf-8") as f:
        words = " ".join([*json.load(f)["kernel_words"], words])
    out = ["qemu-system-x86_64", "-M", "microvm,memory-backend=mem", "-accel", "tcg", "-cpu", "max", "-m", memory,
           "-object", f"memory-backend-memfd,id=mem,size={memory},share=on", "-nodefaults", "-no-reboot",
           "-display", "none", "-serial", "stdio", "-global", "virtio-mmio.force-legacy=false",
           "-kernel", image + "/kernel", "-initrd", initrd,
           "-append", f"console=ttyS0 quiet panic=-1 rdinit={init} tsc_early_khz={khz} {words}"]
    for tag, path in sockets.items():
        out += ["-chardev", f"socket,id={tag},path={path}",
                "-device", f"vhost-user-fs-device,chardev={tag},tag={tag},queue-size=1024"]
    return out + list(more)


def start(words):
    return subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)


def read_only_disk(name, path):
    """The words for a raw disk; the first is /dev/vda in the guest."""
    return ["-blockdev", json.dumps({"driver": "raw", "node-name": name, "read-only": True,
                                     "file": {"driver": "file", "filename": os.path.abspath(path)}}),
            "-device", f"virtio-blk-device,drive={name}"]
