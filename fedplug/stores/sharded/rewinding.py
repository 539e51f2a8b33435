"""Rolls back rounds in a sharded store.

A rewind is one commit of the index, which restores the record of an earlier round. Then the shards return to
the index's versions and the states move to their homes, as after a failed attempt. The next user of the
process can therefore complete an interrupted rewind.
"""

from __future__ import annotations

import contextlib

from fedplug.errors import StoreError
from fedplug.stores import rules
from fedplug.stores.sharded.history import History
from fedplug.stores.sharded.moving import move, not_reached, only_on
from fedplug.stores.sharded.placement import Placement
from fedplug.stores.sharded.process import ShardedProcess
from fedplug.stores.turns import in_turn

__all__ = ["RewindableProcess"]


class RewindableProcess(ShardedProcess):
    """A process that can return to kept rounds. States stay on the current machines."""

    _home: Placement | None = None  # the required placement, if the states may be elsewhere

    def kept_rounds(self) -> list[int]:
        """Returns the rounds that `rewind` accepts if their machines are reachable, oldest first."""
        return list(self.history.rounds)

    @in_turn
    def rewind(self, round_num: int) -> None:
        """Rolls back to a kept round, atomically. See `ProcessState.rewind`.

        Raises:
            StoreError: The round is not kept. Some of its states are only on missing machines, or a shard
                or the index raises an error.
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
            with contextlib.suppress(StoreError):  # the next use or opening tries again
                self.resolve()

    @in_turn
    def resolve(self) -> None:
        """Completes a failed attempt, and moves states back to their placement before a rewind."""
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
        """Checks that a rewind to a history is possible before anything is changed."""
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
