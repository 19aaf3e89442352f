#!/usr/bin/env python3
"""docs/verify.py accepts the golden archive, and refuses it after any one change. Arguments: verify.py, golden directory,
scratch directory. Also: the generator makes the golden bytes again."""
import io, pathlib, subprocess, sys, tarfile

verify, golden, scratch = (pathlib.Path(p) for p in sys.argv[1:4])
scratch.mkdir(parents=True, exist_ok=True)
failures = []


def run(path, *options):
    done = subprocess.run([sys.executable, verify, path, *options], capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def members_of(path):
    with tarfile.open(path) as tar:
        return {m.name: tar.extractfile(m).read() for m in tar.getmembers()}


def run_members(members, *options):
    path = scratch / "case.tar"
    with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as tar:
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return run(path, *options)


def expect(case, got, code, text):
    if got[0] != code or text not in got[1]:
        failures.append(f"{case}: {got}")


subprocess.run([sys.executable, golden / "generate.py", scratch], check=True)
for path in golden.iterdir():
    if path.suffix not in (".py", ".md") and path.is_file() and path.read_bytes() != (scratch / path.name).read_bytes():
        failures.append(f"the generator makes another {path.name}")

key = "56475aa75463474c0285df5dbf2bcab73da651358839e9b77481b2eab107708c"
expect("golden", run(golden / "second.tar", "--key", key, "--account", "local"), 0, "OK turn 01JZZZZZZZ0000000000000002")
expect("wrong account in the chain", run(golden / "wrong-account.tar"), 1, "account is other, the record's is local")
expect("wrong account asked", run(golden / "second.tar", "--account", "other"), 1, "account is local")
expect("wrong key asked", run(golden / "second.tar", "--key", "0" * 64), 1, "key is " + key)
expect("no archive", run(golden / "second.json"), 1, "WRONG")
expect("no file", run(golden / "none.tar"), 1, "WRONG")

whole = members_of(golden / "second.tar")
expect("packed again", run_members(whole), 0, "OK")
for name, data in whole.items():
    for at in {0, len(data) // 2, len(data) - 1} if data else {0}:
        changed = bytearray(data or b"\0")
        changed[at] ^= 1
        expect(f"{name} changed at {at}", run_members(whole | {name: bytes(changed)}), 1, "WRONG")
    expect(f"{name} dropped", run_members({n: d for n, d in whole.items() if n != name}), 1, "WRONG")
expect("one object too many", run_members(whole | {"objects/" + "0" * 64: b"x"}), 1, "nothing names")
expect("chain cut", run_members({n: d for n, d in whole.items() if not n.startswith("chain")}), 1, "WRONG")
spaced = whole["record.json"].replace(b":", b": ", 1)
expect("not canonical", run_members(whole | {"record.json": spaced}), 1, "not canonical")

print("\n".join(failures) or f"{2 + 4 * len(whole)} cases good")
sys.exit(1 if failures else 0)
