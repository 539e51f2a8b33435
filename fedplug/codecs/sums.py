"""Adds payloads as they arrive, of one array or of a model. Sparse payloads never become dense."""

from __future__ import annotations

import copy
import functools
import math
import operator
import threading
from collections import deque
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import ml_dtypes
import numpy as np
from numpy.typing import DTypeLike, NDArray

import fedplug._kernels as _kernels
import fedplug.kernels as kernels
import fedplug.ops as ops
import fedplug.wire as wire
from fedplug.codecs.arrays import as_array, named_arrays, require_mapping
from fedplug.codecs.decoding import Received, expected_of, receive
from fedplug.codecs.steps import AddOnDevice, Step, run
from fedplug.codecs.wire_ids import WireIds
from fedplug.encoders.arguments import check_number
from fedplug.encoders.model.statistics import is_statistic
from fedplug.errors import ArgumentError, ConfigError, NonFiniteError, PayloadError
from fedplug.ops.device_array import DeviceArray, is_on_device, on_host
from fedplug.ops.types import PackedValues
from fedplug.registry.component import plain

_R = TypeVar("_R")

if TYPE_CHECKING:
    from typing import Self  # Python 3.11

__all__ = ["ModelSum", "Sum"]

_DTYPES = "a sum is of float32, float64, float16 or bfloat16"

_WIDER = {
    "float16": ("float32", "float64"),
    "bfloat16": ("float32", "float64"),
    "float32": ("float64",),
}
"""Wider accumulator dtypes allowed for payloads of each dtype. Widening is exact."""

_BLOCK = 2**15
"""Number of elements of a dense payload that are weighted at a time. They fit in the cache."""


class _Range(NamedTuple):
    """The largest finite and the smallest normal number of a dtype, and its relative spacing."""

    largest: float
    least: float
    eps: float


@functools.cache
def _range(dtype: np.dtype[Any]) -> _Range:
    numbers = ml_dtypes.finfo(dtype)  # type: ignore[no-untyped-call]
    return _Range(float(numbers.max), float(numbers.tiny), float(numbers.eps))


