"""What the index of a sharded store keeps of a process: the records of rounds that may be gone back to.

Pure: made of what the index says, asked by who prepares, goes back, and tidies up.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from fedplug.stores.sharded.placement import Placement
from fedplug.stores.sharded.record import Record

__all__ = ["History", "Kept"]


class Kept(NamedTuple):
    """A round that is kept: the commit of the index that made it what it is, and what it says."""

    commit: int
    record: Record


class History:
    """The last record of every round that is kept: moves make new ones of a round.

    Args:
        commits: The metadata of the index's commits, oldest first.
    """

    def __init__(self, commits: Mapping[int, Any]) -> None:
        records = {commit: Record.from_json(value) for commit, value in commits.items()}
        self.rounds = {
            record.round: Kept(commit, record)
            for commit, record in records.items()
            if record.round is not None
        }

    def until(self, round_num: int) -> History:
        """What is left when it was gone back to a round."""
        left = History({})
        left.rounds = {number: kept for number, kept in self.rounds.items() if number <= round_num}
        return left

    def versions(self) -> dict[str, int]:
        """By shard, the version that the last round has of it; where it has none, an earlier round."""
        return {
            shard: version for kept in self.rounds.values() for shard, version in kept.record.versions.items()
        }

    def oldest(self, shard: str) -> int | None:
        """The oldest version that may be gone back to on a shard."""
        named = (kept.record.versions.get(shard) for kept in self.rounds.values())
        return next((version for version in named if version is not None), None)

    def placements(self) -> set[Placement]:
        """Where clients are, in any of the rounds."""
        return {kept.record.placement for kept in self.rounds.values()}

    def first_needed(self, oldest: int | None, current: int | None) -> int | None:
        """The first commit that the index has to keep for the rounds from ``oldest`` on.

        Args:
            oldest: None: all.
            current: The round whose record is being replaced, or made.

        Returns:
            None if none is.
        """
        return min(
            (
                kept.commit
                for number, kept in self.rounds.items()
                if number != current and (oldest is None or number >= oldest)
            ),
            default=None,
        )
