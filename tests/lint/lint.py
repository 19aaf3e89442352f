#!/usr/bin/env python3
"""Runs every rule of rules.py over the source tree given as argument; prints what is wrong and exits 1."""

import sys
from pathlib import Path

from rules import RULES, Source

TOPS = ("vmm", "fs", "broker", "tests", "packaging", "docs", ".ci")
TEXT = {".h", ".cpp", ".py", ".md", ".build", ".options", ".toml", ".sh", ".service", ".conf", ".xml", ".json", ""}


def files_of(root):
    """The tree's own files: the fixed top level only, so that no build directory is read."""
    yield from (path for path in root.iterdir() if path.is_file())
    for top in TOPS:
        yield from (path for path in (root / top).rglob("*") if path.is_file() and "__pycache__" not in path.parts)


def complaints(root, rules=RULES):
    found = {path.relative_to(root).as_posix(): path for path in files_of(root)}
    paths = frozenset(found)
    for name, path in sorted(found.items()):
        if path.suffix not in TEXT or name == "LICENSE":
            continue
        try:
            source = Source(name, path.read_text(encoding="utf-8"), paths)
        except UnicodeDecodeError:
            continue  # test data
        for rule in rules:
            yield from rule(source)


def main():
    if len(sys.argv) != 2 or not (Path(sys.argv[1]) / "meson.build").is_file():
        sys.exit("usage: lint.py ROOT (the folder with the top meson.build)")
    wrong = list(complaints(Path(sys.argv[1])))
    print("\n".join(wrong) or "lint: nothing wrong")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