class _Accumulator:
    """The sum of one array: checks the addends, and returns the steps that add it.

    Attributes:
        shape: The shape of the array.
        dtype: The dtype of the sum.
        total: The sum so far.
        bound: A bound for the magnitude of its elements.
        limit: The largest magnitude of an element that may be added.
        dtype_of_mean: The dtype that a mean is rounded to.
    """

    def __init__(self, shape: Any, dtype: Any, wire_ids: WireIds, like: DeviceArray | None = None) -> None:
        """Makes zeros on the host, or on the device of ``like``."""
        self.shape = _dims(shape)
        try:
            self.dtype = np.dtype(dtype)
        except TypeError as error:
            raise ArgumentError(f"{_DTYPES}, not of {dtype!r}") from error
        if not ops.is_floating(self.dtype) or self.dtype.itemsize > 8:
            raise ArgumentError(f"{_DTYPES}, not of {self.dtype}")
        if like is not None and self.dtype.itemsize < 4:
            raise ArgumentError(f"a sum on a device is of float32 or float64, not of {self.dtype}")
        self.total: Any = (
            np.zeros(self.shape, self.dtype)
            if like is None
            else like.backend.zeros(self.shape, self.dtype, like)
        )
        self.bound = 0.0
        self.limit = math.inf
        self.dtype_of_mean = self.dtype
        self._wire_ids = wire_ids
        self._spare: deque[NDArray[Any]] = deque(maxlen=1)

    @classmethod
    def of(cls, array: Any, largest: float, wire_ids: WireIds, *, statistic: bool = False) -> _Accumulator:
        """Makes the sum for updates of an array, where the array is. ``largest`` is its largest magnitude."""
        dtype = _dtype_of_sum(array.dtype)
        like = array if is_on_device(array) else None
        part = cls(array.shape, np.float64 if statistic else dtype, wire_ids, like)
        part.limit, part.dtype_of_mean = _largest_update(array.dtype, largest), dtype
        return part

    def copied(self, owner: str) -> _Accumulator:
        """Returns a copy for a copy of its owner.

        Raises:
            ArgumentError: The sum is on a device.
        """
        if is_on_device(self.total):
            raise ArgumentError(
                f"a {owner} on a device cannot be pickled or copied; make another there and merge this one "
                "into it, or send what value() returns"
            )
        copied = copy.copy(self)
        copied.total, copied._spare = self.total.copy(), deque(maxlen=1)
        return copied

    def form(self) -> str:
        """Returns the properties that two sums must share to be merged."""
        where = f" on device {self.total.device}" if is_on_device(self.total) else ""
        return f"{self.dtype}{list(self.shape)}{where}"

    def factor(self, weight: float) -> NDArray[Any] | None:
        """Returns the factor of the values. None for the weight 1."""
        check_number("weight", weight, lambda number: number >= 0, "of at least 0 that is finite")
        if abs(weight) > _range(self.dtype).largest:
            raise ConfigError(f"weight is {weight!r}, which is infinite in a sum of {self.dtype}")
        if 0 < abs(weight) < _range(self.dtype).least:
            raise ConfigError(
                f"weight is {weight!r}, too small for a sum of {self.dtype}; give all clients larger weights"
            )
        return None if weight == 1 else np.asarray(weight, self.dtype)

    def receive(self, payload: Any) -> Received:
        """Decodes a payload. Needs no lock, because it may take long."""
        try:
            place = self._spare.pop()
        except IndexError:  # the first payload, or another thread has the memory
            place = None
        read = partial(receive, payload, shape=self.shape, place=place, wire_ids=self._wire_ids)
        received = read(packed=is_on_device(self.total))
        if isinstance(received.values, PackedValues) and received.values.largest > self.limit:
            received = read()  # `largest` may be a bound; the values may fit
        values = received.values
        if place is not None and (isinstance(values, PackedValues) or not np.may_share_memory(values, place)):
            self._spare.append(place)
        dtype = received.spec.dtype
        widened = dtype == self.dtype or self.dtype.name in _WIDER.get(dtype.name, ())
        if not widened and (self.dtype != np.float64 or dtype.kind not in "iub"):
            raise PayloadError(f"the payload is of {dtype}, and cannot be added to a sum of {self.dtype}")
        return received

    def keep_memory(self, received: Received, payload: Any) -> None:
        """Keeps the memory of a decoded payload for the next one."""
        values = received.values
        if isinstance(values, PackedValues):
            return
        dense = received.indices is None and values.flags.writeable and values.flags.c_contiguous
        if dense and not np.may_share_memory(values, np.frombuffer(payload, np.uint8)):
            self._spare.append(values)

    def adding(self, received: Received, factor: NDArray[Any] | None) -> list[Step]:
        """Returns the steps that add a payload. Raises PayloadError if an element would become infinite."""
        magnitude = _magnitude(received.values)
        if magnitude > self.limit:
            raise PayloadError(
                f"it holds {magnitude:.3g}, and more than {self.limit:.3g} could make the model infinite"
            )
        if factor is not None:
            magnitude *= abs(float(factor))
        return self._bounded(magnitude, lambda total: _adding(total, received, factor), PayloadError)

    def merging(self, other: _Accumulator) -> list[Step]:
        """Returns the steps that add another sum. Raises ArgumentError if they would be infinite."""
        if is_on_device(self.total):
            return self._bounded(
                other.bound, lambda total: [AddOnDevice(total, other.total, None)], ArgumentError
            )
        return self._bounded(
            other.bound, lambda total: [partial(np.add, total, other.total, out=total)], ArgumentError
        )

    def _bounded(
        self,
        magnitude: float,
        adding: Callable[[Any], list[Step]],
        error: type[ArgumentError | PayloadError],
    ) -> list[Step]:
        """Adds to a copy only if values or rounding errors may have used up half of the dtype's range."""
        bound = (self.bound + magnitude) * (1 + 2 * _range(self.dtype).eps)
        if bound > _range(self.dtype).largest / 2:
            tried = _copied(self.total)
            run(adding(tried))
            tried = on_host(tried)
            if not kernels.all_finite(tried):
                raise error(f"the sum would be infinite in {self.dtype}")
            bound = _magnitude(tried)
        return [*adding(self.total), partial(setattr, self, "bound", bound)]


def _copied(total: Any) -> Any:
    return total.backend.copied(total) if is_on_device(total) else total.copy()


def _adding_on_device(total: DeviceArray, received: Received, factor: NDArray[Any] | None) -> list[Step]:
    """Returns the step that adds a payload to an array on a device. The host rounds the products."""
    _, values, indices = received
    if isinstance(values, PackedValues):
        return [AddOnDevice(total, values, None, factor)]
    if indices is not None and indices.size:
        ascending = bool((indices[1:] > indices[:-1]).all())
        if not ascending or indices[0] < 0 or indices[-1] >= total.size:
            raise PayloadError(f"the indices of the payload do not ascend in [0, {total.size})")
    if factor is None:
        return [AddOnDevice(total, values.astype(total.dtype, copy=False), indices)]
    with np.errstate(all="ignore"):  # the bound finds what is not finite
        return [AddOnDevice(total, np.multiply(values, factor, dtype=total.dtype), indices)]


