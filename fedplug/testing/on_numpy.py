"""The execution on NumPy arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from fedplug.errors import PayloadError
from fedplug.ops.types import Array, ArraySpec, Scalar, Spec
from fedplug.registry.forking import Say
from fedplug.testing import memory
from fedplug.testing.child import in_child
from fedplug.testing.execution import Execution, Reader

__all__ = ["NumPy"]


class NumPy(Execution):
    """Runs encoders eagerly on NumPy arrays."""

    name: ClassVar[str] = "numpy"
    refuses: ClassVar[type[Exception]] = PayloadError

    def spec(self, shape: Sequence[int], dtype: str, name: str | None = None) -> Spec:
        return ArraySpec(tuple(shape), np.dtype(dtype), name)

    def array(self, values: Any) -> Array:
        return np.array(values)

    def round_num(self, number: int) -> Scalar:
        return number

    def is_array(self, value: object) -> bool:
        return isinstance(value, np.ndarray | np.generic)  # arithmetic makes scalars of arrays of rank 0

    def numpy(self, x: Array) -> NDArray[Any]:
        return np.asarray(x)

    def readers(self, read: Reader) -> tuple[Reader, ...]:
        return (read,)

    def stacked(self, function: Callable[[Scalar], Scalar], rounds: int) -> NDArray[Any]:
        return np.stack([np.asarray(function(number), np.float64) for number in range(rounds)])

    def isolated(self, check: Callable[[Say], None]) -> None:
        in_child(check)

    def peak_memory(self, action: Callable[[], object], allowance: int) -> int:
        return memory.of_arrays(action, allowance)
