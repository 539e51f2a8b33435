"""The tables of a store's index and their rows: processes, rounds, segments and blobs.

The generation numbers the transactions: it shows an index that is older than the segments. `segments` counts
the live bytes of each segment: neither opening nor committing reads every row of a client. Owners are in two
trees, so that damage to one does not make a client look new.
"""

from __future__ import annotations

import sqlite3
import zlib
from typing import NamedTuple

from fedplug.stores.segment import Extent

__all__ = [
    "SERVER",
    "VERSION",
    "Entry",
    "ProcessRow",
    "RoundRow",
    "SegmentRow",
    "client_owner",
    "create_tables",
    "sealed",
]

VERSION = 1
"""The version of the format."""

SERVER = "server"
"""The owner of the server state. Owners of client states start with ``client:``, so none can collide."""

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


class ProcessRow(NamedTuple):
    """The row of a process. ``signature`` and ``metadata`` are JSON texts."""

    process: str
    signature: str
    round: int | None
    metadata: str


class RoundRow(NamedTuple):
    """A kept round. ``metadata`` is a JSON text, ``owners`` a JSON list of the owners it replaced.

    The list is empty if the owners' earlier states are no longer kept.
    """

    process: str
    round: int
    metadata: str
    owners: str


class SegmentRow(NamedTuple):
    """The row of a segment.

    Attributes:
        segment: The number of the segment.
        live: Bytes that live blobs occupy.
        note: Bytes that are not blobs (`fedplug.stores.note`).
        doomed: 1 if it holds blobs of rounds undone by a rewind and must be rewritten; else 0.
    """

    segment: int
    live: int
    note: int
    doomed: int


class Entry(NamedTuple):
    """The owner, round and place of a blob."""

    process: str
    owner: str
    round: int
    extent: Extent

    def __str__(self) -> str:
        whose = "server state" if self.owner == SERVER else f"client {self.client!r}"
        return f"process {self.process!r}, {whose}, round {self.round}"

    @property
    def is_server(self) -> bool:
        """Whether the blob is the server's state."""
        return self.owner == SERVER

    @property
    def client(self) -> str:
        """The client id; only for entries of clients."""
        return self.owner.removeprefix("client:")


def client_owner(client_id: str) -> str:
    """Returns the owner name of a client's state."""
    return "client:" + client_id


def create_tables(database: sqlite3.Connection) -> None:
    """Makes the tables, within the caller's transaction."""
    for statement in _SCHEMA.split(";"):
        database.execute(statement)
    database.execute("INSERT INTO generation VALUES (?, ?)", sealed((VERSION, 0))[1:])


def sealed(row: tuple[object, ...]) -> tuple[object, ...]:
    """Returns the row with its checksum appended."""
    return (*row, zlib.crc32(ascii(tuple(row)).encode()))