def _adding(total: Any, received: Received, factor: NDArray[Any] | None) -> list[Step]:
    """Returns the steps that add a payload to an array. Each product and each sum is rounded once."""
    if is_on_device(total):
        return _adding_on_device(total, received, factor)
    _, values, indices = received
    assert isinstance(values, np.ndarray)  # codes are for sums on a device
    dtype = total.dtype
    if indices is not None:
        weights = None if factor is None else factor.reshape(1)
        values = values.astype(dtype, copy=False)
        return [partial(_kernels.scatter_decode_add, total, values, indices, None, weights)]
    total = total.reshape(-1)
    if factor is None:
        return [partial(np.add, total, values, out=total, dtype=dtype)]
    product = np.empty(min(values.size, _BLOCK), dtype)
    steps: list[Step] = []
    for begin in range(0, values.size, _BLOCK):
        block = values[begin : begin + _BLOCK]
        weighted, part = product[: block.size], total[begin : begin + _BLOCK]
        # The dtype is given because NumPy 1 would take that of the scalar.
        steps.append(partial(np.multiply, block, factor, out=weighted, dtype=dtype))
        steps.append(partial(np.add, part, weighted, out=part))
    return steps


class _WeightedSum:
    """The common part of both sums: weights, threads, and steps that run together or not at all."""

    def __init__(self, parts: Mapping[str | None, _Accumulator]) -> None:
        self._parts = dict(parts)
        self._weight = 0.0
        self._count = 0
        self._lock = threading.Lock()

    def __getstate__(self) -> dict[str, Any]:
        """Returns a copy of the sum at one moment, to pickle or copy it while other threads add."""
        with self._lock:
            parts = {name: part.copied(type(self).__name__) for name, part in self._parts.items()}
            return {**self.__dict__, "_parts": parts, "_lock": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _lock=threading.Lock())

    def __repr__(self) -> str:
        forms = [part.form() for part in self._parts.values()]
        what = forms[0] if list(self._parts) == [None] else f"{len(forms)} arrays"
        return f"{type(self).__name__}({what}, weight={self._weight:g})"

    @property
    def weight(self) -> float:
        """The sum of the weights: ``value() / weight`` is the weighted mean."""
        return self._weight

    @property
    def count(self) -> int:
        """The number of clients added."""
        return self._count

    def _add(self, payloads: Mapping[Any, Any], weight: float, *, only_check: bool = False) -> None:
        weight = plain(weight)
        factors = {name: part.factor(weight) for name, part in self._parts.items()}
        received: dict[str | None, Received] = {}
        with _Naming() as at:
            for at.name, part in self._parts.items():
                received[at.name] = part.receive(payloads[at.name])
        with self._lock:
            self._require_weights(self._weight + weight)
            steps: list[Step] = []
            with _Naming() as at:
                for at.name, part in self._parts.items():
                    steps += part.adding(received[at.name], factors[at.name])
            if not only_check:
                run([*steps, *self._counting(weight, 1)])
        for name, part in self._parts.items():
            part.keep_memory(received[name], payloads[name])

    def _merge(self, other: _WeightedSum) -> None:
        first, second = sorted((self, other), key=id)  # two threads merging into each other cannot deadlock
        with first._lock, second._lock:
            self._require_weights(self._weight + other._weight)
            steps: list[Step] = []
            for name, part in self._parts.items():
                steps += part.merging(other._parts[name])
            run([*steps, *self._counting(other._weight, other._count)])

    def _values(self, *, copy: bool = True) -> dict[Any, NDArray[Any]]:
        with self._lock:
            return {name: _copied(part.total) if copy else part.total for name, part in self._parts.items()}

    def _forms(self) -> dict[str | None, str]:
        return {name: part.form() for name, part in self._parts.items()}

    def _counting(self, weight: float, count: int) -> list[Step]:
        return [
            partial(setattr, self, "_weight", self._weight + weight),
            partial(setattr, self, "_count", self._count + count),
        ]

    def _require_weights(self, total: float) -> None:
        for part in self._parts.values():
            if abs(total) > _range(part.dtype).largest:
                raise ConfigError(
                    f"the weights add up to {total:.3g}, which is infinite in a sum of {part.dtype}"
                )


