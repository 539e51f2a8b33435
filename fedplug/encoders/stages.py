"""The contracts of the four stages of a pipeline: ``sparsifier | quantizer | entropy coder | index coder``.

A stage is not an encoder: a `fedplug.encoders.Pipeline` consists of stages. Like an encoder, a stage is a
`Component`: a value made from its configuration. Its methods depend on their arguments and the configuration
only, and keep nothing on ``self``. Bytes from the wire are untrusted. Stages written against `fedplug.ops`
execute on NumPy arrays and on TensorFlow's tensors (`Capabilities.executes_on`). On NumPy arrays a scalar is
a number, and invalid bytes raise `fedplug.errors.PayloadError`.
"""

from __future__ import annotations

import abc
import dataclasses
import functools
import math
import operator
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import fedplug.ops as ops
from fedplug.encoders.arguments import check_share, check_whole
from fedplug.encoders.base import State
from fedplug.errors import CapabilityWarning, ConfigError
from fedplug.ops.scatter import add_selected
from fedplug.ops.types import Array, DType, IndexForm, Scalar, Spec
from fedplug.registry.component import Component
from fedplug.registry.specs import Capabilities
from fedplug.schedules import Schedule, as_schedule, schedule_config

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
    "Sparsity",
]

_MOST_SIZES = 1024


@dataclass(frozen=True)
class Sparsity:
    """A fraction of the elements, which may change with the round, or a count of entries.

    >>> Sparsity("topk", 0.01, None).of_size(5000), Sparsity("topk", None, 100).of_size(5000)
    (50, 100)

    Attributes:
        encoder: The name of the sparsifier, for errors.
        fraction: A number above 0 and at most 1, a schedule of such numbers, or anything that `as_schedule`
            reads.
        count: A whole number of at least 1. Exactly one of ``fraction`` and ``count`` is given.
        rate: A scalar above 0 that multiplies the number of entries, or None. See
            `fedplug.encoders.Adjustment`.

    Raises:
        ConfigError: Neither or both are given, or the given one is out of range.
    """

    encoder: str
    fraction: float | Schedule | str | Mapping[str, object] | None
    count: int | None
    rate: Scalar | None = None

    def __post_init__(self) -> None:
        name, fraction, count = self.encoder, self.fraction, self.count
        if (fraction is None) == (count is None):
            raise ConfigError(
                f"{name} takes either a fraction or a count, for instance {name}(0.01) or {name}(count=100)"
            )
        if fraction is not None:
            if isinstance(fraction, str | Mapping):
                object.__setattr__(self, "fraction", _fraction_schedule(name, fraction))
            for round_num, value in enumerate(self._fractions):
                scheduled = isinstance(self.fraction, Schedule)
                when = f" in round {round_num} of {self.fraction!r}" if scheduled else ""
                if type(value) in (int, float) and 1 < value <= 2**63:
                    share = f"{name}({value / 100!r}) is {value:g} % of the elements, and " * (value <= 100)
                    raise ConfigError(
                        f"{name} fraction{when} is {value!r}; it must be a number above 0 and at most 1: "
                        f"{share}{name}(count={math.ceil(value)}) is a number of entries"
                    )
                check_share(f"{name} fraction{when}", value)
            if type(fraction) is int:
                warnings.warn(
                    f"{name}(1) sends every element; {name}(0.01) sends 1 % of them, {name}(count=1) one "
                    f"entry, and {name}(1.0) is all of them without this warning",
                    CapabilityWarning,
                    stacklevel=2,
                )
        if count is not None:
            check_whole(f"{name} count", count, 1)

    @functools.cached_property
    def _fractions(self) -> list[Any]:
        """The fractions of each round, up to the round from which they stay constant."""
        if isinstance(self.fraction, Schedule):
            return list(self.fraction.values())
        return [self.fraction]

    def get_config(self) -> dict[str, object]:
        """Returns the argument that was given."""
        if self.fraction is None:
            return {"count": self.count}
        fraction = self.fraction
        return {"fraction": schedule_config(fraction) if isinstance(fraction, Schedule) else fraction}

    @property
    def fixed(self) -> bool:
        """Whether the number of entries is the same in every round."""
        return self.rate is None and not isinstance(self.fraction, Schedule)

    def at_rate(self, rate: Scalar) -> Sparsity:
        """Returns a copy with the entry count scaled by ``rate``."""
        return dataclasses.replace(self, rate=rate)

    def of_size(self, size: int, round_num: Scalar = 0) -> Scalar:
        """Returns ``min(n, max(1, round(fraction * n)))`` or ``min(n, count)`` for a tensor of n elements.

        The result is a number if it is known while a graph is built, else an int32 scalar.
        """
        if self.rate is None:
            known = self._known.get(size) or self._found(size)
            return known[0] if len(known) == 1 else ops.table_lookup(known, round_num, "int32")
        entries = ops.table_lookup(self._wanted(size), round_num, "float64")
        entries = ops.minimum(ops.floor(entries * ops.astype(self.rate, "float64") + 0.5), float(size))
        return ops.minimum(ops.maximum(ops.astype(entries, "int32"), 1), size)

    def in_each_round(self, size: int) -> list[int]:
        """Returns the counts of each round at rate 1, up to the round from which they stay constant."""
        return [_at_most(size, entries) for entries in self._wanted(size)]

    @functools.cached_property
    def _known(self) -> dict[int, list[int]]:
        """A cache of `in_each_round` by size, because every encoded array needs it."""
        return {}

    def _found(self, size: int) -> list[int]:
        if len(self._known) >= _MOST_SIZES:
            self._known.clear()
        self._known[size] = self.in_each_round(size)
        return self._known[size]

    def _wanted(self, size: int) -> list[Any]:
        if self.count is not None:
            return [float(self.count)]
        return [fraction * size for fraction in self._fractions]


