"""The reference model: the server's model as clients have it, and how it follows the server's.

Functions of tensors. Must not know TFF, nor which client heard what.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from fedplug import ops
from fedplug.encoders import framing
from fedplug.encoders.base import Encoder
from fedplug.encoders.changes import change_coder
from fedplug.encoders.model import ModelEncoder
from fedplug.encoders.probe import normal_numbers
from fedplug.errors import CapabilityError, ConfigError

__all__ = ["DEFAULT_SNAPSHOT", "Advance", "ReferenceModel"]

DEFAULT_SNAPSHOT = "bfp(8) | rans"

_CLOSE = 0.1
"""The squared error of normal numbers, relative to theirs, up to which a model may be sent as it is."""

_BITS = {2: tf.int16, 4: tf.int32, 8: tf.int64}


class Advance(NamedTuple):
    """A step of the reference model; a buffer is a container, and there is one for each tensor.

    Attributes:
        reference: The next reference model.
        messages: From the last reference model to this one; empty where a tensor has only snapshots.
        snapshots: This reference model, for who has no other.
        inputs: What the encoder was given.
        received: What is decoded of it.
        next_states: The encoder's, which are used for measurements alone.
        buffers: What the encoder wrote.
    """

    reference: tuple[tf.Tensor, ...]
    messages: tuple[tf.Tensor, ...]
    snapshots: tuple[tf.Tensor, ...]
    inputs: tuple[tf.Tensor, ...]
    received: tuple[tf.Tensor, ...]
    next_states: Any
    buffers: tuple[tf.Tensor, ...]


class ReferenceModel:
    """Each tensor follows the server's in one of two ways.

    **By snapshots**, where the encoder sends every entry and comes close enough for a model: the reference is
    ``decode(encode(x))`` of the server's tensor x, whatever it was before.

    **By differences** else: from the reference w it goes to ``Q(w + decode(encode(x - w)))``, where Q(u) is
    what the snapshot's encoder makes of u. So it is always something that can be sent as a snapshot, and
    what encoder and snapshot leave out is in the next difference.

    Attributes:
        encoder: Of the model, or of its differences.
        by_differences: The places of the tensors that go by differences.
        snapshot: Of those tensors; None where there are none.
        change_coders: Of each tensor, or None.
    """

    def __init__(self, encoder: ModelEncoder, snapshot: Any = None, *, lowering: str) -> None:
        """Decides for every tensor which way it goes.

        Args:
            encoder: For the model.
            snapshot: An encoder, an expression or rules, for tensors that go by differences, which then are
                all that are compressed; default: `DEFAULT_SNAPSHOT`, for those that have to.
            lowering: ``"fused"`` or ``"reference"``, to try the encoders with.

        Raises:
            CapabilityError: The encoder leaves out more than it is given of a tensor that goes by
                differences; or the snapshot's does not send every entry, or too coarsely.
            ConfigError: The snapshot's encoder is none, or has rate control.
        """
        self.encoder = encoder
        errors = _errors(encoder, lowering)
        self.by_differences = tuple(
            place
            for place, (each, error) in enumerate(zip(encoder.encoders, errors, strict=True))
            if not _sends_models(each, error if snapshot is None else max(error, _CLOSE))
        )
        for place in self.by_differences:
            _check_contraction(encoder, place, errors[place])
        self.snapshot: ModelEncoder | None = None
        if self.by_differences:
            specs = [encoder.specs[place] for place in self.by_differences]
            self.snapshot = ModelEncoder(
                DEFAULT_SNAPSHOT if snapshot is None else snapshot, specs, min_size=encoder.min_size
            )
            _check_snapshot(self.snapshot, lowering)
        written_by = list(encoder.encoders)
        for number, place in enumerate(self.by_differences):
            assert self.snapshot is not None
            written_by[place] = self.snapshot.encoders[number]
        self._written_by: tuple[Encoder, ...] = tuple(written_by)
        self.change_coders = tuple(map(change_coder, written_by, encoder.specs))

    def get_config(self) -> dict[str, Any]:
        """What decides the bytes."""
        snapshot = None if self.snapshot is None else self.snapshot.get_config()
        return {**self.encoder.get_config(), "snapshot": snapshot}

    def advance(
        self,
        tensors: Sequence[tf.Tensor],
        reference: Sequence[tf.Tensor],
        round_num: tf.Tensor,
        control: Any = None,
    ) -> Advance:
        """Goes from one reference model to the next; the first one, of round 0, is a snapshot of all tensors.

        Args:
            tensors: The server's model.
            reference: The last reference model; in round 0 it is not looked at.
            round_num: int32 scalar.
            control: As for `ModelEncoder.encode`.
        """
        first = tf.equal(round_num, 0)
        places = self.by_differences
        inputs = tuple(
            x - w if place in places else x
            for place, (x, w) in enumerate(zip(tensors, reference, strict=True))
        )
        buffers, next_states = self.encoder.encode(inputs, self.encoder.init_state(), round_num, control)
        received = self.encoder.decode(buffers)
        snapshots, reached = list(buffers), list(received)
        if self.snapshot is not None:
            targets = [tf.where(first, tensors[p], reference[p] + received[p]) for p in places]
            written, _ = self.snapshot.encode(targets, self.snapshot.init_state(), round_num)
            for place, buffer, tensor in zip(places, written, self.snapshot.decode(written), strict=True):
                snapshots[place], reached[place] = buffer, tensor
        nothing = tf.zeros([0], tf.uint8)
        messages = tuple(
            buffer[: tf.where(first, 0, tf.size(buffer))] if place in places else nothing
            for place, buffer in enumerate(buffers)
        )
        return Advance(
            tuple(reached), messages, tuple(snapshots), inputs, received, next_states, tuple(buffers)
        )

    def follow(
        self,
        reference: Sequence[tf.Tensor],
        messages: Sequence[tf.Tensor],
        snapshots: Sequence[tf.Tensor],
        round_num: tf.Tensor,
    ) -> tuple[tf.Tensor, ...]:
        """What a client does with the messages of one round: the next reference model, bit for bit.

        Args:
            reference: The last one, as the client has it.
            messages: As of `advance`, in a round after the first; untrusted.
            snapshots: The same; looked at where there is no message.
            round_num: int32 scalar.
        """
        places, specs = self.by_differences, self.encoder.specs
        reached = [
            reference[place] + _read(self.encoder.encoders[place], specs[place], messages[place])
            if place in places
            else _read(self.encoder.encoders[place], specs[place], snapshots[place])
            for place in range(len(specs))
        ]
        if self.snapshot is not None:
            targets = [reached[place] for place in places]
            written, _ = self.snapshot.encode(targets, self.snapshot.init_state(), round_num)
            for place, tensor in zip(places, self.snapshot.decode(written), strict=True):
                reached[place] = tensor
        return tuple(reached)

    def read(self, snapshots: Sequence[tf.Tensor]) -> tuple[tf.Tensor, ...]:
        """The reference model of its snapshots, which are untrusted."""
        return tuple(map(_read, self._written_by, self.encoder.specs, snapshots))

    def init_changed(self) -> tuple[tf.Tensor, ...]:
        """For each tensor with a change coder, in which round each entry became what it is: in none, -1."""
        return tuple(
            tf.fill(spec.shape, -1)
            for spec, coder in zip(self.encoder.specs, self.change_coders, strict=True)
            if coder is not None
        )

    def next_changed(
        self,
        changed: Sequence[tf.Tensor],
        old: Sequence[tf.Tensor],
        new: Sequence[tf.Tensor],
        round_num: tf.Tensor,
    ) -> tuple[tf.Tensor, ...]:
        """The same after a step from ``old`` to ``new``, by the bits of the entries."""
        pairs = [
            (_bits(w), _bits(u)) for w, u, coder in zip(old, new, self.change_coders, strict=True) if coder
        ]
        return tuple(
            tf.where(before == after, rounds, round_num)
            for rounds, (before, after) in zip(changed, pairs, strict=True)
        )

    def changes(
        self, snapshots: Sequence[tf.Tensor], changed: Sequence[tf.Tensor], heard: tf.Tensor
    ) -> tuple[tf.Tensor, ...]:
        """For each tensor what a client needs that has the reference model of round ``heard``.

        Args:
            snapshots: Of this reference model.
            changed: As of `next_changed`.
            heard: int32 scalar.

        Returns:
            The entries that changed since, or the snapshot where that is not longer, or there is no coder.
        """
        rounds = iter(changed)
        return tuple(
            buffer if coder is None else _shorter(buffer, coder.encode(buffer, next(rounds) > heard))
            for buffer, coder in zip(snapshots, self.change_coders, strict=True)
        )


def _shorter(one: tf.Tensor, other: tf.Tensor) -> tf.Tensor:
    return tf.cond(tf.size(other) < tf.size(one), lambda: other, lambda: one)


def _bits(x: tf.Tensor) -> tf.Tensor:
    return tf.bitcast(x, _BITS[x.dtype.size])


def _read(encoder: Encoder, spec: Any, buffer: tf.Tensor) -> tf.Tensor:
    return encoder.decode(encoder.from_wire(framing.unframe(buffer, encoder.wire_id, spec), spec), spec)


def _sends_models(encoder: Encoder, error: float) -> bool:
    capabilities = encoder.capabilities
    return capabilities.lossless or (capabilities.sends_every_entry and error < _CLOSE)


def _errors(encoder: ModelEncoder, lowering: str) -> list[float]:
    """Of normal numbers: ``||x - decode(encode(x))||^2 / ||x||^2`` for every tensor."""
    xs = normal_numbers(encoder.specs)
    with ops.use_lowering(lowering):
        buffers, _ = encoder.encode(xs, encoder.init_state(), tf.constant(0))
        decoded = encoder.decode(buffers)
    return [
        float(tf.math.divide_no_nan(_squares(x - y), _squares(x))) if x.dtype.is_floating else 0.0
        for x, y in zip(xs, decoded, strict=True)
    ]


def _squares(x: tf.Tensor) -> tf.Tensor:
    return tf.reduce_sum(tf.square(tf.cast(x, tf.float64)))


def _check_contraction(encoder: ModelEncoder, place: int, error: float) -> None:
    """A necessary condition: ``||x - decode(encode(x))|| < ||x||``.

    What a difference leaves out comes back in the next one, so it dies out only if encoding is such a
    contraction, as EF21-P asks for. Unbiased encoders that scale up what they send, such as ``randomk``
    without error feedback or ``terngrad``, are none.
    """
    if not error < 1:
        raise CapabilityError(
            f"{encoder.encoder!r} cannot encode a broadcast: for tensor {place} it leaves out "
            f"{error**0.5:.2f} times what it was given, so what is left out would grow from round to round; "
            "take an encoder that comes closer, for instance topk(0.1) or bfp(5)"
        )


def _check_snapshot(snapshot: ModelEncoder, lowering: str) -> None:
    if snapshot.rate_control is not None:
        raise ConfigError(
            f"{snapshot.encoder!r} cannot encode snapshots: clients would have to know its rate; take one "
            "without a budget, for instance bfp(8)"
        )
    for place, (encoder, error) in enumerate(
        zip(snapshot.encoders, _errors(snapshot, lowering), strict=True)
    ):
        if not _sends_models(encoder, error):
            raise CapabilityError(
                f"{encoder!r} cannot encode snapshots: of tensor {place} it does not send every entry with "
                f"an error below {_CLOSE:.0%}; take one that comes closer, for instance bfp(8)"
            )
