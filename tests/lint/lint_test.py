#!/usr/bin/env python3
"""Proves that lint can fail: a small clean tree, and for every rule changes of it that this rule, and no other, finds."""

import sys
import tempfile
import unittest
from pathlib import Path

from lint import complaints
from rules import MOST_FUNCTION_LINES, MOST_LINES, MOST_TEST_LINES, RULES

HEADER = "// A thing.\n#pragma once\n"
CLEAN = {
    "meson.build": "project('x', 'cpp')\n",
    "vmm/sys/fd.h": HEADER,
    "vmm/sys/log.h": HEADER,
    "vmm/sys/fd.cpp": '#include "vmm/sys/fd.h"\n\n#include <openssl/evp.h>\n',
    "vmm/vhost/queue.h": HEADER + '#include <boost/asio/io_context.hpp>\n#include "vmm/sys/fd.h"\n',
    "vmm/guest/exec_format.h": HEADER + '#include "vmm/sys/fd.h"\n',
    "fs/tree/tree.h": HEADER + '#include "vmm/sys/fd.h"\n',
    "fs/virtiofs/device.h": HEADER + '#include "fs/tree/tree.h"\n#include "vmm/vhost/queue.h"\n',
    "broker/store/env.cpp": "#include <lmdb.h>\n",
    "broker/exec/session.cpp": '#include "vmm/guest/exec_format.h"\n',
    "tests/unit/sys/fd_test.cpp": '#include "fs/virtiofs/device.h"\n#include "vmm/vhost/queue.h"\n',
    "docs/STYLE.md": "The guest's /workspace and /root are its own; /work is a word.\n",
}

# Rule → what is written over the clean tree, one breach each.
BREACHES = {
    "layers": [
        {"vmm/sys/up.h": HEADER + '#include "vmm/vhost/queue.h"\n'},
        {"vmm/vhost/up.h": HEADER + '#include "fs/tree/tree.h"\n'},
        {"fs/tree/up.h": HEADER + '#include "fs/virtiofs/device.h"\n'},
        {"fs/tree/side.h": HEADER + '#include "vmm/vhost/queue.h"\n'},
        {"fs/virtiofs/side.h": HEADER + '#include "broker/exec/far.h"\n', "broker/exec/far.h": HEADER},
        {"vmm/vsock/side.h": HEADER + '#include "fs/tree/tree.h"\n'},
        {"vmm/guest/log.cpp": '#include "vmm/sys/log.h"\n'},
        {"broker/exec/more.cpp": '#include "vmm/guest/other.h"\n', "vmm/guest/other.h": HEADER},
        {"broker/newcomer/thing.h": HEADER},
    ],
    "tests_stay_outside": [{"vmm/sys/odd.cpp": '#include "tests/support/x.h"\n', "tests/support/x.h": HEADER}],
    "include_paths": [{"tests/unit/sys/odd.cpp": '#include "fd.h"\n'},
                      {"vmm/sys/odd.cpp": '#include "fd.h"\n'}, {"vmm/sys/odd.cpp": '#include "vmm/sys/none.h"\n'}],
    "libraries": [
        {"broker/exec/odd.cpp": "#include <lmdb.h>\n"},
        {"broker/demand/odd.cpp": "#include <libvirt/libvirt.h>\n"},
        {"fs/virtiofs/odd.cpp": "#include <fuse_lowlevel.h>\n"},
        {"fs/virtiofs/odd.cpp": "#include <fuse3/fuse_lowlevel.h>\n"},
        {"fs/tree/odd.cpp": "  #  include <boost/json.hpp>\n"},
        {"fs/tree/odd.cpp": "#include <boost/asio/post.hpp>\n"},
        {"vmm/guest/odd.cpp": "#include <spdlog/spdlog.h>\n"},
        {"vmm/sys/odd.cpp": "#include <boost/json.hpp>\n"},
    ],
    "headers": [
        {"vmm/sys/odd.h": "#pragma once\n"},
        {"vmm/sys/odd.h": "// A thing.\n"},
        {"vmm/sys/odd.h": HEADER + "using namespace std;\n"},
    ],
    "namespaces": [{"vmm/sys/odd.cpp": "namespace turnbox::sys::deep {\n"}],
    "names": [{"vmm/sys/Odd.cpp": ""}, {"vmm/sys/odd-name.cpp": ""}, {"vmm/sys/fd_helper.cpp": ""}],
    "sizes": [
        {"vmm/sys/odd.cpp": "\n" * (MOST_LINES + 1)},
        {"tests/unit/sys/odd_test.cpp": "\n" * (MOST_TEST_LINES + 1)},
    ],
    "functions": [
        {"vmm/sys/odd.cpp": "int long_one() {\n" + "  ;\n" * MOST_FUNCTION_LINES + "}\n"},
        {"vmm/sys/odd.cpp": "int long_one(int a,\n             int b) {\n" + "  ;\n" * MOST_FUNCTION_LINES + "}\n"},
        {"vmm/sys/odd.cpp": "struct S {\n};\nS::S(int a)\n    : a_(a) {\n" + "  ;\n" * MOST_FUNCTION_LINES + "}\n"},
    ],
    "calls": [{"vmm/sys/odd.cpp": '  return std::system("true");\n'}, {"fs/tree/odd.cpp": "  sprintf(text, format);\n"}],
    "captures": [{"vmm/sys/odd.cpp": "auto f = [=] {};\n"}, {"tests/unit/sys/odd.cpp": "auto f = [=, this] {};\n"}],
    "sleeps": [{"tests/unit/sys/odd.cpp": "  std::this_thread::sleep_for(1ms);\n"}, {"tests/unit/sys/odd.cpp": "  ::sleep(1);\n"}],
    "machine_words": [
        {"docs/odd.md": "see /root/w/notes\n"},
        {"packaging/odd": "cd /home/somebody/src\n"},
        {"vmm/sys/odd.cpp": '// as in /work/main\n'},
        {"docs/odd.md": "run turn-build\n"},
    ],
}

