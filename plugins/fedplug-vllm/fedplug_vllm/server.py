"""The server's side in vLLM: a worker's engine, which applies a staged version to the running model."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import safe_open
from vllm.distributed.weight_transfer import WeightTransferEngine
from vllm.distributed.weight_transfer.base import WeightTransferInitInfo, WeightTransferUpdateInfo
from vllm.logger import init_logger
from vllm.model_executor.model_loader.checkpoint_weight_patch import (
    CheckpointWeightPatch,
    load_checkpoint_weight_patches,
)
from vllm.model_executor.model_loader.reload import finalize_layerwise_reload, initialize_layerwise_reload

from fedplug_vllm.checkpoint import as_tensor
from fedplug_vllm.staging import MAX_BYTES, Change, Shapes, Staging, Update

__all__ = ["FedplugEngine", "FedplugInitInfo", "FedplugUpdateInfo"]

logger = init_logger("vllm.fedplug")


@dataclass
class FedplugInitInfo(WeightTransferInitInfo):
    """Where the trainer's messages are, see `fedplug_vllm.FedplugTrainerInitInfo`.

    Attributes:
        url: The address that the trainer writes to, as the server opens it.
        poll_seconds: The time between two looks for a new version.
        max_bytes: The most memory for the arrays of a version.
        patches: Whether the changed elements alone are written into the model. By default they are on GPUs
            in a model without quantization; a CPU may keep its weights in another order.
    """

    url: str
    poll_seconds: float = 0.5
    max_bytes: float = MAX_BYTES
    patches: bool | None = None


@dataclass
class FedplugUpdateInfo(WeightTransferUpdateInfo):
    """The number of the step to apply."""

    number: int


class FedplugEngine(WeightTransferEngine[FedplugInitInfo, FedplugUpdateInfo]):
    """Applies versions of a trainer that writes to `FedplugInitInfo.url`.

    The changed elements alone are written into the model, through the model's own loader, or the whole model
    is loaded from the version in the host's memory, see `FedplugInitInfo.patches`. The first version of a
    server is loaded whole.
    """

    init_info_cls = FedplugInitInfo
    update_info_cls = FedplugUpdateInfo
    supports_draft_weight_update = False

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Takes the arguments of `WeightTransferEngine`."""
        super().__init__(*args, **kwargs)
        self._staging: Staging | None = None
        self._patches = self.model_config.quantization is None and self.device.type != "cpu"

    def init_transfer_engine(self, init_info: FedplugInitInfo) -> None:
        """Begins to look for versions. A second trainer may take over."""
        self.shutdown()
        if init_info.patches is not None:
            self._patches = init_info.patches
        self._staging = Staging(
            init_info.url,
            poll_seconds=init_info.poll_seconds,
            max_bytes=init_info.max_bytes,
            expected=_checkpoint_shapes(self.model_config),
        )

    @property
    def staged(self) -> int | None:
        """The number of the step that can be applied without waiting. None if there is none."""
        return None if self._staging is None else self._staging.staged

    def start_weight_update(self) -> None:
        """Changes nothing."""

    def finish_weight_update(self) -> None:
        """Changes nothing."""

    def update_weights(self, update_info: dict[str, Any]) -> None:
        """Applies the version of a step, see `receive_weights`."""
        self.receive_weights(self.parse_update_info(update_info))
        if self.device.type != "cpu":
            torch.accelerator.synchronize()

    def receive_weights(self, update_info: FedplugUpdateInfo) -> None:
        """Applies the version of a step.

        Raises:
            RuntimeError: `init_transfer_engine` was not called.
            fedplug.errors.PayloadError: The version cannot be had. The model is unchanged.
        """
        if self._staging is None:
            raise RuntimeError("the trainer's address is not known; call init_weight_transfer_engine first")
        start = time.perf_counter()
        update = self._staging.take(update_info.number)
        waited = time.perf_counter() - start
        try:
            way = self._apply(update)
        except BaseException:
            self._staging.applied(None)  # a part may be written: the next version is loaded whole
            raise
        self._staging.applied(update)
        seconds = {**update.seconds, "wait": waited, "apply": time.perf_counter() - start - waited}
        logger.info(
            "step %d: %d bytes, %s; %s",
            update.number,
            update.fetched_bytes,
            ", ".join(f"{name} {each:.3f} s" for name, each in seconds.items()),
            way,
        )

    def _apply(self, update: Update) -> str:
        """Writes a version into the model. Returns in which way."""
        if update.changes is not None and self._takes_patches(update.changes):
            load_checkpoint_weight_patches(
                self.model, map(self._patch, update.changes), validate_unique_indices=False
            )
            return f"{sum(len(change.values) for change in update.changes)} changed elements"
        initialize_layerwise_reload(self.model)
        self.model.load_weights((name, self._tensor(array)) for name, array in update.whole())
        finalize_layerwise_reload(self.model, self.model_config)
        return "the whole model"

    def _takes_patches(self, changes: list[Change]) -> bool:
        """Returns whether vLLM can patch these elements: no NaN, which is its mark of unchanged elements."""
        return self._patches and all(
            as_tensor(change.values[:1]).is_floating_point() and not np.isnan(change.values).any()
            for change in changes
        )

    def _patch(self, change: Change) -> CheckpointWeightPatch:
        values, indices = self._tensor(change.values), self._tensor(change.indices)
        return CheckpointWeightPatch(change.name, change.shape, values.dtype, values, indices)

    def _tensor(self, array: NDArray[Any]) -> torch.Tensor:
        return as_tensor(array).to(self.device)

    def shutdown(self) -> None:
        """Ends the thread that looks for versions."""
        if self._staging is not None:
            self._staging.close()
            self._staging = None


def _checkpoint_shapes(model_config: Any) -> Shapes | None:
    """Returns the arrays of the server's own checkpoint. None if it is no folder of safetensors.

    A model with tied embeddings has one of them in its checkpoint, and a trainer may send either.
    """
    shapes: dict[str, tuple[int, ...]] = {}
    for path in sorted(Path(model_config.model).glob("*.safetensors")):
        with safe_open(path, "np") as file:
            shapes.update({name: tuple(file.get_slice(name).get_shape()) for name in file.keys()})  # noqa: SIM118
    if getattr(model_config.hf_config, "tie_word_embeddings", False):
        for name in ("model.embed_tokens.weight", "lm_head.weight"):
            shapes.setdefault(name, next(iter(_embeddings(shapes)), ()))
    return shapes or None


def _embeddings(shapes: Shapes) -> list[tuple[int, ...]]:
    return [
        shape for name, shape in shapes.items() if name in ("model.embed_tokens.weight", "lm_head.weight")
    ]
