"""What the server's model looks like: the names, shapes and dtypes that a client's update has to have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from nvflare.apis.dxo import from_shareable
from nvflare.apis.fl_context import FLContext
from nvflare.app_common.app_constant import AppConstants

import fedplug

__all__ = ["NO_MODEL", "GlobalModel", "empty_sum", "weights_of_task"]

NO_MODEL = (
    "the tensors of the global model are not known: no training task was sent in this round, or its weights "
    "are no arrays"
)
"""Why an update cannot be checked."""


class _Tensor(NamedTuple):
    shape: tuple[int, ...]
    dtype: str
    is_torch: bool


class GlobalModel:
    """Shapes and dtypes of the weights that a round began with; keeps none of the weights."""

    def __init__(self, weights: Mapping[str, Any]) -> None:
        """Reads shapes and dtypes of NumPy arrays, torch tensors, or numbers, by name."""
        self._tensors = {name: _tensor(value) for name, value in weights.items()}

    @classmethod
    def of_task(cls, fl_ctx: FLContext) -> GlobalModel:
        """Reads the task that NVFlare is about to send (the event BEFORE_TRAIN_TASK)."""
        return cls(weights_of_task(fl_ctx))

    @property
    def dense_bytes(self) -> int:
        """Of one update that is not compressed."""
        return sum(
            int(np.prod(tensor.shape, dtype=np.int64)) * np.dtype(tensor.dtype).itemsize
            for tensor in self._tensors.values()
        )

    def decode(self, payloads: Mapping[str, bytes]) -> dict[str, Any]:
        """One client's update, in the dtypes of the weights, and torch tensors where these are.

        Raises:
            ValueError: A payload is missing, unknown or refused; the message names the tensor.
        """
        if payloads.keys() != self._tensors.keys():
            odd = sorted(map(str, payloads.keys() ^ self._tensors.keys()))
            raise ValueError(f"tensors {odd} are only in one of the update and the global model")
        return {name: _decode(name, payloads[name], tensor) for name, tensor in self._tensors.items()}

    def update(self, arrays: Mapping[str, NDArray[Any]]) -> dict[str, Any]:
        """A mean as what NVFlare adds to the weights: floats in the weights' own dtype.

        Integers stay float64, which is what the mean of NumPy's integers is in NVFlare, too.
        """
        return {
            name: _native(_narrowed(arrays[name], tensor), tensor) for name, tensor in self._tensors.items()
        }


def weights_of_task(fl_ctx: FLContext) -> Mapping[str, Any]:
    """The weights in the task that NVFlare is about to send."""
    weights: Mapping[str, Any] = from_shareable(fl_ctx.get_prop(AppConstants.TRAIN_SHAREABLE)).data
    return weights


def empty_sum(weights: Mapping[str, Any]) -> fedplug.ModelSum:
    """Makes a sum of zeros for the payloads of updates of these weights, see `fedplug.ModelSum.like`."""
    return fedplug.ModelSum.like(
        {name: value.detach() if _is_torch(value) else np.asarray(value) for name, value in weights.items()}
    )


def _tensor(value: Any) -> _Tensor:
    array = value if _is_torch(value) else np.asarray(value)
    return _Tensor(tuple(array.shape), str(array.dtype).removeprefix("torch."), _is_torch(value))


def _is_torch(value: Any) -> bool:
    return type(value).__module__.partition(".")[0] == "torch"


def _narrowed(array: NDArray[Any], tensor: _Tensor) -> NDArray[Any]:
    return array.astype(tensor.dtype, copy=False) if "float" in tensor.dtype else array


def _decode(name: str, payload: bytes, tensor: _Tensor) -> Any:
    try:
        return _native(fedplug.decode(payload, out=np.empty(tensor.shape, tensor.dtype)), tensor)
    except ValueError as error:
        raise ValueError(f"tensor {name!r}: {error}") from error


def _native(array: NDArray[Any], tensor: _Tensor) -> Any:
    """The array itself, or the torch tensor that shares its memory."""
    if not tensor.is_torch:
        return array
    import torch

    if array.dtype == "bfloat16":  # which torch does not know as NumPy's
        return torch.from_numpy(array.view(np.uint16)).view(torch.bfloat16)
    return torch.from_numpy(array)
