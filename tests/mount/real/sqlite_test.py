"""SQLite in WAL mode with several processes: what was committed is there, what was read was whole.

TURNBOX_SQLITE_SECONDS says how long (a minute unless given; the nightly run takes thirty).
"""
import os
import random
import sqlite3
import time
import unittest

import place

SECONDS = float(os.environ.get("TURNBOX_SQLITE_SECONDS", "60"))
ACCOUNTS, TOTAL = 64, 64 * 1000


def open_database(name):
    database = sqlite3.connect(name, timeout=60, isolation_level=None)
    database.execute("PRAGMA synchronous=FULL")
    return database


def checkpoint(database):
    """It waits for every reader while it keeps all writers out: not for long, or readers that overlap starve them."""
    database.execute("PRAGMA busy_timeout=200")
    database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    database.execute("PRAGMA busy_timeout=60000")


class Wal(place.PlaceTest):
    def transfer(self, writer):
        """Moves amounts between accounts: the sum stays, and every move is in the journal."""
        draw = random.Random(writer)
        database = open_database(self.path("bank.db"))
        made, end = 0, time.monotonic() + SECONDS
        while time.monotonic() < end:
            a, b, amount = draw.randrange(ACCOUNTS), draw.randrange(ACCOUNTS), draw.randrange(100)
            database.execute("BEGIN IMMEDIATE")
            database.execute("UPDATE account SET sum = sum - ? WHERE id = ?", (amount, a))
            database.execute("UPDATE account SET sum = sum + ? WHERE id = ?", (amount, b))
            database.execute("INSERT INTO journal VALUES (?, ?, ?)", (writer, made, os.urandom(draw.randrange(3000))))
            if draw.random() < 0.1:
                database.execute("ROLLBACK")
                continue
            database.execute("COMMIT")
            made += 1
            if draw.random() < 0.01:
                checkpoint(database)
            if draw.random() < 0.02:  # as programs come and go
                database.close()
                database = open_database(self.path("bank.db"))
        assert database.execute("SELECT count(*) FROM journal WHERE writer = ?", (writer,)).fetchone() == (made,)
        assert made > 0
        database.close()

    def look(self, reader):
        end = time.monotonic() + SECONDS
        looks = 0
        while time.monotonic() < end:
            database = open_database(self.path("bank.db"))
            database.execute("BEGIN")
            for _ in range(5):
                assert database.execute("SELECT sum(sum) FROM account").fetchone() == (TOTAL,)
                for (most, count) in database.execute("SELECT max(n), count(*) FROM journal GROUP BY writer"):
                    assert most + 1 == count, f"reader {reader}: {count} entries up to {most}"
            database.execute("COMMIT")
            database.close()
            looks += 1
        assert looks > 0

    def test_writers_and_readers(self):
        database = open_database(self.path("bank.db"))
        self.assertEqual(database.execute("PRAGMA journal_mode=WAL").fetchone(), ("wal",))
        database.execute("CREATE TABLE account (id INTEGER PRIMARY KEY, sum INTEGER)")
        database.execute("CREATE TABLE journal (writer INTEGER, n INTEGER, bytes BLOB, PRIMARY KEY (writer, n))")
        database.executemany("INSERT INTO account VALUES (?, 1000)", [(i,) for i in range(ACCOUNTS)])
        database.close()
        self.forks(5, lambda i: self.transfer(i) if i < 3 else self.look(i))
        database = open_database(self.path("bank.db"))
        self.assertEqual(database.execute("PRAGMA integrity_check").fetchone(), ("ok",))
        self.assertEqual(database.execute("SELECT sum(sum) FROM account").fetchone(), (TOTAL,))
        database.close()


if __name__ == "__main__":
    place.main()