class Sum(_WeightedSum):
    """Adds payloads of one array: ``sum_i weight_i * decode(payload_i)``, in the order in which they arrive.

    >>> import fedplug, numpy as np
    >>> codec, total = fedplug.codec("topk(count=1)"), fedplug.Sum(3)
    >>> for update in ([1, 5, 2], [4, 0, 1]):
    ...     payload, _ = codec.encode(np.float32(update))
    ...     total.add(payload, weight=2)
    >>> total.value() / total.weight
    array([2. , 2.5, 0. ], dtype=float32)

    Every product and every sum is rounded once, in the dtype of the sum. So equal payloads in an equal order
    give equal bits, for any number of threads and any SIMD level. Another order differs by rounding, and so
    does adding parts that are then merged. Nothing differs if all products and sums are exact. A sparse
    payload costs its entries, not the size of the sum. Other payloads are decoded into memory that is reused.

    The sum is always finite: a payload that would make it infinite is refused. Any number of threads may add
    at the same time. Each payload is added whole or not at all, even if a signal handler raises an exception.
    A sum can be pickled, sent to another process, and merged there.
    """

    def __init__(
        self, shape: Sequence[int] | int, dtype: DTypeLike = np.float32, *, wire_ids: WireIds = None
    ) -> None:
        """Makes a sum of zeros.

        Args:
            shape: The shape of the arrays that were encoded.
            dtype: The dtype of the sum: float32, float64, float16 or bfloat16. Payloads of a narrower dtype
                are widened, which is exact. A sum of float64 also accepts integers. Those of 64 bits are
                rounded.
            wire_ids: The wire ids of payloads to accept, as for `fedplug.decode`. None: of any encoder.

        Raises:
            ArgumentError: ``dtype`` is none of these, or ``shape`` is not the shape of an array that can be
                encoded.
        """
        super().__init__({None: _Accumulator(shape, dtype, wire_ids)})

    @classmethod
    def like(cls, array: Any, *, wire_ids: WireIds = None) -> Sum:
        """Makes a sum for the updates of an array: of 16-bit floats in float32, of integers in float64.

        For an array on a CUDA device the sum is there too, see docs/gpu.md. `add` also refuses an update that
        could make an entry of the array infinite in its own dtype.

        Args:
            array: Any array that a codec accepts.
            wire_ids: The expected wire ids, as for `Sum`.

        Raises:
            ArgumentError: The array cannot be encoded.
        """
        total = cls(0, wire_ids=wire_ids)
        array = as_array(array)
        total._parts = {None: _Accumulator.of(array, _magnitudes([array])[0], wire_ids)}
        return total

    def add(self, payload: Any, weight: float = 1.0) -> None:
        """Adds ``weight * decode(payload)``.

        Args:
            payload: The untrusted payload of an array of this shape, and of this dtype or a narrower one.
            weight: A finite number of at least 0. With 0 the payload is checked, and nothing changes but
                `count`.

        Raises:
            PayloadError: The payload is refused, see `fedplug.decode`, or it has another shape or dtype,
                or would make the sum infinite. Nothing is added.
            ConfigError: ``weight`` is not a finite number of at least 0, or the sum's dtype cannot hold it or
                the sum of all weights. Nothing is added.
        """
        self._add({None: payload}, weight)

    def merge(self, other: Sum) -> None:
        """Adds another sum of the same shape and dtype.

        Raises:
            ArgumentError: ``other`` is not such a sum, or is this sum, or the sum of both would be infinite.
            ConfigError: The sum of all weights would be infinite.
        """
        if not isinstance(other, Sum) or other is self:
            raise ArgumentError("merge takes another Sum")
        theirs, ours = other._forms()[None], self._forms()[None]
        if theirs != ours:
            raise ArgumentError(f"the other sum is {theirs}, this one is {ours}")
        self._merge(other)

    def value(self) -> NDArray[Any]:
        """Returns a copy of the sum so far."""
        return self._values()[None]


