"""Going back a number of rounds in a sharded store.

To go back is one commit of the index: it says from then on what it said when the round was the last. What
follows is what follows an attempt that died: shards go to the versions that the index has, and states move to
where they belong. So it can be done again, by whoever uses or opens the process next.
"""

from __future__ import annotations

import contextlib

from fedplug.errors import StoreError
from fedplug.stores import rules
from fedplug.stores.sharded.history import History
from fedplug.stores.sharded.moving import move, not_reached, only_on
from fedplug.stores.sharded.placement import Placement
from fedplug.stores.sharded.process import ShardedProcess

__all__ = ["RewindableProcess"]


class RewindableProcess(ShardedProcess):
    """A process that goes back to rounds that are kept; states stay with the machines of today."""

    _home: Placement | None = None  # where states are to be, if that may be elsewhere

    def kept_rounds(self) -> list[int]:
        """The rounds that `rewind` can go to if their machines are there, oldest first, with the last."""
        return list(self.history.rounds)

    def rewind(self, round_num: int) -> None:
        """As in `ProcessState`. All of it happens or, when this raises or anything stops, nothing of it.

        Raises:
            StoreError: The round is not kept; states of it are only on machines that are not there; a shard
                or the index refuses.
        """
        self.resolve()
        history = self.history
        if round_num not in history.rounds:
            raise rules.not_kept(self.process_id, round_num, self.kept_rounds())
        self._require(history.until(round_num), round_num)
        self._home = self.record.placement
        self._in_doubt = True
        try:
            self.index.rewind(history.rounds[round_num].commit)
        finally:
            with contextlib.suppress(StoreError):  # else the next use, or the next opening, does it
                self.resolve()

    def resolve(self) -> None:
        """As in `ShardedProcess`; and moves states back to where they were before going back."""
        super().resolve()
        if self._home is not None:
            home, self._home = self._home, None
            try:
                if self.record.placement != home:
                    move(self, home.shards, home.replicas)
            except BaseException:
                self._home = home
                raise

    def _require(self, history: History, round_num: int) -> None:
        """Makes sure that a history can be gone back to, before anything is changed."""
        commit, record = history.rounds[round_num]
        there = set(self.fleet.places)
        missing = set(record.versions) - there
        if missing and (clients := only_on(missing, record, self.index.client_ids_at(commit))):
            raise StoreError(
                f"process {self.process_id!r} cannot go back to round {round_num}: "
                f"{not_reached(record, clients, missing)}; bring these folders back, and open the store again"
            )
        versions = history.versions()
        self.fleet.call(
            "check_kept", {shard: (self.process_id, versions[shard]) for shard in set(versions) & there}
        )
