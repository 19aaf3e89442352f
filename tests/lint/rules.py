"""What tests/lint enforces: the layers of docs/ARCHITECTURE.md, owners of libraries, sizes and words.

Each rule is a function of one file (Source) that yields sentences. lint.py runs them over the tree; lint_test.py proves
of every one that it can fail.
"""

import re
from dataclasses import dataclass
from pathlib import PurePosixPath

# Folder → what its files may include of ours besides their own folder: folders, or single headers where only a format
# or an interface is shared. A folder with code that is not listed is an error: say where it stands first.
SYS_OF_GUEST = ["vmm/sys/bytes.h", "vmm/sys/fd.h", "vmm/sys/result.h"]  # what needs no library
LAYERS = {
    "vmm/sys": [],
    "vmm/vhost": ["vmm/sys"],
    "vmm/vsock": ["vmm/sys", "vmm/vhost"],
    "vmm/guest": SYS_OF_GUEST,
    "vmm/domain": ["vmm/sys"],
    "vmm/image": ["vmm/sys"],
    "fs/page": ["vmm/sys"],
    "fs/tree": ["vmm/sys", "fs/page"],
    "fs/virtiofs": ["vmm/sys", "vmm/vhost", "fs/tree"],
    "fs/fuse": ["vmm/sys", "fs/tree"],
    "fs/turn": ["vmm/sys", "fs/tree", "fs/virtiofs/device.h"],
    "fs/control": ["vmm/sys", "fs/tree", "fs/turn", "fs/fuse"],
    "fs": ["vmm/sys", "vmm/vhost", "fs/tree", "fs/virtiofs", "fs/fuse", "fs/turn", "fs/control"],
    "broker/store": ["vmm/sys"],
    "broker/turn": ["vmm/sys", "broker/store"],
    "broker/exec": ["vmm/sys", "vmm/guest/exec_format.h"],
    "broker/demand": [
        "vmm/sys", "vmm/domain", "vmm/image", "vmm/guest/exec_format.h", "vmm/vsock/dial.h", "fs/control/client.h",
        "fs/control/protocol.h", "broker/store", "broker/turn", "broker/exec",
    ],
    "broker/cli": [
        "vmm/sys", "vmm/domain", "vmm/image", "broker/store", "broker/turn", "broker/exec", "broker/demand",
    ],
}

# Library headers (prefix of the name in <…>) → the only folders that may include them.
LIBRARIES = {
    "lmdb.h": ["broker/store"],
    "libvirt/": ["vmm/domain"],
    "fuse_lowlevel.h": ["fs/fuse"],
    "fuse3/": ["fs/fuse"],
    "fuse.h": ["fs/fuse"],
    "openssl/": ["vmm/sys", "broker/turn"],
    "CLI/": ["vmm/vsock", "fs", "broker/cli"],
    "boost/asio": ["vmm/vhost", "vmm/vsock", "fs", "fs/control", "fs/fuse"],
}
# The tree and the leaf layer know no event loop and no JSON; the guest knows no library at all.
NO_LIBRARIES = {
    "vmm/sys": ["boost/"],
    "fs/page": ["boost/"],
    "fs/tree": ["boost/", "spdlog/"],
    "vmm/guest": ["boost/", "spdlog/", "openssl/", "CLI/", "lmdb.h", "libvirt/", "fuse", "zstd", "tl/"],
}

# Namespaces of two levels, each with its reason.
DEEP_NAMESPACES = {
    "turnbox::fs::leaf": "free functions on the packed bytes of a directory leaf, whose names are short words",
    "turnbox::fs::trie": "free functions on one node type, used by one class",
}

CODE_TOPS = ("vmm", "fs", "broker")
MOST_LINES, MOST_TEST_LINES, MOST_FUNCTION_LINES = 700, 900, 80
WEAK_NOUNS = {"manager", "helper", "helpers", "util", "utils", "base", "impl"}
MACHINE_PATH = re.compile(r"(?<![\w./}])/(?:work/|mnt/\w|home/\w|root/[\w.])")
LOCAL_TOOL = re.compile(r"\bturn-build\b|\bissues show\b")
BANNED_CALL = re.compile(r"(?<![\w.:>])(?:::|std::)?(system|popen|sprintf|vsprintf|strcat|gets|tmpnam|mktemp)\s*\(")
INCLUDE = re.compile(r'^\s*#\s*include\s+(?:"([^"]+)"|<([^>]+)>)')


@dataclass(frozen=True)
class Source:
    path: str  # relative to the root, with slashes
    text: str
    paths: frozenset  # every file of the tree

    @property
    def folder(self):
        return str(PurePosixPath(self.path).parent)

    @property
    def lines(self):
        return self.text.splitlines()

    @property
    def is_cpp(self):
        return self.path.endswith((".h", ".cpp"))

    @property
    def is_product(self):
        return self.is_cpp and self.path.split("/")[0] in CODE_TOPS

    @property
    def is_test(self):
        return self.path.startswith("tests/")

    def includes(self):
        for number, line in enumerate(self.lines, 1):
            if found := INCLUDE.match(line):
                yield number, found.group(1), found.group(2)


