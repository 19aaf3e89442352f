#!/usr/bin/env python3
"""Writes the golden bytes of record format 1 beside itself, from docs/RECORD.md alone; shares no code with the C++.

Two records of one demand (turns FIRST and SECOND of account «local»): the first failed for infrastructure and captured
nothing, the second completed. The second's workspace is `tree.import` as an import stream, with
  - a name that is not UTF-8, and one with a control character and a quote
  - one file under three names, in two directories
  - an empty directory, an empty file, a symlink, a device, a fifo
  - a sparse file of 100 MiB + 1 byte: 1,601 chunks, so a level of lists
  - times before 1970 and beyond 2^53 ns, an inode number beyond 2^53
and an input `huge` of 2^60 + 5 bytes, all hole: four levels of lists.
wrong-account.tar is well signed, but the first record of its chain belongs to account «other».
"""
import hashlib, importlib.util, json, pathlib, struct, sys

HERE = pathlib.Path(__file__).resolve().parent
OUT = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else HERE
spec = importlib.util.spec_from_file_location("verify", HERE.parents[2] / "docs" / "verify.py")
curve = importlib.util.module_from_spec(spec)
spec.loader.exec_module(curve)  # for the curve's arithmetic only; OpenSSL checks the signatures in the C++ test

SEED = bytes(range(32))
FIRST, SECOND = "01JZZZZZZZ0000000000000001", "01JZZZZZZZ0000000000000002"


def encode(p):
    inverse = pow(p[2], curve.P - 2, curve.P)
    x, y = p[0] * inverse % curve.P, p[1] * inverse % curve.P
    return (y | (x & 1) << 255).to_bytes(32, "little")


def sign(message):
    h = hashlib.sha512(SEED).digest()
    a = int.from_bytes(h[:32], "little") & ((1 << 254) - 8) | 1 << 254
    base = curve.point((4 * pow(5, curve.P - 2, curve.P) % curve.P).to_bytes(32, "little"))
    public = encode(curve.times(a, base))
    r = int.from_bytes(hashlib.sha512(h[32:] + message).digest(), "little") % curve.L
    big_r = encode(curve.times(r, base))
    k = int.from_bytes(hashlib.sha512(big_r + public + message).digest(), "little") % curve.L
    return public, big_r + ((r + k * a) % curve.L).to_bytes(32, "little")


PUBLIC = sign(b"")[0]
KEY = hashlib.sha256(PUBLIC).hexdigest()
OBJECTS = {}  # (kind, digest) -> bytes, children first
KINDS = {"chunk": 1, "list": 2, "file": 3, "dir": 4, "symlink": 5, "node": 6}


def put(kind, data):
    name = hashlib.sha256(b"turnbox." + kind.encode() + b".v1\0" + data).digest()
    OBJECTS.setdefault((kind, name), data)
    return name


