"""Adds payloads up as they arrive; sparse ones never become dense."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from fedplug import kernels, ops
from fedplug.codecs.reading import receive
from fedplug.encoders.arguments import check_number
from fedplug.errors import ArgumentError, PayloadError

__all__ = ["Sum"]

_WIDER = {
    "float16": ("float32", "float64"),
    "bfloat16": ("float32", "float64"),
    "float32": ("float64",),
}
"""Into which sums payloads of a dtype may go, beside those of their own: every number is exact there."""


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
        self._shape = (int(shape),) if isinstance(shape, int) else tuple(int(dim) for dim in shape)
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
            PayloadError: As for `fedplug.decode`, or the payload is of another shape or dtype. Nothing is
            added. ConfigError: ``weight`` is no finite number.
        """
        check_number("weight", weight, lambda number: True, "")
        with self._lock:
            with ops.results_in(self._scratch):
                received = receive(payload, shape=self._shape)
            self._require_dtype(received.spec.dtype)
            if received.indices is None:
                self._add_dense(received.values, weight)
            else:
                self._add_sparse(received.values, received.indices, weight)
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

    def _add_sparse(self, values: NDArray[Any], indices: NDArray[np.int32], weight: float) -> None:
        values = values.astype(self._dtype, copy=False)
        splits = np.array([0, values.size], np.int64)
        weights = None if weight == 1 else np.array([weight], self._dtype)
        kernels.scatter_decode_add(self._total, values, indices, splits, weights)

    def _add_dense(self, values: NDArray[Any], weight: float) -> None:
        total = self._total.reshape(-1)
        if weight == 1:
            np.add(total, values, out=total)
        else:
            product = self._product_place(values)
            np.multiply(values, np.asarray(weight, self._dtype), out=product)
            np.add(total, product, out=total)
        if self._scratch is None:
            self._scratch = np.empty(values.size, values.dtype)

    def _product_place(self, values: NDArray[Any]) -> NDArray[Any]:
        """The decoded values themselves, where these are the sum's own and of its dtype."""
        own = self._scratch is not None and np.may_share_memory(values, self._scratch)
        return values if own and values.dtype == self._dtype else np.empty(values.shape, self._dtype)