def layers(source):
    if not source.is_product:
        return
    if source.folder not in LAYERS:
        yield f"{source.path}: the folder {source.folder} has no place among the layers; add it to LAYERS in tests/lint/rules.py"
        return
    for number, ours, _ in source.includes():
        if ours is None:
            continue
        folder = str(PurePosixPath(ours).parent)
        allowed = LAYERS[source.folder]
        if folder != source.folder and ours not in allowed and folder not in allowed:
            yield f"{source.path}:{number}: {source.folder} may not include {ours} (docs/ARCHITECTURE.md, «Layers»)"


def tests_stay_outside(source):
    for number, ours, _ in source.includes() if source.is_product else ():
        if ours and ours.startswith("tests/"):
            yield f"{source.path}:{number}: the product includes {ours}"


def include_paths(source):
    """Ours are named from the root, so that a layer shows in every include line; a test may name what lies beside it."""
    for number, ours, _ in source.includes() if source.is_cpp else ():
        beside = source.is_test and f"{source.folder}/{ours}" in source.paths
        if ours and ours not in source.paths and not beside:
            yield f'{source.path}:{number}: "{ours}" is no file of ours from the root of the tree; libraries stand in <>'


def libraries(source):
    if not source.is_product:
        return
    for number, _, library in source.includes():
        for prefix, folders in LIBRARIES.items():
            if library and library.startswith(prefix) and source.folder not in folders:
                yield f"{source.path}:{number}: <{library}> belongs to {' and '.join(folders)} alone"
        for prefix in NO_LIBRARIES.get(source.folder, []):
            if library and library.startswith(prefix):
                yield f"{source.path}:{number}: {source.folder} uses no <{library}>"


def headers(source):
    if not source.path.endswith(".h"):
        return
    if not source.text.startswith("//"):
        yield f"{source.path}: a header opens with a comment that says what it is"
    if "#pragma once" not in source.text:
        yield f"{source.path}: #pragma once is missing"
    if re.search(r"^\s*using namespace\b", source.text, re.M):
        yield f"{source.path}: a header does not say «using namespace»"


def namespaces(source):
    for deep in re.findall(r"^namespace (turnbox::\w+::[\w:]+)", source.text, re.M) if source.is_product else ():
        if deep not in DEEP_NAMESPACES:
            yield f"{source.path}: «namespace {deep}» has more than one level below turnbox"


def names(source):
    stem = PurePosixPath(source.path).name.rsplit(".", 1)[0]
    if source.is_cpp and not re.fullmatch(r"[a-z0-9]+(_[a-z0-9]+)*", stem):
        yield f"{source.path}: file names are snake_case"
    if source.is_cpp and WEAK_NOUNS & set(stem.split("_")):
        yield f"{source.path}: name the noun, not {' or '.join(sorted(WEAK_NOUNS & set(stem.split('_'))))}"


def sizes(source):
    if not source.path.endswith((".h", ".cpp", ".py")):
        return
    most = MOST_TEST_LINES if source.is_test else MOST_LINES
    if len(source.lines) > most:
        yield f"{source.path}: {len(source.lines)} lines, more than {most}; find the second noun and split"


def functions(source):
    """A definition at the left margin, as clang-format lays it out: from the line with its `{` to the next `}` there."""
    if not source.is_product:
        return
    head, begun = "", None  # the last line that began at the margin, and where its body opened
    for number, line in enumerate(source.lines, 1):
        if begun is None:
            if re.match(r"[A-Za-z_~]", line):
                head = line
            if line.endswith("{") and "(" in head and not head.startswith(("namespace", "class", "struct", "enum", "union")):
                begun = number
        elif line.startswith("}"):
            if number - begun > MOST_FUNCTION_LINES:
                yield f"{source.path}:{begun}: a function of {number - begun} lines, more than {MOST_FUNCTION_LINES}"
            head, begun = "", None


def calls(source):
    for number, line in enumerate(source.lines, 1) if source.is_product else ():
        if found := BANNED_CALL.search(line.split("//")[0]):
            yield f"{source.path}:{number}: {found.group(1)}() is not used here"


def captures(source):
    for number, line in enumerate(source.lines, 1) if source.is_cpp else ():
        if re.search(r"\[=[\],]", line.split("//")[0]):
            yield f"{source.path}:{number}: name what a lambda captures instead of [=]"


def sleeps(source):
    for number, line in enumerate(source.lines, 1) if source.is_cpp and source.is_test else ():
        if re.search(r"\b(sleep_for|sleep_until|usleep|nanosleep)\s*\(|(?<!\w)::sleep\s*\(", line.split("//")[0]):
            yield f"{source.path}:{number}: a test does not sleep; wait for an event or drive a clock"


def machine_words(source):
    """Paths and tools of somebody's machine. Golden bytes and this folder, which must name them, are left out."""
    if source.path.startswith(("tests/golden/", "tests/lint/")):
        return
    for number, line in enumerate(source.lines, 1):
        for pattern in (MACHINE_PATH, LOCAL_TOOL):
            if found := pattern.search(line):
                yield f"{source.path}:{number}: «{found.group(0)}» is of one machine; nobody else has it"


RULES = [
    layers, tests_stay_outside, include_paths, libraries, headers, namespaces, names, sizes, functions, calls, captures,
    sleeps, machine_words,
]
