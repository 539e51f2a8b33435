"""A codec with one client's state in a store. Any transport can carry the payloads."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Mapping
from typing import NoReturn

import numpy as np

from fedplug.codecs.encoding import Codec, as_round
from fedplug.codecs.metrics import TensorMetrics
from fedplug.codecs.pending import StoredPending
from fedplug.errors import ArgumentError, StoreError
from fedplug.stores.base import StateStore

__all__ = ["ClientCodec"]

_log = logging.getLogger("fedplug")

_STATE, _ANSWER = "state", "answer"
"""The parts of a client's state in the store: the codec's state, and the payloads that led to it."""


class ClientCodec:
    """Encodes the updates of one client, and updates its residual only after the server accepted a payload.

    A payload may be lost or refused, so there are two steps. `encode_model` stores the next state durably as
    pending before it returns payloads. `settle` makes it the client's state if the server names its receipt,
    and drops it otherwise, so that the residual is unchanged. The update that was not accepted is then lost,
    as it is without compression. The order in each round::

        client.settle(accepted)  # the receipt that the server's message names, or None
        payloads, receipt = client.encode_model(update, round_num)

    If a message is delivered twice, both answers have the same bytes. A message of an older round changes
    nothing, whatever is settled for it. Only `encode_model` writes: one commit has the next state, the
    payloads, and the decision before them. If the process ends between the two steps, the decision is made
    again. An object belongs to one client, and one thread at a time uses it. After another object of this
    client has encoded, it raises an error, and nothing is lost.

    The arrays of the model may change: a new array begins without a residual, and so does an array with
    another shape. If only the dtype of floats changes, the residual is rounded to it. The residual of a
    removed array is dropped, with a warning in the log.
    """

    def __init__(self, codec: Codec, store: StateStore, client_id: str, *, training: str = "") -> None:
        """Opens the state of the client in the store; a new client has none.

        Args:
            codec: The codec of all rounds of this client.
            store: The store, from `fedplug.open_store`. The caller closes it. Any number of clients may share
                it, in any number of threads of one process.
            client_id: The client's name. Any text.
            training: The name of the training. Round numbers rise within a training. Another one may begin
                at 0 again.

        Raises:
            ArgumentError: ``codec`` is not a codec, or ``store`` is not a store.
            StoreMismatchError: The client's state belongs to another codec.
            StoreError: The store is closed or damaged, for example.
        """
        if not isinstance(codec, Codec):
            raise ArgumentError(
                f"codec is {codec!r}; it must be a Codec, such as fedplug.codec('topk(0.01)')"
            )
        if not isinstance(store, StateStore):
            raise ArgumentError(f"store is {store!r}; it must be a store, such as open_store('memory://')")
        self._codec = codec
        self._client = f"client {client_id}"
        self._training = training
        self._kept = StoredPending(store.open_process(self._client, codec.signature))

    def __repr__(self) -> str:
        return f"ClientCodec({str(self._codec.encoder)!r}, {self._client!r})"

    def __reduce__(self) -> NoReturn:
        """Refuses copies: two objects must not encode for one client.

        Raises:
            StoreError: Always.
        """
        raise StoreError(
            "a ClientCodec cannot be pickled or copied, because the state of its client is in an open store; "
            "send the codec, and make a ClientCodec in the other process with a store that is opened there"
        )

    @property
    def pending(self) -> str | None:
        """The receipt of the last payloads. None if it is settled."""
        return self._kept.pending

    def encode_model(
        self,
        arrays: Mapping[str, object],
        round_num: int = 0,
        *,
        metrics: TensorMetrics | None = None,
        base: Mapping[str, object] | None = None,
    ) -> tuple[dict[str, bytes], str]:
        """Compresses the arrays of an update together, as `Codec.encode_model` does.

        A round before the last encoded one is not encoded. If it is the last accepted round, its payloads and
        receipt are returned again.

        Args:
            arrays: The arrays by name.
            round_num: The round number, 0 or more, for schedules and seeds. It must not fall.
            metrics: Adds up measurements of each array, see `TensorMetrics`.
            base: The model that the update is added to, see `Codec.encode_model`.

        Returns:
            The payloads by name, and their receipt: a text to send along.

        Raises:
            ArgumentError: The previous payloads are not settled, the round is older than all stored payloads,
                or another object has encoded since, or as for `Codec.encode_model`.
            ConfigError: The encoder does not fit this model, see `Codec.encode_model`.
            NonFiniteError: An array has a NaN or an infinity, see `Codec.encode_model`.
            StoreError: The next state cannot be stored. Like all errors, it leaves the state unchanged.
        """
        kept = self._kept
        if kept.pending is not None:
            raise ArgumentError(
                f"payload {kept.pending} of this client is not settled; call settle(receipt) with what the "
                "server accepted, or settle(None)"
            )
        if not kept.is_newest:
            raise ArgumentError(
                f"another object has encoded updates of {self._client} since, and nothing has changed; make "
                "a new ClientCodec"
            )
        round_num = as_round(round_num)
        training = kept.metadata
        if training.get("name") != self._training:
            training = {"name": self._training, "begins_after": kept.accepted}
        elif round_num < _round_of(kept.sent):
            kept.reopen()  # an old message does not decide
            return self._answer_again(list(arrays), round_num)
        state, dropped = self._codec.carry_over(kept.read(_STATE), arrays)
        payloads, after = self._codec.encode_model(arrays, state, round_num, metrics=metrics, base=base)
        del state  # a commit may need this memory
        receipt = _receipt(payloads, round_num)
        answer = {name: np.frombuffer(payload, np.uint8) for name, payload in payloads.items()}
        kept.commit({_STATE: after, _ANSWER: answer}, receipt, metadata=training)
        if dropped:
            _log.warning(
                "%s: the model has changed; the residuals of arrays %s are dropped", self._client, dropped
            )
        return payloads, receipt

    def settle(self, accepted: str | None) -> bool:
        """Decides on the last payloads. An acceptance is final.

        Args:
            accepted: The untrusted receipt of this client's payloads that the server accepted last. None if
                it accepted none.

        Returns:
            Whether it was the pending receipt, so that its state is now the client's state.
        """
        return self._kept.settle([accepted])

    def _answer_again(self, names: list[str], round_num: int) -> tuple[dict[str, bytes], str]:
        """Returns the payloads that were accepted last, if they belong to this round."""
        accepted = self._kept.accepted
        is_ours = accepted != self._kept.metadata["begins_after"]
        if accepted is not None and is_ours and _round_of(accepted) == round_num:
            answer = self._kept.read(_ANSWER) or {}
            if answer.keys() == set(names):
                return {name: answer[name].tobytes() for name in names}, accepted
        raise ArgumentError(
            f"round {round_num} is older than payload {self._kept.sent} of this client, and nothing has "
            "changed; leave the message unanswered, or name a new training by ClientCodec(..., training=...)"
        )


def _round_of(receipt: str | None) -> int:
    """Returns the round that a receipt begins with; -1 without a receipt."""
    return -1 if receipt is None else int(receipt.partition("-")[0])


def _receipt(payloads: Mapping[str, bytes], round_num: int) -> str:
    """Returns a text that identifies these bytes in this round."""
    digest = hashlib.sha256()
    for name, payload in payloads.items():
        digest.update(f"{len(name.encode())} {len(payload)} {name}".encode())
        digest.update(payload)
    return f"{round_num}-{digest.hexdigest()[:32]}"
