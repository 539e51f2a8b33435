"""Adds payloads as they arrive, of one array or of a model. Sparse payloads never become dense."""

from __future__ import annotations

import threading
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import DTypeLike, NDArray

import fedplug.kernels as kernels
import fedplug.ops as ops
from fedplug.codecs.accumulator import Accumulator, Received, Step, copied, magnitude_of, run
from fedplug.codecs.arrays import as_array, named_arrays, require_mapping
from fedplug.codecs.decoding import expected_of
from fedplug.codecs.wire_ids import WireIds
from fedplug.encoders.arguments import check_number
from fedplug.encoders.model.statistics import is_statistic
from fedplug.errors import ArgumentError, ConfigError, NonFiniteError, PayloadError
from fedplug.ops.device_array import DeviceArray, is_on_device
from fedplug.registry.component import plain
from fedplug.types import Values

_R = TypeVar("_R")

if TYPE_CHECKING:
    from typing import Self  # Python 3.11

__all__ = ["ModelSum", "Sum"]


class _WeightedSum:
    """The common part of both sums: weights, threads, and steps that run together or not at all."""

    def __init__(self, parts: Mapping[str | None, Accumulator]) -> None:
        self._parts = dict(parts)
        self._weight = 0.0
        self._count = 0
        self._lock = threading.Lock()

    def __getstate__(self) -> dict[str, object]:
        """Returns a copy of the sum at one moment, to pickle or copy it while other threads add."""
        with self._lock:
            parts = {name: part.copied(type(self).__name__) for name, part in self._parts.items()}
            return {**self.__dict__, "_parts": parts, "_lock": None}

    def __setstate__(self, state: dict[str, object]) -> None:
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
        factors: dict[str | None, NDArray[np.generic] | None] = dict.fromkeys(self._parts)
        if type(weight) is not float or weight != 1:
            weight = plain(weight)
            check_number("weight", weight, lambda number: number >= 0, "of at least 0 that is finite")
            if weight != 1:
                factors = {name: part.factor(weight) for name, part in self._parts.items()}
        received: dict[str | None, Received] = {}
        with _Naming() as at:
            for at.name, part in self._parts.items():
                received[at.name] = part.receive(payloads[at.name])
            with self._lock:
                counting, steps = self._counting(weight, 1), list[Step]()
                for at.name, part in self._parts.items():
                    steps += part.adding(received[at.name], factors[at.name])
                at.name = None
                if not only_check:
                    run([*steps, *counting])
        for name, (_, _, memory) in received.items():
            if memory is not None:
                self._parts[name].spare.append(memory)

    def _merge(self, other: _WeightedSum) -> None:
        first, second = sorted((self, other), key=id)  # two threads merging into each other cannot deadlock
        with first._lock, second._lock:
            counting, steps = self._counting(other._weight, other._count), list[Step]()
            for name, part in self._parts.items():
                steps += part.merging(other._parts[name])
            run([*steps, *counting])

    def _values(self, *, copy: bool = True) -> dict[Any, NDArray[np.generic]]:
        with self._lock:
            return {name: copied(part.total) if copy else part.total for name, part in self._parts.items()}

    def _forms(self) -> dict[str | None, str]:
        return {name: part.form() for name, part in self._parts.items()}

    def _counting(self, weight: float, count: int) -> list[Step]:
        """Returns the steps that count clients. Raises ConfigError if a dtype cannot hold all weights."""
        total = self._weight + weight
        for part in self._parts.values():
            if total > part.range.largest:
                raise ConfigError(
                    f"the weights add up to {total:.3g}, which is infinite in a sum of {part.dtype}"
                )
        return [
            partial(setattr, self, "_weight", total),
            partial(setattr, self, "_count", self._count + count),
        ]


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
        super().__init__({None: Accumulator(shape, dtype, wire_ids)})

    @classmethod
    def like(cls, array: object, *, wire_ids: WireIds = None) -> Sum:
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
        total._parts = {None: Accumulator.of(array, _magnitudes([array])[0], wire_ids)}
        return total

    def add(self, payload: object, weight: float = 1.0) -> None:
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

    def value(self) -> Values:
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
        parts: dict[str | None, Accumulator] = {}
        expected = expected_of(wire_ids, shapes)
        with _Naming() as at:
            for at.name, shape in shapes.items():
                parts[at.name] = Accumulator(shape, dtypes[at.name], expected[at.name], beside)
        super().__init__(parts)

    @classmethod
    def like(
        cls, arrays: Mapping[str, object], *, wire_ids: WireIds | Mapping[str, Container[str]] = None
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
        expected = expected_of(wire_ids, model)
        for (name, array), largest in zip(model.items(), _magnitudes(list(model.values())), strict=True):
            total._parts[name] = Accumulator.of(array, largest, expected[name], statistic=is_statistic(name))
        return total

    def add(self, payloads: Mapping[str, object], weight: float = 1.0) -> None:
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

    def check(self, payloads: Mapping[str, object], weight: float = 1.0) -> None:
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

    def value(self, *, copy: bool = True) -> dict[str, Values]:
        """Returns copies of the sums so far, by name; with ``copy=False`` the sums, which `add` changes."""
        return self._values(copy=copy)

    def mean(self, *, out: Mapping[str, NDArray[np.generic]] | None = None) -> dict[str, Values]:
        """Returns the sums divided by the sum of the weights, in their dtypes. See `like` for statistics.

        Args:
            out: Arrays on the host to write into, by name, for some or all means. All are checked before one
                is written.

        Raises:
            ArgumentError: The weights add up to zero, for example because nothing was added. Or an array of
                ``out`` has another shape or dtype than the mean, or is the sum itself.
            NonFiniteError: A mean is infinite, because rounding exceeds the range of the dtype. The message
                names the tensor. The contents of ``out`` are then undefined.
        """
        if self._weight == 0:
            raise ArgumentError(f"there is no mean of {self._count} updates whose weights add up to 0")
        places: Mapping[Any, NDArray[np.generic]] = {} if out is None else out
        require_mapping("out", "arrays", places)
        with _Naming() as at:
            for at.name, part in self._parts.items():
                if at.name in places:
                    part.require_place(places[at.name])
        with self._lock:
            means: dict[Any, Any] = {
                name: part.mean(self._weight, places.get(name)) for name, part in self._parts.items()
            }
        on_device: list[Any] = [array for array in means.values() if is_on_device(array)]
        if on_device:
            on_device[0].backend.divide(on_device, self._weight)
            for name, array in means.items():
                means[name] = ops.astype(array, self._parts[name].dtype_of_mean)
        for (name, array), finite in zip(means.items(), _are_finite(list(means.values())), strict=True):
            if not finite:
                raise NonFiniteError(
                    f"tensor {name!r}: the mean is not finite in {array.dtype}; the weights add up to "
                    f"{self._weight:.3g}"
                )
        return means

    def _require_names(self, payloads: Mapping[str, object]) -> None:
        if type(payloads) is dict and payloads.keys() == self._parts.keys():
            return
        require_mapping("what a client sent", "payloads", payloads)
        missing = [name for name in self._parts if name not in payloads]
        unknown = [name for name in payloads if name not in self._parts]
        if missing or unknown:
            what = [f"there is no payload of {missing}"] if missing else []
            what += [f"there are payloads of {unknown}, which the model does not have"] if unknown else []
            raise PayloadError("; ".join(what))


class _Naming:
    """Adds the tensor's name to an error. One object serves a loop over tensors, which sets the name."""

    name: object = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if self.name is not None and isinstance(error, ArgumentError | PayloadError):
            raise type(error)(f"tensor {self.name!r}: {error}") from error


def _magnitudes(arrays: Sequence[object]) -> list[float]:
    """Returns the largest finite magnitude of each array."""
    return _found(arrays, _finite_magnitude, lambda there: there[0].backend.largest_of_each(there))


def _are_finite(arrays: Sequence[object]) -> list[bool]:
    """Returns whether all elements of each array are finite."""
    return _found(arrays, kernels.all_finite, lambda there: there[0].backend.are_finite(there))


def _found(
    arrays: Sequence[Any],
    here: Callable[[NDArray[np.generic]], _R],
    there: Callable[[list[Any]], Iterable[_R]],
) -> list[_R]:
    """Returns ``here(array)`` of each array on the host. ``there`` is one call for all on a device."""
    held = [array for array in arrays if is_on_device(array)]
    found = iter(there(held) if held else ())
    return [next(found) if is_on_device(array) else here(array) for array in arrays]


def _finite_magnitude(array: NDArray[np.generic]) -> float:
    if not ops.is_floating(array.dtype) or kernels.all_finite(array):
        return magnitude_of(array)
    return magnitude_of(array[np.isfinite(array)])
