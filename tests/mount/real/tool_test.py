"""Tools at work: git, python's venv, trees as npm makes them, tar and cp."""
import os
import sys
import unittest

import place

IDENTITY = "export HOME=$PWD GIT_CONFIG_NOSYSTEM=1 GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a " \
           "GIT_COMMITTER_EMAIL=a@b; git config --global init.defaultBranch main; git config --global gc.auto 0;"


class Git(place.PlaceTest):
    def setUp(self):
        super().setUp()
        self.needs("git")

    def git(self, script):
        return self.sh(IDENTITY + script)

    def make_origin(self):
        self.git("""
            git init -q origin; cd origin
            for d in 1 2 3 4 5; do mkdir dir$d; for f in 1 2 3 4 5 6 7 8; do seq $((d*f*20)) >dir$d/file$f; done; done
            chmod 755 dir1/file1; ln -s file1 dir1/link; git add .; git commit -qm first
            git switch -qc side; seq 7 >dir2/file3; rm dir3/file1; git commit -qam side; git switch -q main
        """)

    def test_clone_add_commit_switch_merge(self):
        self.make_origin()
        self.git("""
            git clone -q --no-hardlinks origin clone; cd clone
            test -z "$(git status --porcelain)"
            echo more >>dir4/file4; git add dir4/file4; git commit -qm more
            git switch -q side; test ! -e dir3/file1; test "$(cat dir2/file3 | wc -l)" = 7
            git switch -q main; test -e dir3/file1; git merge -q -m merged side
            test ! -e dir3/file1; test -z "$(git status --porcelain)"; git fsck --strict
        """)

    def test_gc_and_repack_keep_everything(self):
        self.make_origin()
        self.git("""
            cd origin; for i in 1 2 3 4 5 6 7 8 9; do echo $i >dir1/file2; git commit -qam $i; done
            before=$(git rev-list --all | wc -l); git gc -q --aggressive --prune=now; git repack -qadf
            test "$(git rev-list --all | wc -l)" = $before; git fsck --full --strict; test -z "$(git status --porcelain)"
        """)

    def test_worktrees_and_stash(self):
        self.make_origin()
        self.git("""
            cd origin; git worktree add -q ../tree side; cd ../tree
            echo x >new; git add new; git commit -qm new; echo dirty >>dir1/file1; git stash -q; git stash pop -q
            git checkout -q -- dir1/file1; cd ../origin; git worktree list | grep -q tree
            git worktree remove ../tree; test ! -e ../tree; git log -1 --format=%s side | grep -qx new
        """)

    def test_a_cloned_tree_is_the_same(self):
        self.make_origin()
        out = self.git("""
            git clone -q origin linked; diff -r -x .git origin linked; cd linked; git pull -q; git bundle create -q ../b --all
            git clone -q ../b ../from-bundle; diff -r -x .git . ../from-bundle; echo same
        """)
        self.assertTrue(out.endswith("same\n"), out)


class Tools(place.PlaceTest):
    def test_python_venv(self):
        try:
            import ensurepip  # noqa: F401: only whether it is there
            options = ""
        except ImportError:
            options = "--without-pip"
        self.sh(f"""
            {sys.executable} -m venv {options} env
            env/bin/python -c 'import sys, json, sqlite3; assert sys.prefix != sys.base_prefix'
            mkdir -p pkg; echo 'VALUE = 42' >pkg/__init__.py; env/bin/python -c 'import pkg; assert pkg.VALUE == 42'
            test -d pkg/__pycache__; {sys.executable} -m venv --clear --without-pip env; env/bin/python -c pass
        """, env=dict(os.environ, PYTHONDONTWRITEBYTECODE=""))

    def test_a_tree_of_hard_links_and_symlinks(self):
        """As package managers lay it out: one store, hard links from every package, symlinks between packages."""
        os.makedirs(self.path("store"))
        for i in range(200):
            self.write(f"store/{i}", f"content {i}".encode())
        for package in range(50):
            root = self.path("modules", f".pkg{package}", "lib")
            os.makedirs(root)
            for i in range(package, package + 100):
                os.link(self.path("store", str(i)), os.path.join(root, f"file{i}.js"))
            os.symlink(f".pkg{package}/lib", self.path("modules", f"p{package}"))
            if package:
                os.symlink(f"../../p{package - 1}", os.path.join(root, "dependency"))
        self.assertEqual(os.stat(self.path("store", "60")).st_nlink, 51)
        self.assertEqual(self.read("modules/p49/dependency/dependency/file47.js"), b"content 47")
        self.needs("tar", "cp", "rm")
        self.sh("""
            cp -a modules copy; diff -r --no-dereference modules copy
            tar cf all.tar store modules; mkdir out; tar xf all.tar -C out; diff -r --no-dereference modules out/modules
            test "$(stat -c %h out/store/60)" = 51; test "$(du -sk out/store | cut -f1)" -lt 1000; rm -r out copy all.tar
        """)
        os.rename(self.path("modules"), self.path("moved"))
        self.assertEqual(self.read("moved/p1/file2.js"), b"content 2")

    def test_a_build_writes_and_replaces(self):
        self.needs("make", "cc")
        self.write("main.c", b"#include <stdio.h>\nint main(void) { puts(WORD); return 0; }\n")
        self.write("Makefile", b"main: main.c word\n\tcc -DWORD=\"\\\"$$(cat word)\\\"\" -o $@ main.c\n")
        self.write("word", b"one")
        self.assertIn("one", self.sh("make -s main; ./main; make -q main"))
        self.sh("sleep 0.01; printf two >word.tmp; mv word.tmp word")
        self.assertIn("two", self.sh("! make -q main; make -s main; ./main"))


if __name__ == "__main__":
    place.main()
