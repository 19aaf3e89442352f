#!/usr/bin/env python3
"""Check a turn exported by turnbox (docs/RECORD.md): prints OK and exits 0, or the first thing wrong and exits 1."""
import argparse, hashlib, json, re, struct, sys, tarfile

P, L = 2**255 - 19, 2**252 + 27742317777372353535851937790883648493  # Ed25519 (RFC 8032)
D = -121665 * pow(121666, P - 2, P) % P


def add(p, q):
    a, b, c, d = (p[1] - p[0]) * (q[1] - q[0]), (p[1] + p[0]) * (q[1] + q[0]), 2 * p[3] * q[3] * D, 2 * p[2] * q[2]
    e, f, g, h = b - a, d - c, d + c, b + a
    return e * f % P, g * h % P, f * g % P, e * h % P


def times(n, p):
    q = (0, 1, 1, 0)
    while n:
        q, p, n = add(q, p) if n & 1 else q, add(p, p), n >> 1
    return q


def point(raw):
    y, sign = int.from_bytes(raw, "little") & (1 << 255) - 1, raw[31] >> 7
    xx = (y * y - 1) * pow(D * y * y + 1, P - 2, P) % P
    x = pow(xx, (P + 3) // 8, P)
    x = x if x * x % P == xx else x * pow(2, (P - 1) // 4, P) % P
    if y >= P or x * x % P != xx or (x == 0 and sign):
        raise ValueError("not a point of the curve")
    x = P - x if x & 1 != sign else x
    return x, y, 1, x * y % P


def signed(key, signature, message):
    base = point((4 * pow(5, P - 2, P) % P).to_bytes(32, "little"))
    r, s = point(signature[:32]), int.from_bytes(signature[32:], "little")
    k = int.from_bytes(hashlib.sha512(signature[:32] + key + message).digest(), "little") % L
    one, two = times(s, base), add(r, times(k, point(key)))
    return s < L and all((one[i] * two[2] - two[i] * one[2]) % P == 0 for i in (0, 1))


def need(condition, text):
    if not condition:
        raise ValueError(text)


def digest(kind, data):
    return hashlib.sha256(b"turnbox.%s.v1\0" % kind.encode() + data).hexdigest()


def canonical(raw, where):
    def pairs(items):
        need(all(re.fullmatch("[a-z_]+|b16", key) for key, _ in items), where + ": a key that is not [a-z_]+")
        return dict(items)

    def number(text):
        need(re.fullmatch("-?[0-9]{1,16}", text) and abs(int(text)) < 2**53, where + ": number " + text)
        return int(text)
    value = json.loads(raw.decode(), object_pairs_hook=pairs, parse_int=number, parse_float=number, parse_constant=number)
    need(json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode() == raw,
         where + ": not canonical JSON")
    return value


def check_record(tar, stem, key_member, want_key):
    """The parsed record and its digest, after form, key and signature."""
    raw, signature, key = tar[stem + ".json"], tar[stem + ".sig"], tar[key_member]
    record, name = canonical(raw, stem + ".json"), digest("record", raw)
    need(record["format"] == 1 and record["features"] == [], stem + ": a format or feature this program does not know")
    need(record["key"] == hashlib.sha256(key).hexdigest(), stem + ": signed with another key than it says")
    need(want_key in (None, record["key"]), stem + ": key is " + record["key"])
    need(len(key) == 32 and len(signature) == 64 and
         signed(key, signature, b"turnbox.record-signature.v1\0" + bytes.fromhex(name)), stem + ": wrong signature")
    return record, name


class Objects:
    def __init__(self, tar):
        self.tar, self.used, self.spans = tar, set(), set()

    def get(self, kind, name, where):
        raw = self.tar.get("objects/" + name)
        need(raw is not None, f"{where}: {kind} {name} is missing")
        if (kind, name) not in self.used:
            need(digest(kind, raw) == name, f"{where}: {kind} {name} has other bytes")
            self.used.add((kind, name))
        return raw

    def span(self, height, size, name, where):
        """One digest that stands for `size` bytes of content, `height` levels above the chunks."""
        if (height, size, name) in self.spans:
            return
        raw = self.get("list" if height else "chunk", name, where)
        if height:
            self.row(height - 1, size, raw, where)
        else:
            need(len(raw) == size, where + ": a chunk of the wrong length")
        self.spans.add((height, size, name))

    def row(self, height, size, raw, where):
        each = 65536 * 1024**height
        need(len(raw) == -(-size // each) * 32, where + ": wrong number of digests")
        for at in range(0, len(raw), 32):
            self.span(height, min(each, size - at // 32 * each), raw[at:at + 32].hex(), where)

    def file(self, name, where):
        raw = self.get("file", name, where)
        size, height = struct.unpack_from("<Q", raw)[0], 0
        while size > 65536 * 1024 * 1024**height:
            height += 1
        self.row(height, size, raw[8:], where)
        return height, raw[8:]

    def content(self, name, where):
        height, raw = self.file(name, where)
        for level in range(height, -1, -1):
            raw = b"".join(self.tar["objects/" + raw[at:at + 32].hex()] for at in range(0, len(raw), 32))
        return raw

    def walk(self, type_, name, path, mode, where):
        """Depth first: (path, mode or None, type and digest) of everything in the tree."""
        stack = [(type_, name, path, mode)]
        while stack:
            type_, name, path, mode = stack.pop()
            here = where + ": " + path.decode("utf-8", "backslashreplace") if path else where
            yield path, mode, (type_, name)
            if type_ == "f":
                self.file(name, here)
            elif type_ == "l":
                self.get("symlink", name, here)
            elif type_ != "d":
                need(len(self.get("node", name, here)) == 8, here + ": a node that is not 8 bytes")
            else:
                raw, at, last, rows = self.get("dir", name, here), 0, b"", []
                while at < len(raw):
                    kind, bits, length = struct.unpack_from("<cIH", raw, at)
                    entry, child = raw[at + 7:at + 7 + length], raw[at + 7 + length:at + 39 + length]
                    need(kind in b"fdlcbps" and bits <= 0o7777 and len(child) == 32 and 0 < length <= 255 and last < entry
                         and entry not in (b".", b"..") and not set(b"/\0") & set(entry), here + ": a bad directory row")
                    rows.append((kind.decode(), child.hex(), path + b"/" + entry if path else entry, bits))
                    at, last = at + 39 + length, entry
                stack += reversed(rows)

    def tree(self, tree, where):
        if "not_captured" in tree:
            return
        need(tree["kind"] in ("dir", "file"), where + ": a tree of unknown kind")
        meta, at, inodes = self.content(tree["meta"], where + " meta"), 0, {}
        for path, mode, what in self.walk(tree["kind"][0], tree["content"], b"", None, where):
            length, = struct.unpack_from("<I", meta, at)
            inode, _, _, _, _, nsec, bits, xattrs = struct.unpack_from("<QIIIqIIH", meta, at + 4 + length)
            need(meta[at + 4:at + 4 + length] == path and mode in (None, bits) and nsec < 10**9 and bits <= 0o7777
                 and inodes.setdefault(inode, what) == what,
                 f"{where} meta: the row of {path!r} does not fit")
            at += 42 + length
            for _ in range(xattrs):
                at += 2 + int.from_bytes(meta[at:at + 2], "little")
                at += 4 + int.from_bytes(meta[at:at + 4], "little")
        need(at == len(meta), where + " meta: wrong length")


def main(options):
    with tarfile.open(options.file, "r:") as archive:
        members = archive.getmembers()
        need(all(m.isreg() for m in members) and len({m.name for m in members}) == len(members), "not plain members")
        tar = {m.name: archive.extractfile(m).read() for m in members}
    record, name = check_record(tar, "record", "public.key", options.key)
    need(options.account in (None, record["account"]), "record: account is " + record["account"])
    previous = None
    for i in range(record["chain_index"]):
        stem = f"chain/{i}"
        earlier, its_name = check_record(tar, stem, stem + ".key", None)
        for field in "account", "demand":
            need(earlier[field] == record[field], f"{stem}: {field} is {earlier[field]}, the record's is {record[field]}")
        need(earlier["chain_index"] == i and earlier["previous"] == previous, stem + ": the chain is broken")
        previous = its_name
    need(record["previous"] == previous, "record: the chain is broken")
    objects, events = Objects(tar), record["events"]
    objects.tree(record["workspace"]["before"], "workspace before")
    objects.tree(record["workspace"]["after"], "workspace after")
    for item in record["inputs"]:
        objects.tree(item["tree"], f"input {item['name']}")
    for stage in record["stages"]:
        objects.tree(stage["outputs"], f"outputs of {stage['name']}")
    if "not_captured" not in events:
        need(objects.content(events["digest"], "events").count(b"\n") == events["count"], "events: another count of lines")
    known = {"record.json", "record.sig", "public.key"} | {"objects/" + n for _, n in objects.used}
    known |= {f"chain/{i}.{end}" for i in range(record["chain_index"]) for end in ("json", "sig", "key")}
    need(set(tar) == known, f"members that nothing names: {sorted(set(tar) - known)[:3]}")
    print(f"OK turn {record['turn']} record {name} key {record['key']}: {len(objects.used)} objects")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", help="the exported tar file")
    parser.add_argument("--key", help="refuse any other signing key than this id")
    parser.add_argument("--account", help="refuse a record of any other account")
    try:
        main(parser.parse_args())
    except (ValueError, KeyError, TypeError, IndexError, AttributeError, struct.error, tarfile.TarError, OSError) as e:
        sys.exit(f"WRONG {'missing ' if isinstance(e, KeyError) else ''}{e}")