def hole_file(size, data=()):
    """A file of `size` bytes, all hole but for {chunk index: bytes}; identical subtrees are made once."""
    data = dict(data)

    def below(height, first, length):  # digest of `length` bytes from chunk `first` on
        if height == 0:
            return put("chunk", data.get(first, b"").ljust(length, b"\0"))
        each = 65536 * 1024 ** (height - 1)
        return put("list", row(height - 1, first, length, each))

    memo = {}

    def row(height, first, length, each):
        out = []
        for at in range(0, length, each):
            part, chunk = min(each, length - at), first + at // 65536
            plain = not any(chunk <= i < chunk + -(-part // 65536) for i in data)
            if not plain or (height, part) not in memo:
                made = below(height, chunk, part)
                if plain:
                    memo[height, part] = made
            else:
                made = memo[height, part]
            out.append(made)
        return b"".join(out)

    height = 0
    while size > 65536 * 1024 ** (height + 1):
        height += 1
    return put("file", struct.pack("<Q", size) + row(height, 0, size, 65536 * 1024**height))


def file(content):
    return hole_file(len(content), {i // 65536: content[i:i + 65536] for i in range(0, len(content), 65536)})


def entry(ino, type_, mode, content=None, uid=0, gid=0, nlink=1, mtime=(1_700_000_000, 0), xattrs=(), rows=()):
    return dict(ino=ino, type=type_, mode=mode, content=content, uid=uid, gid=gid, nlink=nlink, mtime=mtime, xattrs=xattrs,
                rows=dict(rows))


def object_of(node):
    if node["type"] == "d":
        return put("dir", b"".join(
            struct.pack("<cIH", child["type"].encode(), child["mode"], len(name)) + name + object_of(child)
            for name, child in sorted(node["rows"].items())))
    if node["type"] == "f":
        return node["content"]
    return put("symlink" if node["type"] == "l" else "node", node["content"])


def meta_rows(node, path=b""):
    xattrs = sorted(node["xattrs"])
    yield (struct.pack("<I", len(path)) + path
           + struct.pack("<QIIIqIIH", node["ino"], node["uid"], node["gid"], node["nlink"], *node["mtime"], node["mode"], len(xattrs))
           + b"".join(struct.pack("<H", len(k)) + k + struct.pack("<I", len(v)) + v for k, v in xattrs))
    for name, child in sorted(node["rows"].items()):
        yield from meta_rows(child, path + b"/" + name if path else name)


def tree(node):
    kind = "dir" if node["type"] == "d" else "file"
    return {"kind": kind, "content": object_of(node).hex(), "meta": file(b"".join(meta_rows(node))).hex()}


SPARSE = 100 * 2**20 + 1
linked = entry(7, "f", 0o640, file(b"three names\n"), 1000, 1000, nlink=3, mtime=(-1, 999_999_999),
               xattrs=[(b"user.b", b"\xff\0"), (b"user.a", b"")])
WORKSPACE = entry(2, "d", 0o1777, mtime=(9_007_199_254, 740_993), nlink=4, rows={
    b"caf\xe9": entry(3, "f", 0o644, file(b"not UTF-8 in the name\n")),
    b"tab\t\"quote": entry(4, "l", 0o777, b"caf\xe9"),
    b"empty": entry(5, "d", 0o755, nlink=2),
    b"a": linked,
    b"dir": entry(8, "d", 0o2750, 1000, 1000, nlink=2, rows={b"b": linked, b"B": linked, b"none": entry(9, "f", 0, file(b""))}),
    b"dir.txt": entry(10, "f", 0o4755, file(b"x" * 65536 + b"y")),
    b"sparse": entry(2**53 + 1, "f", 0o600, hole_file(SPARSE, {1023: b"end of the first list\n", 1600: b"!"})),
    b"dev": entry(12, "c", 0o666, struct.pack("<II", 1, 3)),
    b"fifo": entry(13, "p", 0o600, struct.pack("<II", 0, 0)),
})
BEFORE = entry(2, "d", 0o755, nlink=2)
HUGE = entry(14, "f", 0o444, hole_file(2**60 + 5), mtime=(2**53 + 1, 1))
OUTPUTS = entry(15, "d", 0o755, rows={b"result": entry(16, "f", 0o644, file(b"done\n"))})
EVENTS = b'{"at":1}\n{"at":2}\n'


def import_stream():
    """WORKSPACE as docs/WIRE.md, «Import stream»."""
    out, seen = [b"TBIMPRT1"], {}

    def record(type_, node, path, body):
        dev = {"dev": (1 << 8) | 3}.get(path.decode("latin-1"), 0)
        out.append(struct.pack("<cBHIIqIIIQ", type_, 0, node["mode"], node["uid"], node["gid"], *node["mtime"], dev, len(path),
                               len(body)) + path + body)

    def extents(name, path):
        size, parts = struct.unpack_from("<Q", OBJECTS["file", name])[0], []
        if path == b"sparse":
            parts = [(1023 * 65536, b"end of the first list\n"), (1600 * 65536, b"!")]
        elif size:
            parts = [(0, {b"a": b"three names\n", b"caf\xe9": b"not UTF-8 in the name\n", b"dir.txt": b"x" * 65536 + b"y"}[path])]
        return struct.pack("<Q", size) + b"".join(struct.pack("<QI", at, len(b)) + b for at, b in parts)

    def walk(node, path):
        if node["ino"] in seen:
            return record(b"h", node, path, seen[node["ino"]])
        seen[node["ino"]] = path
        body = extents(node["content"], path) if node["type"] == "f" else node["content"] if node["type"] == "l" else b""
        record(node["type"].encode(), node, path, body)
        if node["xattrs"]:
            record(b"a", node, path, b"".join(struct.pack("<H", len(k)) + k + struct.pack("<I", len(v)) + v
                                              for k, v in sorted(node["xattrs"])))
        for name, child in sorted(node["rows"].items()):
            walk(child, path + b"/" + name if path else name)
    walk(WORKSPACE, b"")
    record(b"e", entry(0, "d", 0, mtime=(0, 0)), b"", b"")
    return b"".join(out)


def imported_meta():
    """Digest of WORKSPACE's meta with the inode numbers that an import gives: from 2, in the stream's order."""
    numbers = {}

    def renumbered(node):
        number = numbers.setdefault(node["ino"], len(numbers) + 2)
        return node | {"ino": number, "rows": {name: renumbered(child) for name, child in sorted(node["rows"].items())}}
    kept = dict(OBJECTS)
    name = file(b"".join(meta_rows(renumbered(WORKSPACE))))
    OBJECTS.clear()
    OBJECTS.update(kept)  # no record names it
    return name


def text(raw):
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return {"b16": raw.hex()}


def canonical(value):
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def not_captured(why):
    return {"not_captured": why}


def base(turn, index, previous):
    return {"format": 1, "features": [], "turn": turn, "account": "local", "project": "default", "demand": "golden",
            "thread": "main", "thread_seq": index + 1, "chain_index": index, "previous": previous, "key": KEY,
            "image": hashlib.sha256(b"image").hexdigest(), "kernel": hashlib.sha256(b"kernel").hexdigest(), "calls": []}


def first():
    gone = not_captured("QEMU ended before the turn did")
    return base(FIRST, 0, None) | {
        "status": "failed", "reason": "infrastructure", "detail": "QEMU was killed by signal 9",
        "times": {"started": "1700000000000000001", "booted": None, "ended": "1700000001000000000"},
        "tier": {"asked": None, "given": "emulated"}, "image": None,
        "sandbox": {"fresh": True, "ordinal": 1},
        "workspace": {"before": gone, "after": gone}, "inputs": [], "events": gone,
        "stages": [{"name": "run", "argv": ["true"], "cwd": "/workspace", "env": [], "uid": 0, "gid": 0, "inputs": [],
                    "outputs": gone, "projections": [], "exit": None, "times": {"begun": None, "ended": None}}],
        "capture": {"captured": [], "denied": ["network"], "unknown": ["clock", "randomness"], "flushed": None}}


def second(previous):
    return base(SECOND, 1, previous) | {
        "status": "completed", "reason": None, "detail": None,
        "times": {"started": "9223372036854775807", "booted": "1700000003000000000", "ended": "-1"},
        "tier": {"asked": "emulated", "given": "emulated"},
        "sandbox": {"fresh": False, "ordinal": 2**53 - 1},
        "workspace": {"before": tree(BEFORE), "after": tree(WORKSPACE)},
        "inputs": [{"name": "huge", "tree": tree(HUGE)}, {"name": text(b"\xfe"), "tree": tree(BEFORE)}],
        "events": {"count": EVENTS.count(b"\n"), "digest": file(EVENTS).hex()},
        "stages": [{"name": "run", "argv": ["sh", "-c", "\"\\\b\f\n\r\t\x01\x7f\u20ac\U0001f600", text(b"\xff\0".rstrip(b"\0"))],
                    "cwd": "/workspace", "env": [{"name": "K", "value": text(b"\x80")}, {"name": "A", "value": ""}],
                    "uid": 1000, "gid": 2**32 - 2, "inputs": ["huge", text(b"\xfe")], "outputs": tree(OUTPUTS), "projections": [],
                    "exit": {"code": 0, "timed_out": False}, "times": {"begun": "1700000003500000000", "ended": None}}],
        "capture": {"captured": ["events", "inputs", "outputs", "workspace"], "denied": ["network"],
                    "unknown": ["clock", "randomness"], "flushed": True}}


def sealed(record):
    raw = canonical(record)
    name = hashlib.sha256(b"turnbox.record.v1\0" + raw).digest()
    return raw, name.hex(), sign(b"turnbox.record-signature.v1\0" + name)[1]


def export(path, earlier, record):
    members = [("record.json", record[0]), ("record.sig", record[2]), ("public.key", PUBLIC)]
    for i, one in enumerate(earlier):
        members += [(f"chain/{i}.json", one[0]), (f"chain/{i}.sig", one[2]), (f"chain/{i}.key", PUBLIC)]
    members += sorted(("objects/" + name.hex(), data) for (_, name), data in OBJECTS.items())
    out = b""
    for name, data in members:  # by hand: what tarfile writes differs between versions of Python
        head = bytearray(512)
        head[:len(name)] = name.encode()
        head[100:124] = b"0000644\0" + b"0000000\0" * 2
        head[124:157] = b"%011o\0%011o\0%8s0" % (len(data), 0, b"")
        head[257:265] = b"ustar\x0000"
        head[148:155] = b"%06o\0" % sum(head)
        out += bytes(head) + data + bytes(-len(data) % 512)
    (OUT / path).write_bytes(out + bytes(1024) + bytes(-(len(out) + 1024) % 10240))


def main():
    one = sealed(first())
    two = sealed(second(one[1]))
    stranger = sealed(first() | {"account": "other"})
    export("second.tar", [one], two)
    export("wrong-account.tar", [stranger], sealed(second(stranger[1])))
    (OUT / "first.json").write_bytes(one[0])
    (OUT / "second.json").write_bytes(two[0])
    (OUT / "tree.import").write_bytes(import_stream())
    (OUT / "tree.digest").write_text(object_of(WORKSPACE).hex() + "\n")
    (OUT / "tree.meta").write_text(imported_meta().hex() + "\n")
    (OUT / "second.objects").write_bytes(b"".join(
        struct.pack("<B3xI", KINDS[kind], len(data)) + name + data for (kind, name), data in OBJECTS.items()))


main()
