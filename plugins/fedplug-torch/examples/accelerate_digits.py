"""Accelerate: the hook is registered after `prepare`, and all residuals are a part of `save_state`.

``torchrun --nproc-per-node 2 accelerate_digits.py saved 100``, or ``accelerate launch --cpu
--num_processes 2``, trains on scikit-learn's digits. Called again with more steps, it resumes from the
folder.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from accelerate import Accelerator
from fedplug_torch import FedplugState, GatheredState, fedplug_hook
from sklearn.datasets import load_digits
from torch.utils.data import DataLoader, TensorDataset


def train(steps: int, folder: Path) -> tuple[torch.nn.Module, FedplugState]:
    """Trains until a number of steps, and saves."""
    accelerator = Accelerator(cpu=True)
    torch.manual_seed(0)
    network = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10))
    images, labels = map(torch.tensor, load_digits(return_X_y=True))
    data = DataLoader(TensorDataset(images.float() / 16, labels), batch_size=32)
    ddp, optimizer, batches = accelerator.prepare(
        network, torch.optim.SGD(network.parameters(), lr=0.5), data
    )
    state = FedplugState("topk(0.05) | qsgd(8)", network, warmup_steps=5)
    ddp.register_comm_hook(state, fedplug_hook)
    accelerator.register_for_checkpointing(GatheredState(state))
    if folder.exists():
        accelerator.load_state(str(folder))

    while state.step < steps:
        done = state.step % len(batches)
        for images, labels in accelerator.skip_first_batches(batches, done):
            optimizer.zero_grad()
            accelerator.backward(torch.nn.functional.cross_entropy(ddp(images), labels))
            optimizer.step()
            if state.step == steps:
                break
    accelerator.save_state(str(folder))
    return network, state


if __name__ == "__main__":
    _, hook = train(int(sys.argv[2]), Path(sys.argv[1]))
    print(f"{hook.step} steps, {hook.bytes_sent:,} bytes instead of {hook.dense_bytes:,}", flush=True)
