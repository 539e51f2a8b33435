"""The stages of a pipeline, ``sparsifier | quantizer | entropy coder | index coder``: their four contracts.

A stage is no encoder: `fedplug.encoders.Pipeline` makes one of stages. Like an encoder it is a `Component`, a
value made from its configuration; its methods keep nothing on ``self``, and depend on nothing but their
arguments and the configuration. What they read from the wire is untrusted. Written against `fedplug.ops` they
execute on NumPy arrays and on TensorFlow's tensors (`Capabilities.executes_on`); what is said of tensors
holds for arrays, a scalar is then a number, and what is refused a `fedplug.errors.PayloadError`.
"""

from __future__ import annotations

import abc
import copy
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedplug import kernels, ops
from fedplug.encoders.base import Adjustable, State
from fedplug.encoders.sparsity import Sparsity
from fedplug.ops.donation import donate_residuals
from fedplug.ops.scatter import add_selected
from fedplug.ops.types import Array, DType, IndexForm, Spec, SymbolForm
from fedplug.registry.component import Component
from fedplug.registry.specs import Capabilities

if TYPE_CHECKING:
    from typing import Self  # Python 3.11

__all__ = [
    "CodedStage",
    "EntropyCoder",
    "IndexCoder",
    "PackedSymbols",
    "Quantizer",
    "Selection",
    "Sparsifier",
]


class Selection(NamedTuple):
    """What a sparsifier takes out of a tensor.

    Attributes:
        values: The values to send; ``[k]``, the dtype of ``x``; k may be unknown while a graph is built.
        indices: Their places in the flattened tensor, strictly ascending; ``[k]``, int32.
        state: The next state, if the values arrive as they are. Its arrays are not those that were given,
        unless
            they were donated: a later stage may write over them.
    """

    values: Array
    indices: Array
    state: State


class Sparsifier(Component):
    """Chooses the entries of a tensor that are sent.

    A state that is kept between rounds under the key ``"residual"``, of the tensor's shape, also takes what a
    later stage loses; a sparsifier that keeps it elsewhere overrides `init_state`, `update_residual`
    and `kept_residual`.
    """

    error_feedback: bool = False
    """Whether what is not sent is kept on the client and added the next time."""

    sparsity: Sparsity | None = None
    """How many entries are sent, where the configuration says so; rate control adjusts it."""

    index_coder: IndexCoder | None = None
    """What writes the indices unless the pipeline names another coder; None: the pipeline's default."""

    @property
    @abc.abstractmethod
    def capabilities(self) -> Capabilities:
        """What this sparsifier, as configured, promises where values are sent uncompressed."""

    @abc.abstractmethod
    def select(self, x: Array, state: State, round_num: Array) -> Selection:
        """Chooses entries.

        Args:
            x: The tensor; finite, its shape fully known; float32 or float64. A pipeline widens 16-bit
                tensors, rounds the values chosen, and lets `update_residual` take what that loses.
            state: From `init_state` or from the previous call for this client and tensor.
            round_num: The round, int32 scalar, for schedules and seeds.
        """

    def select_container(
        self, x: NDArray[Any], state: State, round_num: int, header: bytes, form: IndexForm
    ) -> tuple[bytes, State]:
        """What `select` takes out of a NumPy array, in its container with values as they are; the next state.

        Default: one after the other. A shorter way to the same bytes and the same state overrides it.

        Args:
            x: As for `select`.
            state: As for `select`.
            round_num: As for `select`.
            header: Of the container, see `fedplug.wire.header`.
            form: Of the index code.
        """
        chosen = self.select(x, state, round_num)
        indices, values = np.asarray(chosen.indices, np.int32), np.ascontiguousarray(chosen.values)
        return kernels.frame_entries(indices, x.size, values, header, form=form), chosen.state

    def grouped_select(
        self, xs: Sequence[Array], states: Sequence[State], round_num: Array
    ) -> list[Selection]:
        """Chooses entries of all tensors that share this sparsifier. Default: of each by itself."""
        return [self.select(x, state, round_num) for x, state in zip(xs, states, strict=True)]

    @property
    def chooses_among_tensors(self) -> bool:
        """Whether `grouped_select` compares the entries of all its tensors. Default: no."""
        return False

    def init_state(self, spec: Spec) -> State:
        """``{"residual": zeros like the spec}`` with error feedback, else nothing."""
        return {"residual": ops.zeros(spec)} if self.error_feedback else {}

    def residual_of(self, x: Array, state: State) -> Array:
        """The residual that ops add to ``x``; without error feedback what stands for zeros."""
        return state["residual"] if self.error_feedback else ops.no_residual(x)

    def state_of(self, residual: Array) -> State:
        """The next state that keeps ``residual``; nothing without error feedback."""
        return {"residual": residual} if self.error_feedback else {}

    def update_residual(self, state: State, lost: Array, indices: Array) -> State:
        """The next state when a later stage loses something of the values selected.

        Args:
            state: Of the `Selection`.
            lost: The values selected minus the values a receiver gets; ``[k]``.
            indices: Of the `Selection`.
        """
        if "residual" not in state:
            return state
        with donate_residuals():  # it was made by `select`, and nobody else has it
            return {**state, "residual": ops.scatter_decode_add(state["residual"], lost, indices)}

    def update_residuals(
        self, states: Sequence[State], lost: Sequence[Array], indices: Sequence[Array]
    ) -> list[State]:
        """Does what `update_residual` does, for each of several tensors.

        Args:
            states: The state of each `Selection`.
            lost: The values selected minus the values a receiver gets, for each tensor.
            indices: The indices of each `Selection`.
        """
        if type(self).update_residual is not Sparsifier.update_residual or not all(
            "residual" in s for s in states
        ):
            return [self.update_residual(*each) for each in zip(states, lost, indices, strict=True)]
        with donate_residuals():  # `select` made them, no caller has them
            residuals = add_selected([state["residual"] for state in states], lost, indices)
        return [{**state, "residual": new} for state, new in zip(states, residuals, strict=True)]

    def kept_residual(self, state: State) -> Array | None:
        """As `Encoder.kept_residual`."""
        return state.get("residual")

    def at_rate(self, rate: Array) -> Self:
        """This sparsifier, for one round, with ``rate`` times as many entries as `sparsity` says."""
        assert self.sparsity is not None
        adjusted = copy.copy(self)
        adjusted.sparsity = self.sparsity.at_rate(rate)
        return adjusted


