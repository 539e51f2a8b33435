"""Adds payloads up as they arrive, of one array or of a model; sparse ones never become dense."""

from __future__ import annotations

import contextlib
import functools
import math
import operator
import threading
from collections import deque
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
from numpy.typing import DTypeLike, NDArray

from fedplug import _kernels, kernels, ops, wire
from fedplug.codecs.arrays import named_arrays, require_mapping
from fedplug.codecs.decoding import Received, expected_of, receive
from fedplug.codecs.wire_ids import WireIds
from fedplug.encoders.arguments import check_number
from fedplug.encoders.model.statistics import is_statistic
from fedplug.errors import ArgumentError, ConfigError, NonFiniteError, PayloadError
from fedplug.registry.component import plain

__all__ = ["ModelSum", "Sum"]

_DTYPES = "a sum is of float32, float64, float16 or bfloat16"

_WIDER = {
    "float16": ("float32", "float64"),
    "bfloat16": ("float32", "float64"),
    "float32": ("float64",),
}
"""Into which sums payloads of a dtype may go, beside those of their own: every number is exact there."""


Step = partial[Any]
"""One of the calls that `_run` makes."""

_BLOCK = 2**15
"""Elements of a dense payload that are weighted at a time: they stay in the cache."""


class _Range(NamedTuple):
    """The largest finite number of a dtype, the least normal one, and the relative distance of numbers."""

    largest: float
    least: float
    eps: float


@functools.cache
def _range(dtype: np.dtype[Any]) -> _Range:
    numbers = ml_dtypes.finfo(dtype)  # type: ignore[no-untyped-call]
    return _Range(float(numbers.max), float(numbers.tiny), float(numbers.eps))


