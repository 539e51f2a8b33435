"""Which shard keeps which client: pure functions of names.

A client belongs to one of a fixed number of partitions, by a hash of its id, and a partition to the shards
that rank highest for it: rendezvous hashing (Thaler and Ravishankar, "Using name-based mappings to increase
hit rates", 1998). So a shard that comes takes over its share and nothing else moves, and one that goes leaves
only what it had. The order in which clients run depends on partitions, not on shards: results do not depend
on which machines there are.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import blake2b

__all__ = ["Placement", "partition_of"]


def partition_of(client_id: str, partitions: int) -> int:
    """The partition of a client."""
    return _hash(client_id) % partitions


@dataclass(frozen=True)
class Placement:
    """Where clients are, given the shards that there are.

    Attributes:
        shards: Their names; at least one.
        partitions: How many partitions there are.
        replicas: On how many further shards a client is, as far as there are so many.
    """

    shards: frozenset[str]
    partitions: int
    replicas: int = 0

    def partition(self, client_id: str) -> int:
        """The partition of a client."""
        return partition_of(client_id, self.partitions)

    def homes(self, client_id: str) -> tuple[str, ...]:
        """The shards that keep a client's state; it runs on the machine of the first."""
        return self.homes_of(self.partition(client_id))

    def homes_of(self, partition: int) -> tuple[str, ...]:
        """The shards that keep the clients of a partition, the first before all others."""
        return _highest(partition, self.shards, 1 + self.replicas)

    def partitions_of(self, shard: str) -> list[int]:
        """The partitions that a shard keeps."""
        return [number for number in range(self.partitions) if shard in self.homes_of(number)]

    def arranged(self, client_ids: Iterable[str]) -> list[str]:
        """The clients in the order in which a round runs them: those of a partition are neighbours."""
        return sorted(client_ids, key=lambda client_id: (self.partition(client_id), client_id))


@functools.lru_cache(maxsize=1 << 16)
def _highest(partition: int, shards: frozenset[str], count: int) -> tuple[str, ...]:
    ranked = sorted(shards, key=lambda shard: (-_hash(f"{partition}/{shard}"), shard))
    return tuple(ranked[:count])


def _hash(text: str) -> int:
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big")
