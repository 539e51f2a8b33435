"""Lightning: the hook is an argument of DDPStrategy, and a callback puts all residuals into the checkpoint.

Lightning ignores these arguments without a GPU, so the callback registers the hook there.

``torchrun --nproc-per-node 2 lightning_digits.py saved 4`` trains on scikit-learn's digits. Called again with
more epochs, it resumes from the checkpoint in the folder.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytorch_lightning as lightning
import torch
from fedplug_torch import FedplugState, GatheredState, fedplug_hook
from pytorch_lightning.strategies import DDPStrategy
from sklearn.datasets import load_digits
from torch.utils.data import DataLoader, TensorDataset


class Digits(lightning.LightningModule):
    """A small network."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.network = torch.nn.Sequential(
            torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10)
        )

    def training_step(self, batch: list[torch.Tensor], number: int) -> torch.Tensor:
        """Returns the loss."""
        images, labels = batch
        return torch.nn.functional.cross_entropy(self.network(images), labels)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Returns the optimizer."""
        return torch.optim.SGD(self.parameters(), lr=0.5)


class Residuals(lightning.Callback):
    """Saves and loads the state of the hook with each checkpoint."""

    def __init__(self, state: FedplugState) -> None:
        self._hook_state, self._state = state, GatheredState(state)

    def on_train_start(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule) -> None:
        """Registers the hook if Lightning has not."""
        if trainer.strategy.root_device.type != "cuda":
            trainer.strategy.model.register_comm_hook(self._hook_state, fedplug_hook)

    def on_save_checkpoint(
        self, trainer: lightning.Trainer, pl_module: lightning.LightningModule, checkpoint: dict[str, Any]
    ) -> None:
        """Adds the states of all ranks. Lightning calls this on every rank."""
        checkpoint["fedplug"] = self._state.state_dict()

    def on_load_checkpoint(
        self, trainer: lightning.Trainer, pl_module: lightning.LightningModule, checkpoint: dict[str, Any]
    ) -> None:
        """Loads the state of this rank."""
        self._state.load_state_dict(checkpoint["fedplug"])


def train(epochs: int, folder: Path) -> tuple[Digits, FedplugState]:
    """Trains until a number of epochs, and saves."""
    model = Digits()
    state = FedplugState("topk(0.05) | qsgd(8)", model, warmup_steps=5)
    trainer = lightning.Trainer(
        accelerator="cpu",
        strategy=DDPStrategy(process_group_backend="gloo", ddp_comm_state=state, ddp_comm_hook=fedplug_hook),
        devices=2,
        max_epochs=epochs,
        callbacks=[Residuals(state)],
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    images, labels = map(torch.tensor, load_digits(return_X_y=True))
    data = DataLoader(TensorDataset(images.float() / 16, labels), batch_size=32)
    checkpoint = folder / "lightning.ckpt"
    trainer.fit(model, data, ckpt_path=checkpoint if checkpoint.exists() else None)
    trainer.save_checkpoint(checkpoint)
    return model, state


if __name__ == "__main__":
    _, hook = train(int(sys.argv[2]), Path(sys.argv[1]))
    print(f"{hook.step} steps, {hook.bytes_sent:,} bytes instead of {hook.dense_bytes:,}", flush=True)
