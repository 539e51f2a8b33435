"""A local checkpoint that follows a trainer, for servers that reload their weights from a folder.

Usage: python -m fedplug_vllm.checkpoint URL FOLDER

The folder is a model's checkpoint, or empty. The command prints the number of each step that it wrote.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from safetensors.torch import save_file

from fedplug_vllm.staging import Staging, Update, as_tensor

__all__ = ["save"]

WEIGHTS = "model.safetensors"


def save(update: Update, folder: str | Path) -> None:
    """Writes a version as the weights of a checkpoint, which are replaced as a whole.

    Files of the weights by other names are removed, as of a checkpoint in several files.
    """
    folder = Path(folder)
    assert update.arrays is not None  # as `Staging` makes them without patches
    tensors = {name: as_tensor(array) for name, array in update.arrays.items()}
    save_file(tensors, folder / f"{WEIGHTS}.part", metadata={"format": "pt"})
    os.replace(folder / f"{WEIGHTS}.part", folder / WEIGHTS)
    for old in [*folder.glob("*.safetensors"), *folder.glob("*.safetensors.index.json")]:
        if old.name != WEIGHTS:
            old.unlink()


def main(url: str, folder: str) -> None:
    """Follows a trainer until it is interrupted."""
    staging = Staging(url, poll_seconds=0.5)
    while True:
        update = staging.staged
        if update is None:
            time.sleep(0.1)
            continue
        save(update, folder)
        staging.applied(update)
        print(update.number, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
