"""The tables of a store's index, and how an index of an older release gets them.

Version 3 numbers its transactions, so that an index older than the segments is noticed. Version 2 keeps
several rounds of an owner's state, counts what is alive in each segment, so that neither opening nor
committing has to look at every client, and finds owners in two trees, so that damage to one does not make a
client look new. Version 1 (release 0.1) had one row for each owner and no counts.
"""

from __future__ import annotations

import sqlite3
import zlib
from collections import Counter
from typing import Any

from fedplug.stores.segment import occupied

__all__ = ["VERSION", "create", "sealed", "upgrade"]

VERSION = 3

_SCHEMA = """
CREATE TABLE IF NOT EXISTS processes (
    process TEXT PRIMARY KEY, signature TEXT NOT NULL, round INTEGER, metadata TEXT NOT NULL,
    seal INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE rounds (
    process TEXT NOT NULL, round INTEGER NOT NULL, metadata TEXT NOT NULL, owners TEXT NOT NULL,
    seal INTEGER NOT NULL,
    PRIMARY KEY (process, round)
) WITHOUT ROWID;
CREATE TABLE segments (
    segment INTEGER PRIMARY KEY, live INTEGER NOT NULL, note INTEGER NOT NULL, doomed INTEGER NOT NULL,
    seal INTEGER NOT NULL
);
CREATE TABLE blobs (
    process TEXT NOT NULL, owner TEXT NOT NULL, round INTEGER NOT NULL,
    segment INTEGER NOT NULL, position INTEGER NOT NULL, size INTEGER NOT NULL, checksum INTEGER NOT NULL,
    seal INTEGER NOT NULL,
    PRIMARY KEY (process, owner, round)
) WITHOUT ROWID;
CREATE INDEX blobs_by_owner ON blobs (owner, process, round);
CREATE INDEX blobs_by_segment ON blobs (segment, position);
"""
_GENERATION = "CREATE TABLE generation (generation INTEGER NOT NULL, seal INTEGER NOT NULL)"


def create(database: sqlite3.Connection) -> None:
    """Makes the tables, within the caller's transaction."""
    for statement in _SCHEMA.split(";"):
        database.execute(statement)
    _number_transactions(database)


def upgrade(database: sqlite3.Connection, version: int) -> None:
    """Turns the tables of an older version into those of this one, within the caller's transaction.

    The rows keep their checksums: what they say stays as it is.
    """
    if version == 1:
        _upgrade_from_1(database)
    else:
        _number_transactions(database)


def _number_transactions(database: sqlite3.Connection) -> None:
    database.execute(_GENERATION)
    database.execute("INSERT INTO generation VALUES (?, ?)", sealed((VERSION, 0))[1:])


def _upgrade_from_1(database: sqlite3.Connection) -> None:
    database.execute("DROP INDEX blobs_by_segment")
    database.execute("ALTER TABLE blobs RENAME TO blobs_1")
    create(database)
    database.execute("INSERT INTO blobs SELECT * FROM blobs_1")
    database.execute("DROP TABLE blobs_1")
    live: Counter[int] = Counter()
    for segment, size in database.execute("SELECT segment, size FROM blobs"):
        live[segment] += occupied(size)
    rows = [sealed((segment, alive, 0, 0)) for segment, alive in live.items()]
    database.executemany("INSERT INTO segments VALUES (?, ?, ?, ?, ?)", rows)
    finished = database.execute("SELECT process, round, metadata FROM processes WHERE round IS NOT NULL")
    for row in finished.fetchall():
        database.execute("INSERT INTO rounds VALUES (?, ?, ?, ?, ?)", sealed((*row, "[]")))


def sealed(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """The row with its checksum appended."""
    return (*row, zlib.crc32(ascii(tuple(row)).encode()))
