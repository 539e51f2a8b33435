"""What the index of a sharded store says of a process: its last round, and which version each shard has.

It is the metadata of a commit in an embedded store, so that to write it is to decide the round.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from fedplug.stores.sharded.placement import Placement

__all__ = ["Record"]


@dataclass(frozen=True)
class Record:
    """Of one process.

    Attributes:
        round: The last round; None before the first.
        metadata: The JSON value committed with it.
        versions: By shard, the version that counts.
        places: By shard, the machine and folder it was last seen on, for errors.
        partitions: Into how many the clients are divided.
        replicas: On how many further shards a client's state is.
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
        """The inverse of `to_json`; a new one where there is none."""
        return cls() if value is None else cls(**value)

    def to_json(self) -> dict[str, Any]:
        """As a JSON value."""
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
        """Where the clients are."""
        return Placement(frozenset(self.versions), self.partitions, self.replicas)