class PackedSymbols(NamedTuple):
    """Where in a quantizer's bytes its symbols are: from ``start`` to the end.

    A value follows from what comes before the symbols and from its own symbol, whatever the others are.

    Attributes:
        start: How many bytes come before them.
        number: How many symbols there are.
        bits: Of each symbol, 1 to 8; packed one after the other, the lowest bit first.
        trits: How many digits of base 3 a symbol of 8 bits is made of, the lowest first; 0 where of none.
    """

    start: Array | int
    number: Array | int
    bits: int
    trits: int = 0


class CodedStage(Component):
    """What all stages that write bytes have in common."""

    @classmethod
    def from_payload(cls, code: Array) -> Self:
        """One that reads this code, for a receiver who knows no configuration. Default: ``cls()``.

        Override it where `decode` depends on the configuration, and read that off the bytes, which are
        untrusted: `PayloadError` where no configuration writes them. A quantizer whose symbols were
        entropy-coded is given the bytes before them, and some more.
        """
        del code
        return cls()


class _Coder(CodedStage):
    """What both kinds of coders have in common."""

    @property
    def capabilities(self) -> Capabilities:
        """Nothing is lost; what else it promises, nobody asks but on what it executes."""
        return Capabilities(lossless=True)

    def get_config(self) -> dict[str, Any]:
        """The keyword arguments that make an equal coder; JSON values only. Default: none."""
        return {}