class Sum:
    """``sum_i weight_i * decode(payload_i)``, in the order in which payloads are added.

    Every product and every sum is rounded once, in the dtype of the sum, so that equal payloads in an equal
    order give equal bits, whatever the threads and the SIMD level. Another order differs by rounding, as does
    adding up in parts that are then merged; where all products and sums are exact, nothing differs. A sparse
    payload costs its entries, not the size of the sum; payloads of other encoders are decoded into memory
    that is kept for the next.

    The sum is always finite: a payload that would make it infinite is refused. Any number of threads may add;
    each payload is added whole, or not at all, and threads decode at the same time.
    """

    def __init__(
        self, shape: Sequence[int] | int, dtype: DTypeLike = np.float32, *, wire_ids: WireIds = None
    ) -> None:
        """Zeros.

        Args:
            shape: Of the arrays that were encoded.
            dtype: float32, float64, float16 or bfloat16. Payloads of a narrower dtype are widened, exactly. A
                sum of float64 takes integers, too; those of 64 bits are rounded.
            wire_ids: The wire ids of payloads to accept, as for `fedplug.decode`; None: of any encoder.

        Raises:
            ArgumentError: ``dtype`` is none of these, or ``shape`` is no shape of an array that can be
                encoded.
        """
        self._shape = _dims(shape)
        try:
            self._dtype = np.dtype(dtype)
        except TypeError as error:
            raise ArgumentError(f"{_DTYPES}, not of {dtype!r}") from error
        if not ops.is_floating(self._dtype) or self._dtype.itemsize > 8:
            raise ArgumentError(f"{_DTYPES}, not of {self._dtype}")
        self._range = _range(self._dtype)
        self._limit = math.inf
        self._dtype_of_mean = self._dtype
        self._total = np.zeros(self._shape, self._dtype)
        self._bound = 0.0
        self._wire_ids = wire_ids
        self._spare: deque[NDArray[Any]] = deque(maxlen=1)
        self._weight = 0.0
        self._count = 0
        self._lock = threading.Lock()

    @property
    def weight(self) -> float:
        """The sum of the weights: ``total.value() / total.weight`` is the weighted mean."""
        return self._weight

    @property
    def count(self) -> int:
        """How many payloads were added."""
        return self._count

    def add(self, payload: Any, weight: float = 1.0) -> None:
        """Adds ``weight * decode(payload)``.

        Args:
            payload: Of this shape, and of this dtype or a narrower one; untrusted.
            weight: Finite.

        Raises:
            PayloadError: As for `fedplug.decode`; or the payload is of another shape or dtype, or would make
                the sum infinite. Nothing is added.
            ConfigError: ``weight`` is no finite number, or the sum's dtype cannot hold it, or the sum of all
                weights. Nothing is added.
        """
        weight = plain(weight)
        factor = None if type(weight) is float and weight == 1 else self._factor(weight)
        received = self._receive(payload)
        with self._lock:
            _require_weights(self._weight + weight, self._dtype)
            bound = self._bound_with(received, factor)
            _run([*self._adding(received, factor), self._bounding(bound), *_counting(self, weight, 1)])
        self._keep_memory(received, payload)

    def merge(self, other: Sum) -> None:
        """Adds another sum of the same shape and dtype, element by element.

        Raises:
            ArgumentError: It is no such sum, or this one; or the sum of both would be infinite.
            ConfigError: The sum of all weights would be infinite.
        """
        if not isinstance(other, Sum) or other is self:
            raise ArgumentError("merge takes another Sum")
        if other._form() != self._form():
            raise ArgumentError(
                f"the other sum is {other._dtype}{list(other._shape)}, this one is "
                f"{self._dtype}{list(self._shape)}"
            )
        first, second = sorted((self, other), key=id)  # two threads that merge each other into each other end
        with first._lock, second._lock:
            _require_weights(self._weight + other._weight, self._dtype)
            bound = self._bound_with_sum(other)
            _run([*self._merging(other, bound), *_counting(self, other._weight, other._count)])

    def value(self) -> NDArray[Any]:
        """The sum so far; a copy."""
        with self._lock:
            return self._total.copy()

    def _form(self) -> tuple[tuple[int, ...], np.dtype[Any]]:
        return self._shape, self._dtype

    def _factor(self, weight: float) -> NDArray[Any] | None:
        """By what the values are multiplied; None: by nothing, as the weight is 1."""
        check_number("weight", weight, lambda number: True, "")
        if abs(weight) > self._range.largest:
            raise ConfigError(f"weight is {weight!r}, which is infinite in a sum of {self._dtype}")
        if 0 < abs(weight) < self._range.least:
            raise ConfigError(
                f"weight is {weight!r}, too small for a sum of {self._dtype}; give all clients larger weights"
            )
        return None if weight == 1 else np.asarray(weight, self._dtype)

    def _receive(self, payload: Any) -> Received:
        """Decodes a payload; needs no lock, as this may take long."""
        try:
            place = self._spare.pop()
        except IndexError:  # the first payload, or another thread has it
            place = None
        received = receive(payload, shape=self._shape, place=place, wire_ids=self._wire_ids)
        if place is not None and not np.may_share_memory(received.values, place):
            self._spare.append(place)
        if received.spec.dtype is not self._dtype:
            self._require_dtype(received.spec.dtype)
        return received

    def _adding(self, received: Received, factor: NDArray[Any] | None) -> Iterator[Step]:
        """The steps that add a payload; nothing can be wrong with it any more."""
        _, values, indices = received
        if indices is None:
            yield from self._adding_dense(values, factor)
            return
        if values.dtype != self._dtype:
            values = values.astype(self._dtype)
        weights = None if factor is None else factor.reshape(1)
        yield partial(_kernels.scatter_decode_add, self._total, values, indices, None, weights)

    def _merging(self, other: Sum, bound: float) -> Iterator[Step]:
        yield partial(np.add, self._total, other._total, out=self._total)
        yield self._bounding(bound)

    def _bounding(self, bound: float) -> Step:
        return partial(setattr, self, "_bound", bound)

    def _bound_with(self, received: Received, factor: NDArray[Any] | None) -> float:
        """The magnitude that no element exceeds after adding; raises PayloadError if one becomes infinite."""
        magnitude = _magnitude(received.values)
        if magnitude > self._limit:
            raise PayloadError(
                f"it holds {magnitude:.3g}, and more than {self._limit:.3g} could make the model infinite"
            )
        if factor is not None:
            magnitude *= abs(float(factor))
        return self._bound_after(magnitude, lambda sum_: _run(sum_._adding(received, factor)), PayloadError)

    def _bound_with_sum(self, other: Sum) -> float:
        def add(sum_: Sum) -> None:
            _run(sum_._merging(other, 0.0))

        return self._bound_after(other._bound, add, ArgumentError)

    def _bound_after(
        self, magnitude: float, add: Callable[[Sum], None], error: type[ArgumentError | PayloadError]
    ) -> float:
        """Adds to a copy only where values or rounding errors may have used up half of the dtype's range."""
        bound = (self._bound + magnitude) * (1 + 2 * self._range.eps)
        if bound <= self._range.largest / 2:
            return bound
        copy = Sum(self._shape, self._dtype)
        copy._total[...] = self._total
        add(copy)
        if not kernels.all_finite(copy._total):
            raise error(f"the sum would be infinite in {self._dtype}")
        return _magnitude(copy._total)

    def _require_dtype(self, dtype: np.dtype[Any]) -> None:
        if dtype == self._dtype or self._dtype.name in _WIDER.get(dtype.name, ()):
            return
        if self._dtype != np.float64 or dtype.kind not in "iub":
            raise PayloadError(f"the payload is of {dtype}, and cannot be added to a sum of {self._dtype}")

    def _adding_dense(self, values: NDArray[Any], factor: NDArray[Any] | None) -> Iterator[Step]:
        total = self._total.reshape(-1)
        if factor is None:
            yield partial(np.add, total, values, out=total, dtype=self._dtype)
            return
        product = np.empty(min(values.size, _BLOCK), self._dtype)
        for begin in range(0, values.size, _BLOCK):
            block = values[begin : begin + _BLOCK]
            weighted, part = product[: block.size], total[begin : begin + _BLOCK]
            # With the dtype: NumPy 1 takes a scalar's for no reason to leave that of the values.
            yield partial(np.multiply, block, factor, out=weighted, dtype=self._dtype)
            yield partial(np.add, part, weighted, out=part)

    def _keep_memory(self, received: Received, payload: Any) -> None:
        """Keeps for the next payload the memory into which this one was decoded."""
        values = received.values
        dense = received.indices is None and values.flags.writeable and values.flags.c_contiguous
        if dense and not np.may_share_memory(values, np.frombuffer(payload, np.uint8)):
            self._spare.append(values)


