"""States as rows: parts with a checksum each, which also covers the part's identity."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator
from typing import NamedTuple

from fedplug.errors import CorruptStoreError
from fedplug.stores.rows import SERVER
from fedplug_postgres.schema import digest

__all__ = ["COLUMNS", "TYPES", "Part", "cut", "joined"]

SIZE = 4 << 20


class Part(NamedTuple):
    """A row of the table ``state`` in the database."""

    process: bytes
    owner: bytes
    round: int
    part: int
    parts: int
    name: bytes
    checksum: int
    data: bytes


COLUMNS = ", ".join(Part._fields)
TYPES = ("bytea", "bytea", "int8", "int4", "int4", "bytea", "int8", "bytea")


def cut(process: str, owner: str, round_num: int, document: bytes) -> Iterator[Part]:
    """Yields the rows of a state. An empty state has a row, too."""
    parts = max(1, -(-len(document) // SIZE))
    for part in range(parts):
        yield _part(process, owner, round_num, part, parts, document[part * SIZE : (part + 1) * SIZE])


def joined(process: str, owner: str, parts: list[Part], where: str) -> bytes:
    """Returns the document of a state from all its rows in order.

    Raises:
        CorruptStoreError: A row is missing or damaged.
    """
    for number, part in enumerate(parts):
        if part != _part(process, owner, part.round, number, len(parts), part.data):
            whose = "server state" if owner == SERVER else f"client {owner.removeprefix('client:')!r}"
            raise CorruptStoreError(
                f"process {process!r}, {whose}, round {part.round}: {where} is corrupt: part {number} of its "
                f"{part.parts} in the table 'state' is missing or fails its checksum; restore the database "
                "from a backup, or start a new store"
            )
    return b"".join(part.data for part in parts)


def _part(process: str, owner: str, round_num: int, part: int, parts: int, data: bytes) -> Part:
    whose = json.dumps([process, owner, round_num, part, parts]).encode()
    checksum = zlib.crc32(data, zlib.crc32(whose))
    return Part(digest(process), digest(owner), round_num, part, parts, owner.encode(), checksum, data)