class Quantizer(CodedStage):
    """Represents a vector of values in fewer bits: of a dense tensor, or those a sparsifier chose."""

    wire_id: ClassVar[str]
    """Names the frozen layout of `encode`, for instance ``"qsgd/1"``; part of a pipeline's wire id."""

    uncompressed: ClassVar[bool] = False
    """Whether its bytes are the values as they lie in memory: kernels then write and read them so."""

    error_feedback: bool = False
    """Whether a pipeline without a sparsifier keeps the error on the client and adds it the next time. After
    a sparsifier its residual takes the error, if it has one."""

    @property
    def capabilities(self) -> Capabilities:
        """Biased; state with error feedback only."""
        return Capabilities(needs_client_state=self.error_feedback, sends_every_entry=True)

    @abc.abstractmethod
    def encode(self, values: Array, round_num: Array) -> Array:
        """The bytes of a vector, a uint8 vector.

        Args:
            values: ``[n]``, finite; n may be 0, and unknown while a graph is built.
            round_num: int32 scalar, for schedules and seeds.
        """

    def encode_each(
        self, values: Sequence[NDArray[Any]], round_num: int, exact: Sequence[NDArray[Any]] | None
    ) -> tuple[list[NDArray[np.uint8]], list[NDArray[Any]]]:
        """Encodes several vectors of NumPy arrays. Default: one after the other.

        Args:
            values: The vectors, finite.
            round_num: The round number.
            exact: The vectors before they were rounded to the dtype of ``values``; None if errors are not
                needed.

        Returns:
            The bytes of each vector, and ``exact`` minus what a receiver decodes; without ``exact`` nothing.
        """
        codes = [self.encode(each, round_num) for each in values]
        if exact is None:
            return codes, []
        decoded = [self.decode(code, each.size, each.dtype) for code, each in zip(codes, values, strict=True)]
        return codes, [whole - ops.widened(each) for whole, each in zip(exact, decoded, strict=True)]

    def encode_container(self, values: NDArray[Any], round_num: int, header: bytes) -> bytes:
        """What `encode` makes of a NumPy array, in its container. Default: one after the other.

        Args:
            values: As for `encode`.
            round_num: As for `encode`.
            header: Of the container, see `fedplug.wire.header`.
        """
        return kernels.frame(self.encode(values, round_num), header)

    @abc.abstractmethod
    def decode(self, code: Array, count: Array | int, dtype: DType) -> Array:
        """The values that a receiver gets, ``[count]``, finite.

        Args:
            code: uint8 vector; untrusted.
            count: How many values there must be, integer scalar.
            dtype: That of the values.

        Raises:
            tf.errors.InvalidArgumentError: `encode` writes no such bytes for so many values.
        """

    def symbols(self, count: Array | int, dtype: DType) -> PackedSymbols | None:
        """Where the bytes of ``count`` values hold symbols, which an entropy coder may then make shorter.

        Default: nowhere, and then no entropy coder can follow. That must not depend on the arguments.
        """
        del count, dtype
        return None

    def adjustable(self) -> Adjustable | None:
        """See `Encoder.adjustable`, of a pipeline of this quantizer alone. Default: None."""
        return None


class EntropyCoder(_Coder):
    """Writes a quantizer's packed symbols in fewer bytes, and loses nothing."""

    wire_id: ClassVar[str]
    """Names the frozen layout of `encode`, for instance ``"rans/1"``; part of a pipeline's wire id."""

    kernel_form: ClassVar[SymbolForm | None] = None
    """The form of `fedplug.ops.encode_symbols` that its codes are, where they are: kernels then write them
    together with what else is in a payload. Default: none."""

    takes_trits: ClassVar[bool] = False
    """Whether symbols made of digits of base 3 come as these digits, 2 bits each, in place of 8 for all."""

    @abc.abstractmethod
    def encode(self, packed: Array, count: Array | int, bits: int) -> Array:
        """The code, a uint8 vector.

        Args:
            packed: Symbols one after the other, the lowest bit first; uint8 vector.
            count: How many symbols there are.
            bits: Of each symbol, 1 to 8.
        """

    @abc.abstractmethod
    def decode(self, code: Array, count: Array | int, bits: int) -> Array:
        """The inverse of `encode`; ``count`` and ``bits`` are those of the symbols there must be.

        Args:
            code: uint8 vector; untrusted.
            count: How many symbols there must be.
            bits: Of each symbol, 1 to 8.

        Raises:
            tf.errors.InvalidArgumentError: `encode` writes no such bytes for so many symbols.
        """


class IndexCoder(_Coder):
    """Writes strictly ascending indices as bytes, and loses nothing."""

    wire_id: ClassVar[str]
    """Names the frozen layout of `encode`, for instance ``"rice/1"``; part of a pipeline's wire id."""

    kernel_form: ClassVar[IndexForm | None] = None
    """The form of `fedplug.ops.encode_indices` that its codes are, where they are: kernels then write and
    read them together with what else is in a payload. Default: none."""

    @abc.abstractmethod
    def encode(self, indices: Array, size: int, round_num: Array) -> Array:
        """The code, a uint8 vector.

        Args:
            indices: Strictly ascending, in ``[0, size)``; int32 vector.
            size: Of the tensor they point into.
            round_num: The round in which they were chosen, int32 scalar.
        """

    @abc.abstractmethod
    def decode(self, code: Array, count: Array, size: int) -> Array:
        """The indices, strictly ascending, in ``[0, size)``; int32 ``[count]``.

        Args:
            code: uint8 vector; untrusted.
            count: How many indices there must be; int32 scalar, already known to be in ``[0, size]``.
            size: Of the tensor they point into.

        Raises:
            tf.errors.InvalidArgumentError: `encode` writes no such bytes for so many indices.
        """