# What looks like a breach and is none.
INNOCENT = {
    "short functions": {"vmm/sys/odd.cpp": "int short_one() {\n" + "  ;\n" * (MOST_FUNCTION_LINES - 1) + "}\n"},
    "longest file": {"vmm/sys/odd.cpp": "\n" * MOST_LINES},
    "longest test": {"tests/unit/sys/odd_test.cpp": "\n" * MOST_TEST_LINES},
    "a namespace is no function": {"vmm/sys/odd.cpp": "namespace turnbox::sys {\n" + "int a;\n" * 200 + "}\n"},
    "a test's neighbour": {"tests/unit/sys/odd.cpp": '#include "world.h"\n', "tests/unit/sys/world.h": HEADER},
    "words in comments": {"vmm/sys/odd.cpp": "// system(3) and [=] and sprintf(x)\n"},
    "methods of that name": {"vmm/sys/odd.cpp": "  clock.system();\n"},
    "a path that goes on": {"docs/odd.md": "/workspace/x, usr/work/x, /roots, {folder}/root/x\n"},
    "golden bytes": {"tests/golden/odd.json": '"/home/somebody"\n'},
    "data that is no text": {"tests/golden/odd": b"\xff\xfe"},
}


def rules_that_complain(changes):
    """The names of the rules that find something in the clean tree with these changes."""
    names = set()
    with tempfile.TemporaryDirectory() as folder:
        for name, text in {**CLEAN, **changes}.items():
            path = Path(folder, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(text if isinstance(text, bytes) else text.encode())
        for rule in RULES:
            if list(complaints(Path(folder), [rule])):
                names.add(rule.__name__)
    return names


class LintTest(unittest.TestCase):
    def test_clean_tree_is_clean(self):
        self.assertEqual(rules_that_complain({}), set())

    def test_every_rule_has_a_breach(self):
        self.assertEqual({rule.__name__ for rule in RULES}, set(BREACHES))

    def test_every_breach_is_found_by_its_rule_alone(self):
        for rule, trees in BREACHES.items():
            for changes in trees:
                with self.subTest(rule=rule, changes=list(changes)):
                    # A header that is no product header has no place among the layers either.
                    also = {"layers"} if rule in ("tests_stay_outside", "include_paths") else set()
                    found = rules_that_complain(changes)
                    self.assertIn(rule, found)
                    self.assertLessEqual(found, {rule} | also)

    def test_innocent_trees_pass(self):
        for what, changes in INNOCENT.items():
            with self.subTest(what=what):
                self.assertEqual(rules_that_complain(changes), set())


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=1)
