"""The sum of one array, and the steps of an addition, which run together or not at all."""

from __future__ import annotations

import copy
import functools
import math
import operator
from collections import deque
from collections.abc import Sequence
from functools import partial
from itertools import chain
from typing import Any, NamedTuple, TypeAlias

import ml_dtypes
import numpy as np
from numpy.typing import DTypeLike, NDArray

import fedplug.kernels as kernels
import fedplug.ops as ops
import fedplug.wire as wire
from fedplug.codecs.decoding import opened, read
from fedplug.codecs.wire_ids import WireIds
from fedplug.errors import ArgumentError, ConfigError, PayloadError
from fedplug.kernels.foreign import require_output
from fedplug.ops.device_array import DeviceArray, is_on_device, on_host
from fedplug.ops.types import PackedValues

__all__ = ["Accumulator", "AddOnDevice", "Received", "Step", "copied", "magnitude_of", "run"]

Received: TypeAlias = (
    "tuple[NDArray[np.generic] | PackedValues, NDArray[np.int32] | None, NDArray[np.generic] | None]"
)
"""The values of a payload, their indices unless all elements were sent, and memory to use again."""

_DTYPES = "a sum is of float32, float64, float16 or bfloat16"

_WIDER = {
    "float16": ("float32", "float64"),
    "bfloat16": ("float32", "float64"),
    "float32": ("float64",),
}
"""Wider accumulator dtypes allowed for payloads of each dtype. Widening is exact."""

_BLOCK = 2**15
"""Number of elements of a dense payload that are weighted at a time. They fit in the cache."""


class AddOnDevice(NamedTuple):
    """The addition of entries to an array on a device.

    Attributes:
        total: The array, float32 or float64.
        values: The numbers to add, of the dtype of ``total``: a NumPy array, or on the same device. Or their
            code, of ``total``'s dtype or a narrower one.
        indices: The strictly ascending indices of the values, which were checked. None: one for each element.
        factor: A factor of the values in the code. None: 1.
    """

    total: DeviceArray
    values: NDArray[np.generic] | DeviceArray | PackedValues
    indices: NDArray[np.int32] | None
    factor: NDArray[np.generic] | None = None


Step: TypeAlias = "partial[object] | AddOnDevice"


def run(steps: Sequence[Step]) -> None:
    """Runs all steps or none: no signal handler can raise an exception between two of them.

    Python runs signal handlers between the bytecodes of Python functions only. Each step is a C function, and
    here C calls them. All additions on a device are one kernel, which is queued first.

    Raises:
        Exception: The device or its memory refused the additions. The error of its backend.
    """
    additions: list[AddOnDevice] = []
    others: list[partial[object]] = []
    for step in steps:
        if isinstance(step, AddOnDevice):
            additions.append(step)
        else:
            others.append(step)
    backend = additions[0].total.backend if additions else None
    launches, sent = backend.prepared(additions) if backend else ([], None)
    statuses = map(partial.__call__, launches)
    with np.errstate(all="ignore"):  # a warning runs Python code
        try:
            # A status above 0 raises IndexError, in C.
            deque(chain(map((None,).__getitem__, statuses), map(partial.__call__, others)), maxlen=0)
        except IndexError:
            assert backend is not None  # only its launches have a status
            raise backend.refusal() from None
    del sent  # not before the kernel is queued


class _Range(NamedTuple):
    """The largest finite and the smallest normal number of a dtype, and its relative spacing."""

    largest: float
    least: float
    eps: float


@functools.cache
def _range(dtype: np.dtype[np.generic]) -> _Range:
    """Returns the range of a dtype. Raises ArgumentError if no sum has it."""
    if not ops.is_floating(dtype) or dtype.itemsize > 8:
        raise ArgumentError(f"{_DTYPES}, not of {dtype}")
    numbers = ml_dtypes.finfo(dtype)  # type: ignore[no-untyped-call]
    return _Range(float(numbers.max), float(numbers.tiny), float(numbers.eps))