class ModelSum(_WeightedSum):
    """Adds the payloads of a model: a `Sum` for each array, and each client whole or not at all.

    >>> import fedplug, numpy as np
    >>> model = {"bias": np.zeros(2, np.float32)}
    >>> total = fedplug.ModelSum.like(model)
    >>> payloads, _ = fedplug.codec("identity").encode_model({"bias": np.float32([1, 3])})
    >>> total.add(payloads, weight=10)
    >>> total.mean()
    {'bias': array([1., 3.], dtype=float32)}
    """

    def __init__(
        self,
        shapes: Mapping[str, Sequence[int] | int],
        dtype: DTypeLike | Mapping[str, DTypeLike] = np.float32,
        *,
        wire_ids: WireIds | Mapping[str, Container[str]] = None,
        beside: DeviceArray | None = None,
    ) -> None:
        """Makes sums of zeros.

        Args:
            shapes: The shapes of the arrays that were encoded, by name.
            dtype: The dtype of all sums, or their dtypes by name; as for `Sum`.
            wire_ids: The expected wire ids as for `Sum`: for all arrays, or by name, as `Codec.wire_ids`
                returns them.
            beside: An array on the CUDA device that has the sums, see docs/gpu.md. None: the host has them.

        Raises:
            ArgumentError: A dtype is not allowed for sums, or the dtype or wire ids of a name are missing.
        """
        require_mapping("a model", "shapes", shapes)
        dtypes: Mapping[str, Any] = dtype if isinstance(dtype, Mapping) else dict.fromkeys(shapes, dtype)
        if dtypes.keys() != shapes.keys():
            raise ArgumentError(f"shapes are of {sorted(shapes)}, dtypes of {sorted(dtypes)}")
        parts: dict[str | None, _Accumulator] = {}
        with _Naming() as at:
            for name, shape in shapes.items():
                at.name = name
                parts[name] = _Accumulator(shape, dtypes[name], expected_of(wire_ids, name), beside)
        super().__init__(parts)

    @classmethod
    def like(
        cls, arrays: Mapping[str, Any], *, wire_ids: WireIds | Mapping[str, Container[str]] = None
    ) -> ModelSum:
        """Makes sums for the updates of a model: of 16-bit floats in float32, of integers in float64.

        Statistics are added in float64, and `mean` rounds their mean once, so a variance plus the mean of
        differences of variances is not negative. `add` also refuses an update that could make an entry of the
        model infinite in its own dtype. The sum of an array on a CUDA device is there too, see docs/gpu.md.

        Args:
            arrays: The model by name: any arrays that a codec accepts.
            wire_ids: The expected wire ids, as for `ModelSum`.

        Raises:
            ArgumentError: An array cannot be encoded, or its wire ids are missing.
        """
        total = cls({})
        model = named_arrays(arrays)
        for (name, array), largest in zip(model.items(), _magnitudes(list(model.values())), strict=True):
            with _Naming() as at:
                at.name = name
                expected = expected_of(wire_ids, name)
            total._parts[name] = _Accumulator.of(array, largest, expected, statistic=is_statistic(name))
        return total

    def add(self, payloads: Mapping[str, Any], weight: float = 1.0) -> None:
        """Adds ``weight * decode_model(payloads)``.

        Args:
            payloads: The untrusted payloads of one client: one for each array, by name.
            weight: A finite number of at least 0, such as the client's number of examples. With 0 the
                payloads are checked, and nothing changes but `count`.

        Raises:
            PayloadError: A payload is missing, unknown, or refused by `Sum.add`. The message names the
                tensor. Nothing is added.
            ArgumentError: A payload is not a buffer. Nothing is added.
            ConfigError: `Sum.add` refuses ``weight``. Nothing is added.
        """
        self._require_names(payloads)
        self._add(payloads, weight)

    def check(self, payloads: Mapping[str, Any], weight: float = 1.0) -> None:
        """Raises the errors of `add`, and adds nothing."""
        self._require_names(payloads)
        self._add(payloads, weight, only_check=True)

    def merge(self, other: ModelSum) -> None:
        """Adds another sum of the same names, shapes and dtypes.

        Raises:
            ArgumentError: ``other`` is not such a sum, or is this sum, or the sum of both would be infinite.
            ConfigError: The sum of all weights would be infinite.
        """
        if not isinstance(other, ModelSum) or other is self:
            raise ArgumentError("merge takes another ModelSum")
        if self._forms() != other._forms():
            raise ArgumentError("the other sum is of arrays of other names, shapes or dtypes")
        self._merge(other)

    def value(self, *, copy: bool = True) -> dict[str, NDArray[Any]]:
        """Returns copies of the sums so far, by name; with ``copy=False`` the sums, which `add` changes."""
        return self._values(copy=copy)

    def mean(self) -> dict[str, NDArray[Any]]:
        """Returns the sums divided by the sum of the weights, in their dtypes. See `like` for statistics.

        Raises:
            ArgumentError: The weights add up to zero, for example because nothing was added.
            NonFiniteError: A mean is infinite, because rounding exceeds the range of the dtype. The message
                names the tensor.
        """
        if self._weight == 0:
            raise ArgumentError(f"there is no mean of {self._count} updates whose weights add up to 0")
        means = self.value()
        on_device: list[Any] = [array for array in means.values() if is_on_device(array)]
        if on_device:
            on_device[0].backend.divide(on_device, self._weight)
        for name, array in means.items():
            with np.errstate(all="ignore"):
                if not is_on_device(array):
                    np.divide(array, np.asarray(self._weight, array.dtype), out=array)
                means[name] = ops.astype(array, self._parts[name].dtype_of_mean)
        for (name, array), finite in zip(means.items(), _are_finite(list(means.values())), strict=True):
            if not finite:
                raise NonFiniteError(
                    f"tensor {name!r}: the mean is not finite in {array.dtype}; the weights add up to "
                    f"{self._weight:.3g}"
                )
        return means

    def _require_names(self, payloads: Mapping[str, Any]) -> None:
        require_mapping("what a client sent", "payloads", payloads)
        missing = [name for name in self._parts if name not in payloads]
        unknown = [name for name in payloads if name not in self._parts]
        if missing or unknown:
            what = [f"there is no payload of {missing}"] if missing else []
            what += [f"there are payloads of {unknown}, which the model does not have"] if unknown else []
            raise PayloadError("; ".join(what))


