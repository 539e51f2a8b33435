"""The server's side in vLLM: a worker's engine, which applies a staged version to the running model."""

from __future__ import annotations

import contextlib
import itertools
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from huggingface_hub import snapshot_download
from numpy.typing import NDArray
from safetensors import safe_open
from vllm.config import ModelConfig
from vllm.distributed.weight_transfer import WeightTransferEngine
from vllm.distributed.weight_transfer.base import WeightTransferInitInfo, WeightTransferUpdateInfo
from vllm.logger import init_logger
from vllm.model_executor.model_loader.checkpoint_weight_patch import (
    CheckpointWeightPatch,
    load_checkpoint_weight_patches,
)
from vllm.model_executor.model_loader.reload import finalize_layerwise_reload, initialize_layerwise_reload

from fedplug_vllm.staging import MAX_BYTES, Change, Forms, Staging, Update, as_tensor

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
    _staging: Staging | None = None
    _files: Mapping[str, Path]

    def init_transfer_engine(self, init_info: FedplugInitInfo) -> None:
        """Begins to look for versions. A second trainer may take over."""
        self.shutdown()
        patches = init_info.patches
        if patches is None:
            patches = self.model_config.quantization is None and self.device.type != "cpu"
        self._files, forms = checkpoint(self.model_config)
        self._staging = Staging(
            init_info.url,
            poll_seconds=init_info.poll_seconds,
            max_bytes=init_info.max_bytes,
            expected=forms or None,
            patches=patches,
        )

    @property
    def staged(self) -> int | None:
        """The number of the step that can be applied without waiting. None if there is none."""
        update = None if self._staging is None else self._staging.staged
        return None if update is None else update.number

    def start_weight_update(self) -> None:
        """Changes nothing, like `finish_weight_update`."""

    def finish_weight_update(self) -> None:
        """Changes nothing."""

    def update_weights(self, update_info: dict[str, object]) -> None:
        """Applies the version of a step, see `receive_weights`."""
        self.receive_weights(self.parse_update_info(update_info))
        if self.device.type != "cpu":
            torch.accelerator.synchronize()

    def receive_weights(self, update_info: FedplugUpdateInfo) -> None:
        """Applies the version of a step.

        Raises:
            RuntimeError: `init_transfer_engine` was not called, or vLLM could not load the version.
            fedplug.errors.PayloadError: The version cannot be had. The model is unchanged.
        """
        if self._staging is None:
            raise RuntimeError("the trainer's address is not known; call init_weight_transfer_engine first")
        start = time.perf_counter()
        update = self._staging.take(update_info.number)
        waited = time.perf_counter() - start
        try:
            way = self._apply(update)
        except BaseException as error:
            self._staging.applied(None)  # the next version is loaded whole
            raise RuntimeError(
                f"vLLM may have loaded a part of step {update.number}; send a version again before the "
                f"server answers: {error}"
            ) from error
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
        if update.changes is not None:
            load_checkpoint_weight_patches(
                self.model, map(self._patch, update.changes), validate_unique_indices=False
            )
            return f"{sum(len(change.values) for change in update.changes)} changed elements"
        initialize_layerwise_reload(self.model)
        try:
            self.model.load_weights(self._weights(update))
        finally:  # after an error too, or the next load would begin with the arrays of this one
            finalize_layerwise_reload(self.model, self.model_config)
        return "the whole model"

    def _weights(self, update: Update) -> Iterator[tuple[str, torch.Tensor]]:
        """Yields all arrays. Those that the trainer does not send are those of the server's checkpoint.

        vLLM would leave the rest of a layer uninitialized, such as the keys beside new queries.
        """
        assert update.arrays is not None
        for name, array in update.arrays.items():
            yield name, self._tensor(array)
        for name in self._files.keys() - update.arrays.keys():
            with safe_open(self._files[name], "pt") as file:
                yield name, file.get_tensor(name).to(self.device)

    def _patch(self, change: Change) -> CheckpointWeightPatch:
        values, indices = self._tensor(change.values), self._tensor(change.indices)
        return CheckpointWeightPatch(change.name, change.shape, values.dtype, values, indices)

    def _tensor(self, array: NDArray[np.generic]) -> torch.Tensor:
        return as_tensor(array).to(self.device, copy=True)  # the model may keep it

    def shutdown(self) -> None:
        """Ends the thread that looks for versions."""
        if self._staging is not None:
            self._staging.close()
            self._staging = None


def checkpoint(model_config: ModelConfig) -> tuple[dict[str, Path], Forms]:
    """Returns the file of each array of the server's own checkpoint, and the arrays that a trainer may send.

    The checkpoint is a folder, or was downloaded from Hugging Face. Both are empty if it has no safetensors.
    """
    folder = Path(model_config.model)
    if not folder.is_dir():
        with contextlib.suppress(OSError, ValueError):  # it is not there either
            folder = Path(
                snapshot_download(model_config.model, revision=model_config.revision, local_files_only=True)
            )
    files, forms = {}, {}
    for path in sorted(folder.glob("model*.safetensors")) or sorted(folder.glob("*.safetensors")):
        with safe_open(path, "pt") as file:
            for name in file.keys():  # noqa: SIM118
                shape = tuple(file.get_slice(name).get_shape())
                some = file.get_slice(name)[:0] if shape else file.get_tensor(name)
                files[name], forms[name] = path, (str(some.dtype).removeprefix("torch."), shape)
    if getattr(model_config.hf_config, "tie_word_embeddings", False):
        for one, other in itertools.permutations(("model.embed_tokens.weight", "lm_head.weight")):
            if one in files:
                forms.setdefault(other, forms[one])
    return files, forms