def _at_most(size: int, entries: float) -> int:
    return min(size, max(1, math.floor(entries + 0.5)))


def _fraction_schedule(encoder: str, fraction: str | Mapping[str, object]) -> Schedule:
    try:
        return as_schedule(fraction)
    except ConfigError as error:
        raise ConfigError(f"{encoder} fraction is {fraction!r}: {error}") from error


class Selection(NamedTuple):
    """The entries that a sparsifier selects from a tensor.

    Attributes:
        values: The values to send. ``[k]``, the dtype of ``x``; k may be unknown while a graph is built.
        indices: The positions of these values in the flattened tensor, strictly ascending. ``[k]``, int32.
        state: The next state if the receiver gets the values unchanged. Later stages may write over its
            arrays, so they are not the arrays given to `Sparsifier.select`, unless those were donated.
    """

    values: Array
    indices: Array
    state: State


class Sparsifier(Component):
    """Selects the entries of a tensor that are sent.

    A sparsifier with error feedback keeps the residual in its state under ``"residual"``, in the shape of the
    tensor. The residual also takes the error of later stages. A sparsifier with another state overrides
    `init_state` and `update_residuals`.
    """

    error_feedback: bool = False
    """Whether the client keeps the unsent part and adds it to its next update."""

    sparsity: Sparsity | None = None
    """The number of entries sent, if the configuration sets one. Rate control adjusts it."""

    index_coder: IndexCoder | None = None
    """The coder of the indices unless the pipeline names another one. None: the pipeline's default."""

    @property
    @abc.abstractmethod
    def capabilities(self) -> Capabilities:
        """The promises of this sparsifier in its configuration if values are sent uncompressed."""

    @abc.abstractmethod
    def select(self, x: Array, state: State, round_num: Scalar) -> Selection:
        """Selects entries.

        Args:
            x: The tensor. Finite, of a fully known shape. float32 or float64. A pipeline widens 16-bit
                tensors, rounds the selected values, and gives the rounding errors to `update_residuals`.
            state: The state from `init_state` or from this client's previous call for this tensor.
            round_num: The round number, an int32 scalar, for schedules and seeds.
        """

    def grouped_select(
        self, xs: Sequence[Array], states: Sequence[State], round_num: Scalar
    ) -> list[Selection]:
        """Selects entries of all tensors that share this sparsifier. Default: of each tensor by itself."""
        return [self.select(x, state, round_num) for x, state in zip(xs, states, strict=True)]

    def init_state(self, spec: Spec) -> State:
        """Returns ``{"residual": zeros}`` with error feedback, else an empty state."""
        return {"residual": ops.zeros(spec)} if self.error_feedback else {}

    def residual_of(self, x: Array, state: State) -> Array | None:
        """Returns the residual that ops add to ``x``; a placeholder for zeros without error feedback."""
        return state["residual"] if self.error_feedback else ops.no_residual(x)

    def state_of(self, residual: Array) -> State:
        """Returns the next state with this residual. An empty state without error feedback."""
        return {"residual": residual} if self.error_feedback else {}

    def update_residuals(
        self, states: Sequence[State], lost: Sequence[Array], indices: Sequence[Array]
    ) -> list[State]:
        """Returns the next states if a later stage loses a part of the selected values.

        Args:
            states: The state of the `Selection` of each tensor.
            lost: The selected values minus the values that a receiver gets. ``[k]`` for each tensor.
            indices: The indices of the `Selection` of each tensor.
        """
        try:
            residuals = list(map(operator.itemgetter("residual"), states))
        except KeyError:
            return list(states)
        after = add_selected(residuals, lost, indices)  # `select` made them, and nothing else refers to them
        if all(map(operator.is_, after, residuals)):
            return list(states)
        return [{**state, "residual": new} for state, new in zip(states, after, strict=True)]


class PackedSymbols(NamedTuple):
    """The part of a quantizer's bytes that holds its symbols: from ``start`` to the end.

    A value follows from the bytes before the symbols and from its own symbol, whatever the others are.

    Attributes:
        start: Number of bytes before the symbols.
        number: Number of symbols.
        bits: Bits per symbol, 1 to 16, packed one after the other, the lowest bit first. Symbols of more than
            8 bits are in two parts: their lowest ``bits - 8`` bits, packed, then their highest 8 bits.
    """

    start: Array | int
    number: Array | int
    bits: int


