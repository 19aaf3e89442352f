#!/usr/bin/env python3
"""How long until a command's first byte: `turnbox run` beside a bare QEMU, one after the other in the same run.

The bare machine is what is left of turnbox's own: the options that shape the machine are read from the command line of a live
sandbox's QEMU (machine, CPU, memory, kernel, kernel words, disk, rng, serial port); the vhost-user devices, libvirt's monitor
and the sandbox filter are left out. It boots the same kernel with the same modules and mounts the same root image. Its first
process is bare_init.cpp.

    turnbox         start of `turnbox run -- echo x` to the first byte on its standard output
    bare            start of qemu-system-x86_64 to one byte that init writes when the root image is mounted
    bare, command   the same, but init runs the image's echo, as turnbox does

Usage: boot_bench.py BARE_INIT [--runs N] [--record FILE.json]. Environment as for the boot tests. Times are of this host and
this hour; only the ratios mean something.
"""
import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "boot"))
import support  # noqa: E402

AIM = 1.3
LIMIT = 120  # seconds for one boot


def newc(entries):
    """A cpio archive in the form `newc`, of (name, mode, device, bytes)."""
    out = bytearray()
    for inode, (name, mode, device, body) in enumerate([*entries, ("TRAILER!!!", 0, (0, 0), b"")], 1):
        fields = [inode, mode, 0, 0, 1, 0, len(body), 0, 0, *device, len(name) + 1, 0]
        out += b"070701" + b"".join(b"%08X" % field for field in fields) + name.encode() + b"\0"
        out += b"\0" * (-len(out) % 4) + body
        out += b"\0" * (-len(out) % 4)
    return bytes(out)


def entries_of(archive):
    at = 0
    while True:
        if archive[at:at + 6] != b"070701":
            raise ValueError("the image's initramfs is not a plain newc archive")
        fields = [int(archive[at + 6 + 8 * i:at + 14 + 8 * i], 16) for i in range(13)]
        name = archive[at + 110:at + 109 + fields[11]].decode()
        body = (at + 110 + fields[11] + 3) & ~3
        if name == "TRAILER!!!":
            return
        yield name, fields[1], (fields[9], fields[10]), archive[body:body + fields[6]]
        at = (body + fields[6] + 3) & ~3


def bare_initramfs(image_initramfs, init, path):
    """The image's initramfs with another first process: the modules stay byte for byte."""
    with open(image_initramfs, "rb") as file:
        entries = list(entries_of(file.read()))
    with open(init, "rb") as file:
        body = file.read()
    if "init" not in [name for name, *_ in entries]:
        raise ValueError(f"{image_initramfs} holds no init")
    with open(path, "wb") as file:
        file.write(newc([(name, mode, device, body if name == "init" else old) for name, mode, device, old in entries]))


def live_command_line():
    """The words of a sandbox's QEMU, and its guest's words."""
    run = support.start("run", "--quiet", "--", "sh", "-c", "echo up; read line", stdin=subprocess.PIPE)
    if run.stdout.read(3) != b"up\n":
        sys.exit(f"turnbox run did not start: {run.communicate(timeout=LIMIT)[1].decode(errors='replace')}")
    # Sandboxes of other state directories may run beside ours.
    runtime = support.runtime_of(support.STATE)
    [pid] = [pid for pid in support.qemu_of() if runtime in support.processes_of()[pid]]
    with open(f"/proc/{pid}/cmdline", "rb") as file:
        words = [word.decode() for word in file.read().split(b"\0")[:-1]]
    run.communicate(b"\n", timeout=LIMIT)
    return words


def value_of(words, option):
    return words[words.index(option) + 1]


def image_files(words):
    """Kernel, initramfs and root image as QEMU was given them."""
    [root] = {found for word in words for found in re.findall(r'"filename":"([^"]*)"', word)}
    return value_of(words, "-kernel"), value_of(words, "-initrd"), root


def bare_command(words, initramfs):
    kernel, _, root = image_files(words)
    machine = ",".join(part for part in value_of(words, "-machine").split(",") if not part.startswith("memory-backend="))
    out = [words[0], "-machine", machine]
    for option in ("-accel", "-cpu", "-m", "-smp"):
        out += [option, value_of(words, option)]
    out += ["-display", "none", "-no-user-config", "-nodefaults", "-no-reboot"]
    out += ["-kernel", kernel, "-initrd", initramfs, "-append", value_of(words, "-append").split(" -- ")[0]]
    out += ["-global", "virtio-mmio.force-legacy=false"]
    out += ["-blockdev", json.dumps({"driver": "raw", "node-name": "root", "read-only": True,
                                     "file": {"driver": "file", "filename": root}})]
    out += ["-device", "virtio-blk-device,drive=root"]
    out += ["-object", "rng-builtin,id=rng0", "-device", "virtio-rng-device,rng=rng0"]
    return out + ["-chardev", "file,id=console,path=/dev/stdout", "-device", "isa-serial,chardev=console"]