class ModelSum:
    """``sum_i weight_i * decode_model(payloads_i)``, by name, in the order in which clients are added.

    Takes the memory of one model, and where payloads are dense of a second for each thread that adds; not of
    the clients. What a client sent is read to its last byte before any of it is added, so that a client that
    is refused leaves no trace. The sums are those of `Sum`, with the same bits. Any number of threads may
    add.
    """

    def __init__(
        self,
        shapes: Mapping[str, Sequence[int] | int],
        dtype: DTypeLike | Mapping[str, DTypeLike] = np.float32,
        *,
        wire_ids: WireIds | Mapping[str, Container[str]] = None,
    ) -> None:
        """Zeros.

        Args:
            shapes: Of the arrays that were encoded, by name.
            dtype: As for `Sum`: of all of them, or by name.
            wire_ids: The expected wire ids, as for `Sum`: of all arrays, or by name, as
                `Codec.wire_ids` returns them.

        Raises:
            ArgumentError: A dtype is none of a sum's, or that of a name is missing, or its wire ids are.
        """
        require_mapping("a model", "shapes", shapes)
        dtypes: Mapping[str, Any] = dtype if isinstance(dtype, Mapping) else dict.fromkeys(shapes, dtype)
        if dtypes.keys() != shapes.keys():
            raise ArgumentError(f"shapes are of {sorted(shapes)}, dtypes of {sorted(dtypes)}")
        self._sums = {}
        for name, shape in shapes.items():
            with _naming(name):
                self._sums[name] = Sum(shape, dtypes[name], wire_ids=expected_of(wire_ids, name))
        self._weight = 0.0
        self._count = 0
        self._lock = threading.Lock()

    @classmethod
    def like(
        cls, arrays: Mapping[str, Any], *, wire_ids: WireIds | Mapping[str, Container[str]] = None
    ) -> ModelSum:
        """Makes the sums of updates of a model: of 16-bit floats in float32, of integers in float64.

        Statistics add up in float64, and `mean` rounds their mean once: so a variance plus the mean of
        differences to variances is not negative. `add` then also refuses an update that could make an entry
        of the model infinite, in its own dtype.

        Args:
            arrays: The model, by name: anything that a codec takes.
            wire_ids: The expected wire ids, as for `ModelSum`.

        Raises:
            ArgumentError: One is no such array, or its wire ids are missing.
        """
        seen = named_arrays(arrays)
        shapes = {name: array.shape for name, array in seen.items()}
        dtypes = {name: _dtype_of_sum(array.dtype) for name, array in seen.items()}
        float64 = np.dtype(np.float64)
        sums = {name: float64 if is_statistic(name) else dtypes[name] for name in seen}
        total = cls(shapes, sums, wire_ids=wire_ids)
        for name, array in seen.items():
            total._sums[name]._limit = _largest_update(array)
            total._sums[name]._dtype_of_mean = dtypes[name]
        return total

    @property
    def weight(self) -> float:
        """The sum of the weights."""
        return self._weight

    @property
    def count(self) -> int:
        """How many clients were added."""
        return self._count

    def add(self, payloads: Mapping[str, Any], weight: float = 1.0) -> None:
        """Adds ``weight * decode_model(payloads)``.

        Args:
            payloads: What one client sent: a payload for each array, by name; untrusted.
            weight: Finite; the client's number of examples, say.

        Raises:
            PayloadError: One of them is missing, unknown, or refused by `Sum.add`; the message names the
                tensor. Nothing is added.
            ArgumentError: One is no buffer. Nothing is added.
            ConfigError: ``weight`` is refused by `Sum.add`. Nothing is added.
        """
        weight = plain(weight)
        factors = self._factors(payloads, weight)
        received = self._receive(payloads)
        with self._lock:
            bounds = self._bounds(received, factors, weight)
            steps: list[Step] = []
            for name, part in self._sums.items():
                steps += [*part._adding(received[name], factors[name]), part._bounding(bounds[name])]
            _run([*steps, *_counting(self, weight, 1)])
        self._keep_memory(received, payloads)

    def check(self, payloads: Mapping[str, Any], weight: float = 1.0) -> None:
        """Raises what `add` would raise, and adds nothing."""
        weight = plain(weight)
        factors = self._factors(payloads, weight)
        received = self._receive(payloads)
        with self._lock:
            self._bounds(received, factors, weight)
        self._keep_memory(received, payloads)

    def merge(self, other: ModelSum) -> None:
        """Adds another sum of the same names, shapes and dtypes.

        Raises:
            ArgumentError: It is no such sum, or this one; or the sum of both would be infinite.
            ConfigError: The sum of all weights would be infinite.
        """
        if not isinstance(other, ModelSum) or other is self:
            raise ArgumentError("merge takes another ModelSum")
        if self._forms() != other._forms():
            raise ArgumentError("the other sum is of arrays of other names, shapes or dtypes")
        first, second = sorted((self, other), key=id)  # two threads that merge each other into each other end
        with first._lock, second._lock:
            steps: list[Step] = []
            for name, part in self._sums.items():
                _require_weights(self._weight + other._weight, part._dtype)
                steps += part._merging(other._sums[name], part._bound_with_sum(other._sums[name]))
            _run([*steps, *_counting(self, other._weight, other._count)])

    def value(self) -> dict[str, NDArray[Any]]:
        """The sums so far, by name; copies."""
        with self._lock:
            return {name: part.value() for name, part in self._sums.items()}

    def mean(self) -> dict[str, NDArray[Any]]:
        """The sums divided by the sum of the weights, in their dtypes; of statistics see `like`.

        Raises:
            ArgumentError: The weights add up to zero: nothing was added, say.
            NonFiniteError: A mean is infinite, as weights of both signs nearly cancel out; the message names
                the tensor.
        """
        if self._weight == 0:
            raise ArgumentError(f"there is no mean of {self._count} updates whose weights add up to 0")
        means = self.value()
        for name, array in means.items():
            with np.errstate(all="ignore"):
                np.divide(array, np.asarray(self._weight, array.dtype), out=array)
                means[name] = array = array.astype(self._sums[name]._dtype_of_mean, copy=False)
            if not kernels.all_finite(array):
                raise NonFiniteError(
                    f"tensor {name!r}: the mean is not finite in {array.dtype}; the weights add up to "
                    f"{self._weight:.3g}"
                )
        return means

    def _factors(self, payloads: Mapping[str, Any], weight: float) -> dict[str, NDArray[Any] | None]:
        self._require_names(payloads)
        return {name: part._factor(weight) for name, part in self._sums.items()}

    def _receive(self, payloads: Mapping[str, Any]) -> dict[str, Received]:
        """Decodes all payloads to the last byte, without a lock."""
        received = {}
        for name, part in self._sums.items():
            with _naming(name):
                received[name] = part._receive(payloads[name])
        return received

    def _bounds(
        self, received: Mapping[str, Received], factors: Mapping[str, NDArray[Any] | None], weight: float
    ) -> dict[str, float]:
        """The bounds of the sums after adding: after this nothing is refused."""
        bounds = {}
        for name, part in self._sums.items():
            _require_weights(self._weight + weight, part._dtype)
            with _naming(name):
                bounds[name] = part._bound_with(received[name], factors[name])
        return bounds

    def _keep_memory(self, received: Mapping[str, Received], payloads: Mapping[str, Any]) -> None:
        for name, part in self._sums.items():
            part._keep_memory(received[name], payloads[name])

    def _forms(self) -> dict[str, tuple[tuple[int, ...], np.dtype[Any]]]:
        return {name: part._form() for name, part in self._sums.items()}

    def _require_names(self, payloads: Mapping[str, Any]) -> None:
        require_mapping("what a client sent", "payloads", payloads)
        missing = [name for name in self._sums if name not in payloads]
        unknown = [name for name in payloads if name not in self._sums]
        if missing or unknown:
            what = [f"there is no payload of {missing}"] if missing else []
            what += [f"there are payloads of {unknown}, which the model does not have"] if unknown else []
            raise PayloadError("; ".join(what))