class CodedStage(Component):
    """The common part of all stages that write bytes."""

    @classmethod
    def from_payload(cls, code: Array) -> Self:
        """Returns a stage that reads this code, for a receiver without a configuration. Default: ``cls()``.

        Override it if `decode` depends on the configuration, and read that from the bytes. They are
        untrusted: raise `PayloadError` if no configuration writes them. For a quantizer with entropy-coded
        symbols, ``code`` is the bytes before the symbols and an unknown rest.
        """
        del code
        return cls()


class _Coder(CodedStage):
    """The common part of both kinds of coders."""

    @property
    def capabilities(self) -> Capabilities:
        """Lossless."""
        return Capabilities(lossless=True)

    def get_config(self) -> dict[str, object]:
        """Returns the keyword arguments that make an equal coder; JSON values only. Default: none."""
        return {}


class Quantizer(CodedStage):
    """Represents a vector of values in fewer bits: a dense tensor, or the values a sparsifier selected."""

    wire_id: ClassVar[str]
    """The name of the frozen layout of `encode`, such as ``"qsgd/1"``; a part of the pipeline's wire id."""

    uncompressed: ClassVar[bool] = False
    """Whether its bytes are the values as they lie in memory. Kernels then write and read them directly."""

    error_feedback: bool = False
    """Whether a pipeline without a sparsifier keeps the error on the client and adds it to the next update.
    After a sparsifier, the sparsifier's residual takes the error, if it has one."""

    @property
    def capabilities(self) -> Capabilities:
        """Biased. Keeps state only with error feedback."""
        return Capabilities(needs_client_state=self.error_feedback, sends_every_entry=True)

    @abc.abstractmethod
    def encode(self, values: Array, round_num: Scalar) -> Array:
        """Returns the bytes of a vector, a uint8 vector.

        Args:
            values: The values. ``[n]``, finite; n may be 0, and unknown while a graph is built.
            round_num: The round number, an int32 scalar, for schedules and seeds.
        """

    @abc.abstractmethod
    def decode(self, code: Array, count: Array | int, dtype: DType) -> Array:
        """Returns the values that a receiver gets. ``[count]``, finite.

        Args:
            code: The untrusted bytes, a uint8 vector.
            count: Number of values, an integer scalar.
            dtype: The dtype of the values.

        Raises:
            tf.errors.InvalidArgumentError: `encode` does not write such bytes for ``count`` values.
        """

    def symbols(self, count: Array | int, dtype: DType) -> PackedSymbols | None:
        """Returns where the bytes of ``count`` values hold symbols, which an entropy coder may shorten.

        Default: None, and then no entropy coder can follow. Whether it is None must not depend on the
        arguments.
        """
        del count, dtype
        return None


class EntropyCoder(_Coder):
    """Writes a quantizer's packed symbols in fewer bytes, without loss."""

    wire_id: ClassVar[str]
    """The name of the frozen layout of `encode`, such as ``"rans/1"``; a part of the pipeline's wire id."""

    @abc.abstractmethod
    def encode(self, packed: Array, count: Array | int, bits: int) -> Array:
        """Returns the code, a uint8 vector.

        Args:
            packed: The symbols one after the other, the lowest bit first; a uint8 vector.
            count: Number of symbols.
            bits: Bits per symbol, 1 to 8.
        """

    @abc.abstractmethod
    def decode(self, code: Array, count: Array | int, bits: int) -> Array:
        """Returns the packed symbols: the inverse of `encode`.

        Args:
            code: The untrusted code, a uint8 vector.
            count: Number of symbols.
            bits: Bits per symbol, 1 to 8.

        Raises:
            tf.errors.InvalidArgumentError: `encode` does not write such bytes for ``count`` symbols.
        """


class IndexCoder(_Coder):
    """Writes strictly ascending indices as bytes, without loss."""

    wire_id: ClassVar[str]
    """The name of the frozen layout of `encode`, such as ``"rice/1"``; a part of the pipeline's wire id."""

    kernel_form: ClassVar[IndexForm | None] = None
    """The form of `fedplug.ops.encode_indices` that writes its codes, if there is one: kernels then write and
    read the code together with the rest of the payload. Default: None."""

    @abc.abstractmethod
    def encode(self, indices: Array, size: int, round_num: Scalar) -> Array:
        """Returns the code, a uint8 vector.

        Args:
            indices: The indices, strictly ascending, in ``[0, size)``. An int32 vector.
            size: Number of elements of the tensor that they point into.
            round_num: The round in which they were selected, an int32 scalar.
        """

    @abc.abstractmethod
    def decode(self, code: Array, count: Array | int, size: int) -> Array:
        """Returns the indices, strictly ascending, in ``[0, size)``. int32 ``[count]``.

        Args:
            code: The untrusted code, a uint8 vector.
            count: Number of indices. An int32 scalar, already checked to be in ``[0, size]``.
            size: Number of elements of the tensor that they point into.

        Raises:
            tf.errors.InvalidArgumentError: `encode` does not write such bytes for ``count`` indices.
        """
