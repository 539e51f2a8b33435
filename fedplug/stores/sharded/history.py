"""The rounds of a process that the index of a sharded store keeps, for commits, rewinds and cleanup."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from fedplug.stores.sharded.placement import Placement
from fedplug.stores.sharded.record import Record

__all__ = ["History", "Kept"]


class Kept(NamedTuple):
    """A kept round: its record, and the commit of the index that wrote it."""

    commit: int
    record: Record


class History:
    """The last record of every kept round. Moving states writes a new record for the same round.

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
        """Returns the history that remains after a rewind to a round."""
        left = History({})
        left.rounds = {number: kept for number, kept in self.rounds.items() if number <= round_num}
        return left

    def versions(self) -> dict[str, int]:
        """Returns the newest recorded version of each shard, by shard."""
        return {
            shard: version for kept in self.rounds.values() for shard, version in kept.record.versions.items()
        }

    def oldest(self, shard: str) -> int | None:
        """Returns the oldest version of a shard that a rewind may need."""
        named = (kept.record.versions.get(shard) for kept in self.rounds.values())
        return next((version for version in named if version is not None), None)

    def placements(self) -> set[Placement]:
        """Returns the placements of all kept rounds."""
        return {kept.record.placement for kept in self.rounds.values()}

    def first_needed(self, oldest: int | None, current: int | None) -> int | None:
        """Returns the first commit that the index must keep for the rounds from ``oldest`` on.

        Args:
            oldest: The oldest round to keep. All rounds if None.
            current: The round whose record is being written or replaced.

        Returns:
            The commit. None if no commit is needed.
        """
        return min(
            (
                kept.commit
                for number, kept in self.rounds.items()
                if number != current and (oldest is None or number >= oldest)
            ),
            default=None,
        )
