"""A local checkpoint that follows a trainer, for servers that reload their weights from a folder.

Usage: python -m fedplug_vllm.checkpoint URL FOLDER

The folder is a model's checkpoint, or empty. The command prints the number of each step that it wrote.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import save_file

from fedplug_vllm.staging import Staging, Update

__all__ = ["as_tensor", "save"]

WEIGHTS = "model.safetensors"


def save(update: Update, folder: str | Path) -> None:
    """Writes a version as the weights of a checkpoint, which are replaced as a whole.

    Files of the weights by other names are removed, as of a checkpoint in several files.
    """
    folder = Path(folder)
    tensors = {name: as_tensor(array) for name, array in update.whole()}
    save_file(tensors, folder / f"{WEIGHTS}.part", metadata={"format": "pt"})
    os.replace(folder / f"{WEIGHTS}.part", folder / WEIGHTS)
    for old in [*folder.glob("*.safetensors"), *folder.glob("*.safetensors.index.json")]:
        if old.name != WEIGHTS:
            old.unlink()


def as_tensor(array: NDArray[np.generic]) -> torch.Tensor:
    """Returns an array as a tensor of the same bits. Dtypes that NumPy lacks are those of ml_dtypes."""
    array = array if array.flags.writeable else array.copy()
    if array.dtype.isbuiltin == 1:
        return torch.from_numpy(array)
    return torch.from_numpy(array.view(f"u{array.itemsize}")).view(getattr(torch, array.dtype.name))


def main(url: str, folder: str) -> None:
    """Follows a trainer until it is interrupted."""
    staging = Staging(url, poll_seconds=0.5)
    while True:
        number = staging.staged
        if number is None:
            time.sleep(0.1)
            continue
        update = staging.take(number)
        save(update, folder)
        staging.applied(update)
        print(number, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
