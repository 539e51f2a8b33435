"""The form of the server's model: the names, shapes and dtypes that clients' updates must have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from nvflare.apis.dxo import DXO, DataKind
from nvflare.apis.fl_component import FLComponent
from nvflare.apis.fl_context import FLContext
from nvflare.app_common.app_constant import AppConstants

import fedplug
from fedplug.codecs import BUILT_IN
from fedplug.encoders import Identity
from fedplug_nvflare.constants import Constants
from fedplug_nvflare.update import SEND_DIFFERENCES, is_compressed
from fedplug_nvflare.weight_filter import COLLECTION, leaves

__all__ = ["NO_MODEL", "GlobalModel", "is_torch", "native"]

NO_MODEL = (
    "the tensors of the global model are not known: no training task was sent in this round, or its weights "
    "are no arrays"
)
"""The reason why an update cannot be checked."""


_REGISTERED = 2
"""``isbuiltin`` of the dtypes of ml_dtypes: bfloat16, float8 and others."""


class _Tensor(NamedTuple):
    shape: tuple[int, ...]
    dtype: str
    is_torch: bool


class GlobalModel:
    """Shapes, dtypes and limits of a round's initial weights. The weights are not kept.

    Attributes:
        total: The sum of the round's updates. It checks updates, also without adding them.
        dense_bytes: Size of one uncompressed update in bytes.
    """

    def __init__(self, weights: Mapping[str, object], wire_ids: Sequence[str] | None) -> None:
        """Reads the weights.

        Args:
            weights: NumPy arrays, torch tensors, or numbers, by name.
            wire_ids: Wire ids to accept besides uncompressed payloads. None for fedplug's own encoders.
        """
        arrays: dict[str, Any] = {
            name: x.detach() if is_torch(x) else np.asarray(x) for name, x in weights.items()
        }
        self._tensors = {
            name: _Tensor(tuple(x.shape), str(x.dtype).removeprefix("torch."), is_torch(x))
            for name, x in arrays.items()
        }
        self.dense_bytes = sum(x.nbytes for x in arrays.values())
        self._constants = Constants(weights)
        self._dense = fedplug.codec("identity")
        self.total: fedplug.ModelSum = fedplug.ModelSum.like(
            arrays, wire_ids=BUILT_IN if wire_ids is None else {*wire_ids, Identity.wire_id}
        )

    @classmethod
    def of_task(
        cls, fl_ctx: FLContext, wire_ids: Sequence[str] | None, component: FLComponent
    ) -> GlobalModel | None:
        """Reads the task that NVFlare is about to send (the event BEFORE_TRAIN_TASK).

        Returns:
            None if the task has no weights, as for the validation of another model. A collection ends the job
            before its first training: updates would be collections, too.
        """
        found = leaves(fl_ctx.get_prop(AppConstants.TRAIN_SHAREABLE))
        if len(found) > 1:
            kinds = ", ".join(str(leaf.data_kind) for leaf in found)
            component.system_panic(f"the task: {COLLECTION.format(f'{len(found)} DXOs ({kinds})')}", fl_ctx)
        if len(found) != 1 or found[0].data_kind != DataKind.WEIGHTS:
            return None
        return cls(found[0].data, wire_ids)

    def payloads(
        self, data: object, meta: Mapping[str, object] | None, is_difference: bool
    ) -> Mapping[str, bytes]:
        """Returns the payloads of one client's update. Uncompressed updates are encoded, too.

        Raises:
            ValueError: The update has full weights, is not finite, or has no arrays. The message names the
                tensor.
        """
        if not isinstance(data, Mapping) or any(isinstance(value, DXO) for value in data.values()):
            kind = "collection of DXOs" if isinstance(data, Mapping) else type(data).__name__
            raise ValueError(f"it holds a {kind}, not tensors by name")
        if not is_difference:
            raise ValueError(f"it is of full weights; {SEND_DIFFERENCES}")
        return data if is_compressed(meta) else self._dense.encode_model(self._constants.left_out(data))[0]

    def decode(self, payloads: Mapping[str, bytes], weight: float) -> dict[str, object]:
        """Decodes one client's update in the dtypes of the weights. Torch tensors if these are.

        Raises:
            ValueError: A payload is missing, unknown or invalid, or the weight is. The message names the
                tensor.
        """
        self.total.check(payloads, weight)
        return {name: _decode(name, payloads[name], tensor) for name, tensor in self._tensors.items()}

    def update(self, arrays: Mapping[str, NDArray[np.generic]]) -> dict[str, object]:
        """Converts a mean for NVFlare's addition to the weights: floats in the weights' own dtype.

        Integers stay float64, like NVFlare's mean of NumPy integers.

        Raises:
            ValueError: A mean is not finite. The message names the tensor.
        """
        return {
            name: native(_narrowed(name, arrays[name], tensor), tensor.is_torch)
            for name, tensor in self._tensors.items()
        }


def is_torch(value: object) -> bool:
    """Returns whether a value is a torch tensor, without importing torch."""
    return type(value).__module__.partition(".")[0] == "torch"


def _narrowed(name: str, array: NDArray[np.generic], tensor: _Tensor) -> NDArray[np.generic]:
    with np.errstate(over="ignore"):
        narrow = array.astype(tensor.dtype, copy=False) if "float" in tensor.dtype else array
    if not np.isfinite(narrow).all():
        raise ValueError(f"tensor {name!r}: the mean is not finite in {narrow.dtype}")
    return narrow


def _decode(name: str, payload: bytes, tensor: _Tensor) -> object:
    try:
        return native(fedplug.decode(payload, out=np.empty(tensor.shape, tensor.dtype)), tensor.is_torch)
    except ValueError as error:
        raise ValueError(f"tensor {name!r}: {error}") from error


def native(array: NDArray[np.generic], as_torch: bool) -> object:
    """Returns the array, or a torch tensor that shares its memory."""
    if not as_torch:
        return array
    import torch

    if array.dtype.isbuiltin == _REGISTERED:  # torch cannot convert the dtypes of ml_dtypes
        return torch.from_numpy(array.view(f"i{array.itemsize}")).view(getattr(torch, array.dtype.name))
    return torch.from_numpy(array)
