"""A trainer's store as the state manager of TFF's loops, so that a round has only one record."""

from __future__ import annotations

from typing import Protocol

import tensorflow_federated as tff

from fedplug.errors import StoreError
from fedplug.tff.structures import Structure

__all__ = ["CommittedRounds"]


class _Trainer(Protocol):
    @property
    def last_round(self) -> int | None: ...

    def initialize(self) -> Structure: ...


class CommittedRounds(tff.program.ProgramStateManager[object]):
    """The ``program_state_manager`` of `tff.simulation.run_training_process` if its process is the trainer.

    `Trainer.next` commits a round before the loop saves it, so `save` only checks. A training with only its
    initial state counts as new, so that the loop evaluates round 0.
    """

    def __init__(self, trainer: _Trainer) -> None:
        self._trainer = trainer

    async def get_versions(self) -> list[int] | None:
        """Returns the last finished round, if there is one; a store keeps no older one."""
        return [self._trainer.last_round] if self._trainer.last_round else None

    async def load(self, version: int, structure: Structure) -> Structure:
        """Returns the server's state after round ``version``.

        Raises:
            ProgramStateNotFoundError: It is not the last finished round.
        """
        del structure  # the process knows it
        if version != self._trainer.last_round:
            raise tff.program.ProgramStateNotFoundError(version)
        return self._trainer.initialize()

    async def save(self, program_state: Structure, version: int) -> None:
        """Checks that round ``version`` is in the store.

        Raises:
            StoreError: It is not, for instance because the loop runs another process than this trainer.
        """
        del program_state
        if version != self._trainer.last_round:
            raise StoreError(
                f"round {version} is to be saved, and the last finished round of the trainer is "
                f"{self._trainer.last_round}; give the loop the trainer itself as its process"
            )
