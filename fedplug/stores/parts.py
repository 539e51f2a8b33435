"""States as rows of a database: parts of at most 4 MiB, each with a checksum that covers its owner, too.

No statement is then as large as a state, and no database's limit on the size of a value applies.
"""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import fedplug.kernels as kernels
from fedplug.errors import CorruptStoreError
from fedplug.stores import blob
from fedplug.stores.base import Tensors

__all__ = ["SERVER", "Part", "client_owner", "encoded", "joined", "sealed"]

SERVER = "server"
"""The owner of the server state. Owners of client states start with ``client:``, so none can collide."""

SIZE = 4 << 20


class Part(NamedTuple):
    """A row with a part of a state.

    Attributes:
        process: The id of the process.
        owner: `SERVER` or a `client_owner`.
        round: The round that committed the state.
        part: The number of this part, from 0.
        parts: The number of parts of the state.
        checksum: CRC-32 of all other fields, with that of the bytes in place of them.
        data: The bytes.
    """

    process: str
    owner: str
    round: int
    part: int
    parts: int
    checksum: int
    data: bytes | memoryview


def client_owner(client_id: str) -> str:
    """Returns the owner name of a client's state."""
    return "client:" + client_id


def encoded(
    process: str, round_num: int, client_states: Mapping[str, Tensors], server_state: Tensors
) -> Iterator[Part]:
    """Yields the rows of a round. Reads one state at a time; an empty state has a row, too.

    Raises:
        StoreError: A state is invalid. See `blob.checked`.
    """
    for client, state in itertools.chain(client_states.items(), [(None, server_state)]):
        owner = SERVER if client is None else client_owner(client)
        document = memoryview(blob.encode(state, owner))
        parts = max(1, -(-len(document) // SIZE))
        for part in range(parts):
            yield _part(process, owner, round_num, part, parts, document[part * SIZE : (part + 1) * SIZE])


def joined(process: str, owner: str, found: Sequence[Part], where: str, remedy: str) -> bytes:
    """Returns the document of a state from all its rows in order.

    Raises:
        CorruptStoreError: A row is missing or damaged. The message ends with ``remedy``.
    """
    for number, part in enumerate(found):
        if part != _part(process, owner, part.round, number, len(found), part.data):
            whose = "server state" if owner == SERVER else f"client {owner.removeprefix('client:')!r}"
            raise CorruptStoreError(
                f"process {process!r}, {whose}, round {part.round}: {where} is corrupt: part {number} of the "
                f"state's {part.parts} is missing or fails its checksum; {remedy}"
            )
    return bytes(found[0].data) if len(found) == 1 else b"".join(part.data for part in found)


def sealed(values: Iterable[Any]) -> tuple[Any, ...]:
    """Returns the values of a row with their checksum appended."""
    row = tuple(values)
    return (*row, zlib.crc32(ascii(row).encode()))


def _part(process: str, owner: str, round_num: int, part: int, parts: int, data: bytes | memoryview) -> Part:
    place = (process, owner, round_num, part, parts)
    *_, checksum = sealed((*place, len(data), kernels.crc32(data)))
    return Part(*place, checksum, data)
