"""The record of a process in the index of a sharded store: its last round, and the version of each shard.

The record is the metadata of a commit in an embedded store, so writing it decides the round.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from fedplug.stores.sharded.placement import Placement

__all__ = ["Record"]


@dataclass(frozen=True)
class Record:
    """The record of one process.

    Attributes:
        round: The last round. None before the first.
        metadata: The JSON value committed with the round.
        versions: The decided version of each shard, by shard.
        places: The machine and folder where each shard was last seen, for error messages.
        partitions: Number of partitions of the clients.
        replicas: Number of additional shards that keep each client's state.
        untidy: Whether shards may hold states of clients that were moved away.
    """

    round: int | None = None
    metadata: Any = None
    versions: Mapping[str, int] = field(default_factory=dict)
    places: Mapping[str, str] = field(default_factory=dict)
    partitions: int = 1
    replicas: int = 0
    untidy: bool = False

    @classmethod
    def from_json(cls, value: Any) -> Record:
        """Decodes the value of `to_json`. Returns a new record for None."""
        return cls() if value is None else cls(**value)

    def to_json(self) -> dict[str, Any]:
        """Returns the record as a JSON value."""
        return {
            "round": self.round,
            "metadata": self.metadata,
            "versions": dict(self.versions),
            "places": dict(self.places),
            "partitions": self.partitions,
            "replicas": self.replicas,
            "untidy": self.untidy,
        }

    @property
    def placement(self) -> Placement:
        """The placement of the clients."""
        return Placement(frozenset(self.versions), self.partitions, self.replicas)
