"""A trainer's store as the state manager of TFF's loops, so that a round has one record, not two."""

from __future__ import annotations

from typing import Any, Protocol

import tensorflow_federated as tff

from fedplug.errors import StoreError

__all__ = ["CommittedRounds"]


class _Trainer(Protocol):
    @property
    def last_round(self) -> int | None: ...

    def initialize(self) -> Any: ...


class CommittedRounds(tff.program.ProgramStateManager[Any]):
    """For ``program_state_manager`` of `tff.simulation.run_training_process`, whose process is the trainer.

    `Trainer.next` has committed a round before the loop saves it, so `save` has nothing to do. A training of
    which only the initial state is kept counts as new, so that a loop which evaluates round 0 does so.
    """

    def __init__(self, trainer: _Trainer) -> None:
        self._trainer = trainer

    async def get_versions(self) -> list[int] | None:
        """The last finished round, if there is one: a store keeps no older."""
        return [self._trainer.last_round] if self._trainer.last_round else None

    async def load(self, version: int, structure: Any) -> Any:
        """The server's state after round ``version``.

        Raises:
            ProgramStateNotFoundError: That is not the last finished round.
        """
        del structure  # the process knows it
        if version != self._trainer.last_round:
            raise tff.program.ProgramStateNotFoundError(version)
        return self._trainer.initialize()

    async def save(self, program_state: Any, version: int) -> None:
        """Makes sure that round ``version`` is in the store.

        Raises:
            StoreError: It is not, as when the loop runs another process than this trainer.
        """
        del program_state
        if version != self._trainer.last_round:
            raise StoreError(
                f"round {version} is to be saved, and the last finished round of the trainer is "
                f"{self._trainer.last_round}; give the loop the trainer itself as its process"
            )