class Accumulator:
    """The sum of one array: checks the addends, and returns the steps that add it.

    Attributes:
        shape: The shape of the array.
        dtype: The dtype of the sum.
        total: The sum so far, on the host or on a device.
        on_device: Whether it is on a device.
        range: The range of the dtype.
        dtype_of_mean: The dtype that a mean is rounded to.
        spare: Memory for the elements of the next payload.
    """

    total: Any

    def __init__(
        self, shape: object, dtype: DTypeLike, wire_ids: WireIds, like: DeviceArray | None = None
    ) -> None:
        """Makes zeros on the host, or on the device of ``like``."""
        self.shape = _dims(shape)
        try:
            self.dtype = np.dtype(dtype)
        except TypeError as error:
            raise ArgumentError(f"{_DTYPES}, not of {dtype!r}") from error
        self.range = _range(self.dtype)
        self.on_device = like is not None
        if like is None:
            self.total = kernels.empty(self.shape, self.dtype)  # the memory of an earlier round's sum
            self.total.fill(0)
        elif self.dtype.itemsize < 4:
            raise ArgumentError(f"a sum on a device is of float32 or float64, not of {self.dtype}")
        else:
            self.total = like.backend.zeros(self.shape, self.dtype, like)
        self.dtype_of_mean = self.dtype
        self._bound = 0.0  # for the magnitude of the elements
        self._limit = math.inf  # the largest magnitude of an element that may be added
        self._wire_ids = wire_ids
        self.spare: deque[NDArray[np.generic]] = deque(maxlen=1)

    @classmethod
    def of(cls, array: Any, largest: float, wire_ids: WireIds, *, statistic: bool = False) -> Accumulator:
        """Makes the sum for updates of an array, where the array is. ``largest`` is its largest magnitude."""
        dtype = np.dtype(np.float64)
        limit = math.inf
        if ops.is_floating(array.dtype):
            dtype = np.dtype(np.float32) if array.dtype.itemsize < 4 else array.dtype
            most, _, eps = _range(array.dtype)
            # An eighth of a unit in the last place does not change even the largest number.
            limit = max(most - largest, most * eps / 8)
        like = array if is_on_device(array) else None
        part = cls(array.shape, np.float64 if statistic else dtype, wire_ids, like)
        part._limit, part.dtype_of_mean = limit, dtype
        return part

    def copied(self, owner: str) -> Accumulator:
        """Returns a copy for a copy of its owner.

        Raises:
            ArgumentError: The sum is on a device.
        """
        if self.on_device:
            raise ArgumentError(
                f"a {owner} on a device cannot be pickled or copied; make another there and merge this one "
                "into it, or send what value() returns"
            )
        twin = copy.copy(self)
        twin.total, twin.spare = self.total.copy(), deque(maxlen=1)
        return twin

    def require_place(self, place: object) -> None:
        """Raises ArgumentError unless `mean` can write to an array."""
        if self.on_device:
            raise ArgumentError("the sum is on a device, and out is for sums on the host")
        require_output(place, self.shape, self.dtype_of_mean)
        if np.may_share_memory(self.total, place):
            raise ArgumentError("out shares memory with the sum")

    def mean(self, weight: float, place: NDArray[np.generic] | None) -> Any:
        """Returns the sum divided by a weight, at a checked place. On a device, returns a copy of the sum."""
        if self.on_device:
            return copied(self.total)
        if place is None:
            place = kernels.empty(self.shape, self.dtype_of_mean)
        divisor = np.asarray(weight, self.dtype)
        with np.errstate(all="ignore"):
            return np.divide(self.total, divisor, out=place, dtype=self.dtype, casting="same_kind")

    def form(self) -> str:
        """Returns the properties that two sums must share to be merged."""
        where = f" on device {self.total.device}" if self.on_device else ""
        return f"{self.dtype}{list(self.shape)}{where}"

    def factor(self, weight: float) -> NDArray[np.generic]:
        """Returns a checked weight in the dtype of the sum."""
        if abs(weight) > self.range.largest:
            raise ConfigError(f"weight is {weight!r}, which is infinite in a sum of {self.dtype}")
        if 0 < abs(weight) < self.range.least:
            raise ConfigError(
                f"weight is {weight!r}, too small for a sum of {self.dtype}; give all clients larger weights"
            )
        return np.asarray(weight, self.dtype)

    def receive(self, payload: object) -> Received:
        """Decodes a payload. Needs no lock, because it may take long."""
        plan, body = opened(payload, self._wire_ids)
        spec = plan.spec
        if spec.shape != self.shape:
            raise PayloadError(f"the payload is of shape {list(spec.shape)}; expected {list(self.shape)}")
        widened = spec.dtype == self.dtype or self.dtype.name in _WIDER.get(spec.dtype.name, ())
        if not widened and (self.dtype != np.float64 or spec.dtype.kind not in "iub"):
            raise PayloadError(
                f"the payload is of {spec.dtype}, and cannot be added to a sum of {self.dtype}"
            )
        try:
            place = self.spare.pop()
        except IndexError:  # the first payload, or another thread has the memory
            place = None
        values, indices = read(plan, body, place, packed=self.on_device)
        if isinstance(values, PackedValues) and values.largest > self._limit:
            values, indices = read(plan, body, place)  # `largest` may be a bound; the values may fit
        if indices is not None and values.nbytes + indices.nbytes > plan.array_bytes:
            values, indices = kernels.scatter_decode(values, indices, size=plan.size), None
        is_own = indices is None and isinstance(values, np.ndarray) and values.flags.carray
        return values, indices, values if is_own else place  # values within a payload are read-only

    def adding(self, received: Received, factor: NDArray[np.generic] | None) -> list[Step]:
        """Returns the steps that add a payload. Raises PayloadError if an element would become infinite."""
        values, indices, _ = received
        magnitude = magnitude_of(values)
        if magnitude > self._limit:
            raise PayloadError(
                f"it holds {magnitude:.3g}, and more than {self._limit:.3g} could make the model infinite"
            )
        if factor is not None:
            magnitude *= abs(float(factor))
        return self._steps(values, indices, factor, magnitude, PayloadError)

    def merging(self, other: Accumulator) -> list[Step]:
        """Returns the steps that add another sum. Raises ArgumentError if they would be infinite."""
        theirs = other.total if self.on_device else other.total.reshape(-1)
        return self._steps(theirs, None, None, other._bound, ArgumentError)

    def _steps(
        self,
        values: object,
        indices: NDArray[np.int32] | None,
        factor: NDArray[np.generic] | None,
        magnitude: float,
        error: type[ArgumentError | PayloadError],
    ) -> list[Step]:
        """Returns the steps that add entries of at most a magnitude.

        Adds to a copy first if values or rounding errors may have used up half of the dtype's range.
        """
        bound = (self._bound + magnitude) * (1 + 2 * self.range.eps)
        if bound > self.range.largest / 2:
            tried = copied(self.total)
            run(_adding(tried, values, indices, factor))
            tried = on_host(tried)
            if not kernels.all_finite(tried):
                raise error(f"the sum would be infinite in {self.dtype}")
            bound = magnitude_of(tried)
        return [*_adding(self.total, values, indices, factor), partial(setattr, self, "_bound", bound)]


