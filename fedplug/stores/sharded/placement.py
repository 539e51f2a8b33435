"""Assigns clients to shards, as pure functions of names.

The hash of a client's id gives one of a fixed number of partitions. A partition belongs to the shards that
rank highest for it: rendezvous hashing (Thaler and Ravishankar, "Using name-based mappings to increase hit
rates", 1998). A new shard therefore takes over its share and nothing else moves; a lost shard affects only
its own clients. The order in which clients run depends on partitions, so results do not depend on machines.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from hashlib import blake2b

__all__ = ["Placement", "partition_of"]


def partition_of(client_id: str, partitions: int) -> int:
    """Returns the partition of a client."""
    return _hash(client_id) % partitions


@dataclass(frozen=True)
class Placement:
    """The places of clients, given the existing shards.

    Attributes:
        shards: The names of the shards; at least one.
        partitions: Number of partitions.
        replicas: Number of additional shards that keep each client, limited by the number of shards.
    """

    shards: frozenset[str]
    partitions: int
    replicas: int = 0

    def partition(self, client_id: str) -> int:
        """Returns the partition of a client."""
        return partition_of(client_id, self.partitions)

    def homes(self, client_id: str) -> tuple[str, ...]:
        """Returns the shards that keep a client's state. It runs on the machine of the first."""
        return self.homes_of(self.partition(client_id))

    def homes_of(self, partition: int) -> tuple[str, ...]:
        """Returns the shards that keep the clients of a partition, best first."""
        return _highest(partition, self.shards, 1 + self.replicas)

    def partitions_of(self, shard: str) -> list[int]:
        """Returns the partitions that a shard keeps."""
        return [number for number in range(self.partitions) if shard in self.homes_of(number)]


@functools.lru_cache(maxsize=1 << 16)
def _highest(partition: int, shards: frozenset[str], count: int) -> tuple[str, ...]:
    ranked = sorted(shards, key=lambda shard: (-_hash(f"{partition}/{shard}"), shard))
    return tuple(ranked[:count])


def _hash(text: str) -> int:
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big")