class _Naming:
    """Adds the tensor's name to an error. One object serves a loop over tensors, which sets the name."""

    name: str | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if self.name is not None and isinstance(error, ArgumentError | PayloadError):
            raise type(error)(f"tensor {self.name!r}: {error}") from error


def _dims(shape: Any) -> tuple[int, ...]:
    """Returns the dimensions of a shape: a number, or anything that holds numbers."""
    try:
        dims = tuple(map(operator.index, np.atleast_1d(shape).tolist()))
    except (TypeError, ValueError):
        dims = (-1,)
    if min(dims, default=0) < 0 or math.prod(dims) > wire.MAX_ELEMENTS:
        raise ArgumentError(
            f"a shape is {shape!r}; it must be whole numbers whose product is at most 2^31 - 1 elements"
        )
    return dims


def _dtype_of_sum(dtype: np.dtype[Any]) -> np.dtype[Any]:
    if ops.is_floating(dtype):
        return np.dtype(np.float32) if dtype.itemsize < 4 else dtype
    return np.dtype(np.float64)


def _largest_update(dtype: np.dtype[Any], magnitude: float) -> float:
    """Returns the largest number that can be added to numbers of a magnitude without an infinity."""
    if not ops.is_floating(dtype):
        return math.inf
    largest, _, eps = _range(dtype)
    # An eighth of a unit in the last place does not change even the largest number.
    return max(largest - magnitude, largest * eps / 8)


def _magnitudes(arrays: Sequence[Any]) -> list[float]:
    """Returns the largest finite magnitude of each array."""
    return _found(arrays, _finite_magnitude, lambda there: there[0].backend.largest_of_each(there))


def _are_finite(arrays: Sequence[Any]) -> list[bool]:
    """Returns whether all elements of each array are finite."""
    return _found(arrays, kernels.all_finite, lambda there: there[0].backend.are_finite(there))


def _found(
    arrays: Sequence[Any], here: Callable[[NDArray[Any]], _R], there: Callable[[list[Any]], Iterable[_R]]
) -> list[_R]:
    """Returns ``here(array)`` of each array on the host. ``there`` is one call for all on a device."""
    held = [array for array in arrays if is_on_device(array)]
    found = iter(there(held) if held else ())
    return [next(found) if is_on_device(array) else here(array) for array in arrays]


def _finite_magnitude(array: NDArray[Any]) -> float:
    if not ops.is_floating(array.dtype) or kernels.all_finite(array):
        return _magnitude(array)
    return _magnitude(array[np.isfinite(array)])


def _magnitude(values: NDArray[Any] | PackedValues) -> float:
    """Returns the largest magnitude. Two reductions need no memory."""
    if isinstance(values, PackedValues):
        return values.largest
    if values.size and values.dtype.itemsize == 2 and ops.is_floating(values.dtype):
        # Magnitudes are in the order of their bits, which NumPy compares a hundred times faster.
        return float((values.view(np.uint16) & 0x7FFF).max().astype(np.uint16).view(values.dtype))
    return max(float(values.max()), -float(values.min())) if values.size else 0.0