def copied(total: Any) -> Any:
    """Returns a copy of a sum where it is."""
    return total.backend.copied(total) if is_on_device(total) else total.copy()


def _adding_on_device(
    total: DeviceArray, values: Any, indices: NDArray[np.int32] | None, factor: NDArray[np.generic] | None
) -> list[Step]:
    """Returns the step that adds a payload to an array on a device. The host rounds the products."""
    if isinstance(values, PackedValues):
        return [AddOnDevice(total, values, None, factor)]
    if indices is not None and indices.size:
        ascending = bool((indices[1:] > indices[:-1]).all())
        if not ascending or indices[0] < 0 or indices[-1] >= total.size:
            raise PayloadError(f"the indices of the payload do not ascend in [0, {total.size})")
    if factor is None:
        if isinstance(values, np.ndarray):
            values = values.astype(total.dtype, copy=False)
        return [AddOnDevice(total, values, indices)]
    with np.errstate(all="ignore"):  # the bound finds what is not finite
        return [AddOnDevice(total, np.multiply(values, factor, dtype=total.dtype), indices)]


def _adding(
    total: Any, values: Any, indices: NDArray[np.int32] | None, factor: NDArray[np.generic] | None
) -> list[Step]:
    """Returns the steps that add a payload to an array. Each product and each sum is rounded once."""
    if isinstance(total, DeviceArray):
        return _adding_on_device(total, values, indices, factor)
    dtype = total.dtype
    if indices is not None:
        weights = None if factor is None else factor.reshape(1)
        values = values.astype(dtype, copy=False)
        return [partial(kernels.scatter_decode_add, total, values, indices, None, weights)]
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


def _dims(shape: Any) -> tuple[int, ...]:
    """Returns the dimensions of a shape: a number, or anything that holds numbers."""
    try:
        numbers = shape if isinstance(shape, tuple) else np.atleast_1d(shape).tolist()
        dims = tuple(map(operator.index, numbers))
    except (TypeError, ValueError):
        dims = (-1,)
    if min(dims, default=0) < 0 or math.prod(dims) > wire.MAX_ELEMENTS:
        raise ArgumentError(
            f"a shape is {shape!r}; it must be whole numbers whose product is at most 2^31 - 1 elements"
        )
    return dims


def magnitude_of(values: NDArray[np.generic] | PackedValues) -> float:
    """Returns the largest magnitude. Two reductions need no memory."""
    if isinstance(values, PackedValues):
        return values.largest
    if not values.size:
        return 0.0
    if values.dtype.itemsize == 2 and ops.is_floating(values.dtype):
        # Magnitudes are in the order of their bits, which NumPy compares a hundred times faster.
        return float((values.view(np.uint16) & 0x7FFF).max().astype(np.uint16).view(values.dtype))
    return max(float(np.maximum.reduce(values, None)), -float(np.minimum.reduce(values, None)))
