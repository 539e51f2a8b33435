"""The tables of a store's index.

The generation numbers the transactions: it shows an index that is older than the segments. `segments` counts
the live bytes of each segment: neither opening nor committing reads every row of a client. Owners are in two
trees, so that damage to one does not make a client look new.
"""

from __future__ import annotations

import sqlite3
import zlib
from typing import Any

__all__ = ["VERSION", "create", "sealed"]

VERSION = 1

_SCHEMA = """
CREATE TABLE processes (
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
CREATE TABLE generation (generation INTEGER NOT NULL, seal INTEGER NOT NULL);
"""


def create(database: sqlite3.Connection) -> None:
    """Makes the tables, within the caller's transaction."""
    for statement in _SCHEMA.split(";"):
        database.execute(statement)
    database.execute("INSERT INTO generation VALUES (?, ?)", sealed((VERSION, 0))[1:])


def sealed(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """The row with its checksum appended."""
    return (*row, zlib.crc32(ascii(tuple(row)).encode()))
