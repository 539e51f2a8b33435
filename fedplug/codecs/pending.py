"""The two phases of a state: the changes of a message are pending until its fate is known.

The sender of a message learns later whether it counts: the server confirms it in its next message, or all
ranks finish a step. Until then there are two states, before and after the message, and then one of them.
TFF's trainer needs no second state, because the commit of a round settles it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

from fedplug.stores.base import ProcessState, Tensors

__all__ = ["Pending", "StoredPending"]

State = TypeVar("State")


@dataclass(frozen=True)
class Pending(Generic[State]):
    """A state, and the state after a message whose fate is not known.

    Each method returns a new object, so that an error half-way through a step loses nothing.

    >>> residual = Pending("before").propose("after")
    >>> residual.settle(accepted=False).state, residual.settle(accepted=True).state
    ('before', 'after')

    Attributes:
        state: The state before the message.
        after: The state after the message. None if no message is pending.
        spare: A state that is no longer needed, and whose memory may be overwritten.
    """

    state: State
    after: State | None = None
    spare: State | None = None

    @property
    def latest(self) -> State:
        """The state after the message, or the only one."""
        return self.state if self.after is None else self.after

    def propose(self, after: State) -> Pending[State]:
        """Adds the state after a message. That of a pending message, which it replaces, becomes spare."""
        return Pending(self.state, after, self.after)

    def settle(self, *, accepted: bool) -> Pending[State]:
        """Keeps the state after the message if it was accepted, else the state before it."""
        if self.after is None:
            return self
        kept, spare = (self.after, self.state) if accepted else (self.state, self.after)
        return Pending(kept, None, spare)


class _Slot(NamedTuple):
    """The place of a state in a store, and the receipt of the message that leads to it."""

    place: str
    receipt: str


class StoredPending:
    """A pending state in a store, for a client that may end at any time.

    `commit` alone writes: a decision together with the state after the next message. That state is written to
    the free one of two slots, which take turns. If the process ends before, the decision is made again.

    Attributes:
        metadata: The JSON object of the last commit.
    """

    def __init__(self, kept: ProcessState) -> None:
        """Reads the slots from a process of the store that nothing else uses."""
        self._kept = kept
        self._round = kept.last_round  # each commit has the next one
        self.metadata = dict(kept.metadata or {})
        slots = [None if slot is None else _Slot(*slot) for slot in self.metadata.pop("slots", (None, None))]
        self._stored: Pending[_Slot | None] = Pending(*slots)
        self._now = self._stored

    @property
    def pending(self) -> str | None:
        """The receipt of the last message. None if it is settled."""
        return None if self._now.after is None else self._now.after.receipt

    @property
    def accepted(self) -> str | None:
        """The receipt of the last accepted message. None if there is none."""
        return None if self._now.state is None else self._now.state.receipt

    @property
    def sent(self) -> str | None:
        """The receipt of the message that the last commit proposed, whether it is settled or not."""
        return None if self._stored.after is None else self._stored.after.receipt

    @property
    def is_newest(self) -> bool:
        """Whether no other object has committed since."""
        return self._kept.last_round == self._round

    def settle(self, accepted: Collection[str | None]) -> bool:
        """Decides on the last message. An acceptance is final, and a refusal until the next commit is not.

        Args:
            accepted: The untrusted receipts of messages that the receiver accepted.

        Returns:
            Whether the last message is among them, and was not accepted before.
        """
        if self.sent is None or self._now.state == self._stored.after:
            return False
        is_accepted = self.sent in accepted
        self._now = self._stored.settle(accepted=is_accepted)
        return is_accepted

    def reopen(self) -> None:
        """Makes the last message pending again, unless it was accepted."""
        if self._now.state != self._stored.after:
            self._now = self._stored

    def forget(self) -> None:
        """Continues without a state, as a new client."""
        self._now = Pending(None)

    def read(self, name: str) -> dict[str, Any] | None:
        """Returns a part of the state that the decisions lead to. None before a message was accepted.

        Its arrays are read-only, and those of a store in memory are not copied.
        """
        if self._now.state is None:
            return None
        key = f"{self._now.state.place} {name}"
        return self._kept.view_clients([key]).get(key)

    def commit(
        self,
        after: Mapping[str, Tensors] | None = None,
        receipt: str = "",
        *,
        server_state: Tensors | None = None,
        metadata: Mapping[str, object] | None = None,
    ) -> None:
        """Stores the decision durably, and the state after the next message.

        Args:
            after: The parts of that state by name. None without a message.
            receipt: The name of the message.
            server_state: Arrays that all decisions share.
            metadata: The next `metadata`. None leaves it unchanged.

        Raises:
            StoreError: The state cannot be stored. Nothing has changed.
        """
        slots, states = self._now.settle(accepted=False), dict[str, Tensors]()
        if after is not None:
            place = "second" if slots.state is not None and slots.state.place == "first" else "first"
            slots = slots.propose(_Slot(place, receipt))
            states = {f"{place} {name}": part for name, part in after.items()}
        number = 0 if self._round is None else self._round + 1
        metadata = self.metadata if metadata is None else dict(metadata)
        self._kept.commit(
            number,
            client_states=states,
            server_state=server_state or {},
            metadata={**metadata, "slots": [slots.state, slots.after]},
        )
        self._stored = self._now = slots
        self._round, self.metadata = number, metadata
