"""Conversion of tensors to NumPy arrays and back, without copies where possible."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn.parameter import is_lazy
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from fedplug import wire
from fedplug.errors import ArgumentError
from fedplug.kernels import foreign

__all__ = [
    "PLAIN",
    "arrays_like",
    "as_array",
    "as_arrays",
    "as_exact_array",
    "as_tensor",
    "real_view",
    "require_dense",
    "require_whole",
    "shares_memory",
    "wide_dtype",
]

T = TypeVar("T")

_REGISTERED = 2
"""``isbuiltin`` of the dtypes of ml_dtypes: bfloat16, float8, int4 and others."""

_NUMPY_DTYPES = {getattr(torch, name): np.dtype(name) for name in wire.DTYPE_CODES}
"""The dtypes that payloads support, and those of arrays. bfloat16 is that of ml_dtypes."""

PLAIN = (torch.Tensor, torch.nn.Parameter)
"""Types that need no check for subclasses; a model has many tensors."""


def shares_memory(tensor: torch.Tensor) -> bool:
    """Returns whether `as_array` shares this tensor's memory: it is on the CPU and C-contiguous."""
    return tensor.device.type == "cpu" and tensor.is_contiguous() and not tensor.is_neg()


def as_array(tensor: torch.Tensor) -> NDArray[np.generic]:
    """Converts a tensor to a NumPy array of the same shape. bfloat16 becomes that of ``ml_dtypes``.

    The array shares the memory of a C-contiguous tensor on the CPU. Other tensors are copied, to the host and
    to C order. Gradients are not recorded.

    Raises:
        ArgumentError: The tensor is not supported. See `require_dense`.
    """
    is_plain = type(tensor) in PLAIN and tensor.is_cpu and tensor.layout is torch.strided
    if not is_plain or tensor.dtype not in _NUMPY_DTYPES or tensor.numel() > wire.MAX_ELEMENTS:
        require_dense(tensor)
    dense = tensor.detach().cpu().contiguous().resolve_neg()
    address = dense.data_ptr() if dense.numel() else 0
    memory = {"version": 3, "shape": (dense.nbytes,), "typestr": "|u1", "data": (address, False)}
    # `dense.numpy()` would make the storage of the tensor unresizable.
    array = np.asarray(SimpleNamespace(__array_interface__=memory, keeps=dense))
    return array.view(_NUMPY_DTYPES[dense.dtype]).reshape(dense.shape)


def arrays_like(tensors: Mapping[str, torch.Tensor]) -> dict[str, NDArray[np.generic]]:
    """Returns arrays of these shapes and dtypes, for functions that read only those. Reads no tensor."""
    return {name: np.empty(tensor.shape, _NUMPY_DTYPES[tensor.dtype]) for name, tensor in tensors.items()}


def require_dense(tensor: object) -> None:
    """Raises ArgumentError unless the value is a dense tensor of a dtype that payloads support."""
    if type(tensor) not in PLAIN:
        if not isinstance(tensor, torch.Tensor):
            raise ArgumentError(f"a {type(tensor).__name__} is no tensor; arrays are for fedplug.codec")
        if is_lazy(tensor):
            raise ArgumentError("the shape of a lazy parameter is not known; run the model once first")
        foreign.require_dense(tensor)
        if is_traceable_wrapper_subclass(tensor):
            kind = type(tensor).__name__
            raise ArgumentError(f"a {kind} is made of other tensors; pass those, or tensor.dequantize()")
    if tensor.layout is not torch.strided:
        foreign.require_dense(tensor)
    if tensor.device.type == "meta":
        raise ArgumentError("a tensor on the meta device has no elements that could be encoded")
    if tensor.numel() > wire.MAX_ELEMENTS:  # before it is copied from a GPU
        raise ArgumentError(
            f"a tensor has {tensor.numel():,} elements, and an encoder takes at most {wire.MAX_ELEMENTS:,} "
            "(2^31 - 1); split it"
        )
    if tensor.dtype not in _NUMPY_DTYPES:
        known = ", ".join(str(dtype).removeprefix("torch.") for dtype in _NUMPY_DTYPES)
        raise ArgumentError(f"a tensor of {tensor.dtype} cannot be encoded; known: {known}")


def require_whole(parameters: Mapping[str, torch.Tensor]) -> None:
    """Raises ArgumentError if a parameter cannot be encoded or is sharded.

    The message names the parameter, and the value to pass instead.
    """
    for name, parameter in parameters.items():
        if hasattr(parameter, "to_local"):
            raise ArgumentError(
                f"parameter {name!r} is a DTensor, sharded by fully_shard or another parallelism; pass a "
                "model that is whole on every rank, or use ReplicaHook, which is for fully_shard"
            )
        if getattr(parameter, "_fsdp_flattened", False):
            raise ArgumentError(
                f"parameter {name!r} is sharded by FullyShardedDataParallel; pass a model that is whole on "
                "every rank, as in DistributedDataParallel, or shard it by fully_shard"
            )
        try:
            require_dense(parameter)
        except ArgumentError as error:
            raise ArgumentError(f"parameter {name!r}: {error}") from error


def wide_dtype(tensor: torch.Tensor) -> torch.dtype:
    """Returns the dtype of sums of such tensors: float32, or float64 for a tensor of that."""
    return torch.float64 if tensor.dtype is torch.float64 else torch.float32


def real_view(tensor: torch.Tensor) -> torch.Tensor:
    """Returns the tensor; for a complex one, a real view with a last dimension of two."""
    return torch.view_as_real(tensor) if tensor.is_complex() else tensor


def as_tensor(array: NDArray[np.generic]) -> torch.Tensor:
    """Converts an array to a tensor on the same memory. Copies a read-only array."""
    array = np.asarray(array)
    if not array.flags.writeable:
        array = array.copy()
    if array.dtype.isbuiltin == _REGISTERED:
        return torch.from_numpy(array.view(f"i{array.itemsize}")).view(getattr(torch, array.dtype.name))
    return torch.from_numpy(array)


def as_exact_array(tensor: torch.Tensor) -> NDArray[np.generic]:
    """Converts a tensor as `as_array` does, also one of a dtype that no payload has, such as float8.

    Raises:
        ArgumentError: The tensor is not supported.
    """
    if type(tensor) in PLAIN and tensor.dtype not in _NUMPY_DTYPES:
        return foreign.read_array(tensor.detach().cpu())
    return as_array(tensor)


def as_arrays(
    tensors: Mapping[str, torch.Tensor] | None, read: Callable[[torch.Tensor], T] = as_array
) -> dict[str, T] | None:
    """Converts each tensor by ``read``, `as_array` by default.

    Raises:
        ArgumentError: A tensor is not supported. The message names it.
    """
    if tensors is None:
        return None
    arrays = {}
    for name, tensor in tensors.items():
        try:
            arrays[name] = read(tensor)
        except ArgumentError as error:
            raise ArgumentError(f"tensor {name!r}: {error}") from error
    return arrays