def until(command, byte, **options):
    """Seconds from the start of a command until it has written this byte, and the command.

    Each has a session of its own, as libvirt gives its QEMU: the scheduler shares busy CPUs out among sessions.
    """
    began = time.monotonic()
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               start_new_session=True, **options)
    seen = b""
    while byte not in seen:
        more = os.read(process.stdout.fileno(), 65536)
        if not more:
            process.wait(LIMIT)
            sys.exit(f"{command[0]} ended without its byte: {(seen + process.stderr.read()).decode(errors='replace')}")
        seen += more
    return time.monotonic() - began, process


def run_turnbox():
    took, process = until([support.TURNBOX, "run", "--quiet", "--", "echo", "~"], b"~",
                          env=dict(os.environ, TURNBOX_STATE=support.STATE))
    errors = process.communicate(timeout=LIMIT)[1]
    if process.returncode:
        sys.exit(f"turnbox run ended with {process.returncode}: {errors.decode(errors='replace')}")
    times = support.last_record()["times"]
    return took, (int(times["booted"]) - int(times["started"])) / 1e9


def run_bare(command):
    took, process = until(command, b"~")
    process.kill()
    process.communicate(timeout=LIMIT)
    return took


def row(what, times, beside=None, aim=None):
    middle = statistics.median(times)
    line = f"{what:<44} {middle:7.3f} {min(times):7.3f} {max(times):7.3f}"
    if beside is not None:
        ratio = middle / statistics.median(beside)
        line += f" {ratio:6.2f}"
        if aim is not None:
            line += f"  ≤ {aim}  {'met' if ratio <= aim else 'NOT met'}"
    print(line)


def report(times, runs):
    bare, same = times["bare"], times["bare, command"]
    print(f"\n{runs} runs each, in turn; seconds; load {os.getloadavg()[0]:.1f} on {os.cpu_count()} CPUs")
    print(f"{'what':<44} {'median':>7} {'min':>7} {'max':>7} {'ratio':>6}  aim")
    row("bare QEMU, init writes the byte", bare)
    row("bare QEMU, init runs echo", same, bare)
    row("turnbox run -- echo, first byte", times["turnbox"], bare, AIM)
    row("  the same beside bare QEMU that runs echo", times["turnbox"], same)
    row("  of it: until the guest answered", times["answered"])
    row("  of it: from there to the first byte", [a - b for a, b in zip(times["turnbox"], times["answered"])])


def main():
    arguments = argparse.ArgumentParser(description="turnbox run beside a bare QEMU, to the first byte")
    arguments.add_argument("init", help="the built bare_init")
    arguments.add_argument("--runs", type=int, default=5)
    arguments.add_argument("--record", help="write every time to this file as JSON")
    chosen = arguments.parse_args()
    support.prepare_image()
    words = live_command_line()
    initramfs = f"{support.STATE}/bench-initramfs"
    bare_initramfs(image_files(words)[1], chosen.init, initramfs)
    command = bare_command(words, initramfs)
    runs_echo = [word + " bare=exec" if word == value_of(command, "-append") else word for word in command]
    times = {"turnbox": [], "answered": [], "bare": [], "bare, command": []}
    run_bare(command)  # the page cache is warm for all: turnbox had its first run above
    for turn in range(chosen.runs):
        took, answered = run_turnbox()
        times["turnbox"].append(took)
        times["answered"].append(answered)
        times["bare"].append(run_bare(command))
        times["bare, command"].append(run_bare(runs_echo))
        print(f"{turn + 1}: turnbox {times['turnbox'][-1]:.3f} s, bare {times['bare'][-1]:.3f} s, "
              f"bare with command {times['bare, command'][-1]:.3f} s", flush=True)
    report(times, chosen.runs)
    if chosen.record:
        with open(chosen.record, "w", encoding="utf-8") as file:
            json.dump(times, file, indent=1)


if __name__ == "__main__":
    main()