@contextlib.contextmanager
def _naming(name: str) -> Iterator[None]:
    """Lets an error name the tensor."""
    try:
        yield
    except (ArgumentError, PayloadError) as error:
        raise type(error)(f"tensor {name!r}: {error}") from error


def _dims(shape: Any) -> tuple[int, ...]:
    """The lengths of a shape: a number, or several in anything that holds numbers."""
    try:
        dims = tuple(map(operator.index, np.atleast_1d(shape).tolist()))
    except (TypeError, ValueError):
        dims = (-1,)
    if min(dims, default=0) < 0 or math.prod(dims) > wire.MAX_ELEMENTS:
        raise ArgumentError(
            f"a shape is {shape!r}; it must be whole numbers whose product is at most 2^31 - 1 elements"
        )
    return dims


def _counting(total: Sum | ModelSum, weight: float, count: int) -> list[Step]:
    """The steps that count what is added."""
    return [
        partial(setattr, total, "_weight", total._weight + weight),
        partial(setattr, total, "_count", total._count + count),
    ]


def _run(steps: Iterable[Step]) -> None:
    """Runs all steps or none: no signal handler can raise an exception between two of them.

    Python runs signal handlers between the bytecodes of Python functions only. Each step is a C function, and
    here C calls them.
    """
    with np.errstate(all="ignore"):  # a warning runs Python code
        deque(map(partial.__call__, list(steps)), maxlen=0)


def _dtype_of_sum(dtype: np.dtype[Any]) -> np.dtype[Any]:
    if ops.is_floating(dtype):
        return np.dtype(np.float32) if dtype.itemsize < 4 else dtype
    return np.dtype(np.float64)


def _largest_update(array: NDArray[Any]) -> float:
    """The largest magnitude that can be added to any finite element without an infinity."""
    if not ops.is_floating(array.dtype):
        return math.inf
    largest, _, eps = _range(array.dtype)
    finite = array if kernels.all_finite(array) else array[np.isfinite(array)]
    # An eighth of a unit in the last place changes not even the largest number.
    return max(largest - _magnitude(finite), largest * eps / 8)


def _magnitude(values: NDArray[Any]) -> float:
    """The largest magnitude; two reductions need no memory."""
    return max(float(values.max()), -float(values.min())) if values.size else 0.0


def _require_weights(total: float, dtype: np.dtype[Any]) -> None:
    if abs(total) > _range(dtype).largest:
        raise ConfigError(f"the weights add up to {total:.3g}, which is infinite in a sum of {dtype}")
