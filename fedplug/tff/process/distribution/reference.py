"""The reference model: the server's model as clients have it, and how it follows the server's.

Functions of tensors. Must not know TFF, nor which client heard what.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from fedplug.encoders import framing
from fedplug.encoders.base import Encoder
from fedplug.encoders.model.model_encoder import ModelEncoder
from fedplug.encoders.pipeline.changes import change_coder
from fedplug.tff.process.distribution.closeness import (
    check_contraction,
    check_snapshot,
    common_memory_rate,
    relative_errors,
    sends_models,
)

__all__ = ["DEFAULT_SNAPSHOT", "Advance", "Held", "ReferenceModel"]

DEFAULT_SNAPSHOT = "bfp(8) | rans"

_BITS = {2: tf.int16, 4: tf.int32, 8: tf.int64}


class Held(NamedTuple):
    """What a client has of the model, and the server of what clients have.

    Attributes:
        reference: The reference model, on which clients train.
        memory: Of the tensors that go by differences from a memory; else none.
    """

    reference: tuple[tf.Tensor, ...]
    memory: tuple[tf.Tensor, ...] = ()


class Advance(NamedTuple):
    """A step of the reference model; a buffer is a container, and there is one for each tensor.

    Attributes:
        held: The next reference model and memory.
        messages: From the last reference model to this one; empty where a tensor has only snapshots.
        snapshots: This reference model, or the memory where there is one, for who has no other.
        inputs: What the encoder was given.
        received: What is decoded of it.
        next_states: The encoder's, which are used for measurements alone.
        buffers: What the encoder wrote.
    """

    held: Held
    messages: tuple[tf.Tensor, ...]
    snapshots: tuple[tf.Tensor, ...]
    inputs: tuple[tf.Tensor, ...]
    received: tuple[tf.Tensor, ...]
    next_states: Any
    buffers: tuple[tf.Tensor, ...]


class ReferenceModel:
    """Each tensor follows the server's in one of three ways.

    **By snapshots**, where the encoder sends every entry and comes close enough for a model: the reference is
    ``decode(encode(x))`` of the server's tensor x, whatever it was before.

    **By differences** else: from the reference w it goes to ``Q(w + decode(encode(x - w)))``, where Q(u) is
    what the snapshot's encoder makes of u. So it is always something that can be sent as a snapshot, and
    what encoder and snapshot leave out is in the next difference.

    **By differences from a memory**, where the encoder declares a ``memory_rate`` a below 1, as ``artemis``
    does: from the reference w and the memory h, h goes to ``Q(h + a (w - h))``, and w to
    ``h + decode(encode(x - h))``. Snapshots are of h, and beside them clients need the last message.

    Attributes:
        encoder: Of the model, or of its differences.
        by_differences: The places of the tensors that go by differences.
        memory_rate: With which memories move, of all these tensors; None: there are no memories.
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
                differences, or so much that its memory moves away; or the snapshot's does not send every
                entry, or too coarsely.
            ConfigError: The snapshot's encoder is none, or has rate control.
        """
        self.encoder = encoder
        errors = relative_errors(encoder, lowering)
        self.by_differences = tuple(
            place
            for place, (each, error) in enumerate(zip(encoder.encoders, errors, strict=True))
            if error
            and (
                snapshot is not None
                or each.capabilities.memory_rate is not None
                or not sends_models(each, error)
            )
        )
        self.memory_rate = common_memory_rate(encoder, self.by_differences)
        for place in self.by_differences:
            check_contraction(encoder, place, errors[place], self.memory_rate)
        self.snapshot: ModelEncoder | None = None
        if self.by_differences:
            specs = [encoder.specs[place] for place in self.by_differences]
            self.snapshot = ModelEncoder(
                DEFAULT_SNAPSHOT if snapshot is None else snapshot, specs, min_size=encoder.min_size
            )
            check_snapshot(self.snapshot, lowering)
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

    def init(self) -> Held:
        """What there is before the first round: zeros, which that does not look at."""
        zeros = tuple(tf.zeros(spec.shape, spec.dtype) for spec in self.encoder.specs)
        return Held(zeros, self._own(zeros) if self.memory_rate else ())

    def advance(
        self, tensors: Sequence[tf.Tensor], held: Held, round_num: tf.Tensor, control: Any = None
    ) -> Advance:
        """Goes from one reference model to the next; the first snapshots are of the server's model.

        Args:
            tensors: The server's model.
            held: As of the last step, or of `init`.
            round_num: int32 scalar.
            control: As for `ModelEncoder.encode`.
        """
        first = tf.equal(round_num, 0)
        base: Sequence[tf.Tensor] = self._own(held.reference)
        written: Sequence[tf.Tensor] = ()
        if self.memory_rate:
            written, base = self._rounded(_where(first, self._own(tensors), self._moved(held)), round_num)
        inputs = self._with(tensors, [x - b for x, b in zip(self._own(tensors), base, strict=True)])
        buffers, next_states = self.encoder.encode(inputs, self.encoder.init_state(), round_num, control)
        received = self.encoder.decode(buffers)
        reached = tuple(b + r for b, r in zip(base, self._own(received), strict=True))
        messages = self._own(buffers)
        if not self.memory_rate:
            messages = tuple(buffer[: tf.where(first, 0, tf.size(buffer))] for buffer in messages)
            written, reached = self._rounded(_where(first, self._own(tensors), reached), round_num)
        nothing = [tf.zeros([0], tf.uint8)] * len(buffers)
        return Advance(
            held=Held(self._with(received, reached), tuple(base) if self.memory_rate else ()),
            messages=self._with(nothing, messages),
            snapshots=self._with(buffers, written),
            inputs=inputs,
            received=received,
            next_states=next_states,
            buffers=tuple(buffers),
        )

    def follow(
        self,
        held: Held,
        messages: Sequence[tf.Tensor],
        snapshots: Sequence[tf.Tensor],
        round_num: tf.Tensor,
    ) -> Held:
        """What a client does with the messages of one round: the next reference model, bit for bit.

        Args:
            held: Of the last round.
            messages: As of `advance`, in a round after the first; untrusted.
            snapshots: The same; looked at where there is no message.
            round_num: int32 scalar.
        """
        if self.memory_rate:
            _, memory = self._rounded(self._moved(held), round_num)
            return Held(self._behind(memory, messages, snapshots), memory)
        reached = self._behind(self._own(held.reference), messages, snapshots)
        return Held(self._with(reached, self._rounded(self._own(reached), round_num)[1]))

    def read(self, snapshots: Sequence[tf.Tensor], messages: Sequence[tf.Tensor]) -> Held:
        """What a client has by snapshots and, with memories, by the messages of the round; all untrusted."""
        kept = tuple(map(_read, self._written_by, self.encoder.specs, snapshots))
        if not self.memory_rate:
            return Held(kept)
        memory = self._own(kept)
        return Held(self._behind(memory, messages, snapshots), memory)

    def init_changed(self) -> tuple[tf.Tensor, ...]:
        """For each tensor with a change coder, in which round each entry became what it is: in none, -1."""
        return tuple(
            tf.fill(spec.shape, -1)
            for spec, coder in zip(self.encoder.specs, self.change_coders, strict=True)
            if coder is not None
        )

    def next_changed(
        self, changed: Sequence[tf.Tensor], old: Held, new: Held, round_num: tf.Tensor
    ) -> tuple[tf.Tensor, ...]:
        """The same after a step from ``old`` to ``new``, by the bits of the entries of what snapshots say."""
        before, after = map(self._in_snapshots, (old, new))
        pairs = [
            (_bits(w), _bits(u))
            for w, u, coder in zip(before, after, self.change_coders, strict=True)
            if coder
        ]
        return tuple(
            tf.where(w == u, rounds, round_num) for rounds, (w, u) in zip(changed, pairs, strict=True)
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

    def _behind(
        self, base: Sequence[tf.Tensor], messages: Sequence[tf.Tensor], snapshots: Sequence[tf.Tensor]
    ) -> tuple[tf.Tensor, ...]:
        """Where messages lead from ``base``; tensors that have only snapshots are in these."""
        buffers = self._with(snapshots, self._own(messages))
        read = tuple(map(_read, self.encoder.encoders, self.encoder.specs, buffers))
        return self._with(read, [b + r for b, r in zip(base, self._own(read), strict=True)])

    def _in_snapshots(self, held: Held) -> tuple[tf.Tensor, ...]:
        return self._with(held.reference, held.memory) if self.memory_rate else held.reference

    def _own(self, tensors: Sequence[tf.Tensor]) -> tuple[tf.Tensor, ...]:
        """Those that go by differences, of all."""
        return tuple(tensors[place] for place in self.by_differences)

    def _with(self, tensors: Sequence[tf.Tensor], own: Sequence[tf.Tensor]) -> tuple[tf.Tensor, ...]:
        """All, with these in the places of those that go by differences."""
        placed = dict(zip(self.by_differences, own, strict=True))
        return tuple(placed.get(place, tensor) for place, tensor in enumerate(tensors))

    def _moved(self, held: Held) -> list[tf.Tensor]:
        """Where memories go, before they are rounded."""
        pairs = zip(held.memory, self._own(held.reference), strict=True)
        return [h + tf.cast(self.memory_rate, h.dtype) * (w - h) for h, w in pairs]

    def _rounded(
        self, tensors: Sequence[tf.Tensor], round_num: tf.Tensor
    ) -> tuple[tuple[tf.Tensor, ...], tuple[tf.Tensor, ...]]:
        """The snapshots of the tensors that go by differences, and what stands in them."""
        if self.snapshot is None:
            return (), ()
        written, _ = self.snapshot.encode(tensors, self.snapshot.init_state(), round_num)
        return tuple(written), self.snapshot.decode(written)


def _where(condition: tf.Tensor, ones: Sequence[tf.Tensor], others: Sequence[tf.Tensor]) -> list[tf.Tensor]:
    return [tf.where(condition, one, other) for one, other in zip(ones, others, strict=True)]


def _shorter(one: tf.Tensor, other: tf.Tensor) -> tf.Tensor:
    return tf.cond(tf.size(other) < tf.size(one), lambda: other, lambda: one)


def _bits(x: tf.Tensor) -> tf.Tensor:
    return tf.bitcast(x, _BITS[x.dtype.size])


def _read(encoder: Encoder, spec: Any, buffer: tf.Tensor) -> tf.Tensor:
    return encoder.decode(encoder.from_wire(framing.unframe(buffer, encoder.wire_id, spec), spec), spec)
