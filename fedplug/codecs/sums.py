"""Adds payloads up as they arrive; sparse ones never become dense."""

from __future__ import annotations

import operator
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from fedplug import kernels, ops
from fedplug.codecs.reading import receive
from fedplug.encoders.arguments import check_number
from fedplug.errors import ArgumentError, ConfigError, PayloadError

__all__ = ["Sum"]

_WIDER = {
    "float16": ("float32", "float64"),
    "bfloat16": ("float32", "float64"),
    "float32": ("float64",),
}
"""Into which sums payloads of a dtype may go, beside those of their own: every number is exact there."""


_BLOCK = 2**15
"""Elements of a dense payload that are weighted at a time: they stay in the cache."""


class Sum:
    """``sum_i weight_i * decode(payload_i)``, in the order in which payloads are added.

    Every product and every sum is rounded once, in the dtype of the sum, so that equal payloads in an equal
    order give equal bits, whatever the threads and the SIMD level. Another order differs by rounding, as does
    adding up in parts that are then merged; where all products and sums are exact, nothing differs. A sparse
    payload costs its entries, not the size of the sum; payloads of other encoders are decoded into memory
    that is kept for the next.

    Any number of threads may add; each payload is added whole, or not at all.
    """

    def __init__(self, shape: Sequence[int] | int, dtype: DTypeLike = np.float32) -> None:
        """Zeros.

        Args:
            shape: Of the arrays that were encoded.
            dtype: float32, float64, float16 or bfloat16. Payloads of a narrower dtype are widened, exactly.

        Raises:
            ArgumentError: ``dtype`` is none of these.
        """
        dims = shape if isinstance(shape, Sequence) else (shape,)
        self._shape = tuple(operator.index(dim) for dim in dims)
        self._dtype = np.dtype(dtype)
        if not ops.is_floating(self._dtype) or self._dtype.itemsize > 8:
            raise ArgumentError(f"a sum is of float32, float64, float16 or bfloat16, not of {self._dtype}")
        self._total = np.zeros(self._shape, self._dtype)
        self._scratch: NDArray[Any] | None = None
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
            PayloadError: As for `fedplug.decode`, or it is of another shape or dtype. Nothing is added.
            ConfigError: ``weight`` is no finite number.
        """
        check_number("weight", weight, lambda number: True, "")
        with np.errstate(over="ignore"):
            factor = np.asarray(weight, self._dtype)
        if not np.isfinite(factor):
            raise ConfigError(f"weight is {weight!r}, which is infinite in a sum of {self._dtype}")
        with self._lock:
            with ops.results_in(self._scratch):
                received = receive(payload, shape=self._shape)
            self._require_dtype(received.spec.dtype)
            if received.indices is None:
                self._add_dense(received.values, factor)
                self._keep_scratch(received.values, payload)
            else:
                self._add_sparse(received.values, received.indices, factor)
            self._weight += weight
            self._count += 1

    def merge(self, other: Sum) -> None:
        """Adds another sum of the same shape and dtype, element by element.

        Raises:
            ArgumentError: It is no such sum, or this one.
        """
        if not isinstance(other, Sum) or other is self:
            raise ArgumentError("merge takes another Sum")
        if (other._shape, other._dtype) != (self._shape, self._dtype):
            raise ArgumentError(
                f"the other sum is {other._dtype}{list(other._shape)}, this one is "
                f"{self._dtype}{list(self._shape)}"
            )
        first, second = sorted((self, other), key=id)  # two threads that merge each other into each other end
        with first._lock, second._lock:
            np.add(self._total, other._total, out=self._total)
            self._weight += other._weight
            self._count += other._count

    def value(self) -> NDArray[Any]:
        """The sum so far; a copy."""
        with self._lock:
            return self._total.copy()

    def _require_dtype(self, dtype: np.dtype[Any]) -> None:
        if dtype != self._dtype and self._dtype.name not in _WIDER.get(dtype.name, ()):
            raise PayloadError(f"the payload is of {dtype}, and cannot be added to a sum of {self._dtype}")

    def _add_sparse(self, values: NDArray[Any], indices: NDArray[np.int32], weight: NDArray[Any]) -> None:
        values = values.astype(self._dtype, copy=False)
        splits = np.array([0, values.size], np.int64)
        weights = None if weight == 1 else weight.reshape(1)
        kernels.scatter_decode_add(self._total, values, indices, splits, weights)

    def _add_dense(self, values: NDArray[Any], weight: NDArray[Any]) -> None:
        total = self._total.reshape(-1)
        if weight == 1:
            np.add(total, values, out=total, dtype=self._dtype)
        else:
            product = np.empty(min(values.size, _BLOCK), self._dtype)
            for begin in range(0, values.size, _BLOCK):
                block = values[begin : begin + _BLOCK]
                # With the dtype: NumPy 1 takes a scalar's for no reason to leave that of the values.
                weighted = np.multiply(block, weight, out=product[: block.size], dtype=self._dtype)
                part = total[begin : begin + _BLOCK]
                np.add(part, weighted, out=part)

    def _keep_scratch(self, values: NDArray[Any], payload: Any) -> None:
        """Memory for what the next payload is decoded into, unless this one was read where it lies."""
        if self._scratch is not None and np.may_share_memory(values, self._scratch):
            return
        if not np.may_share_memory(values, np.frombuffer(payload, np.uint8)):
            self._scratch = np.empty(values.size, values.dtype)
