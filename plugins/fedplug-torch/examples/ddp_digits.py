"""Trains with DistributedDataParallel and compressed gradients, and resumes from a checkpoint.

``torchrun --nproc-per-node 2 ddp_digits.py --checkpoint saved`` trains on scikit-learn's digits, each rank on
its part. Another run with more ``--steps`` resumes from the files that the ranks saved.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import fedplug_torch
import torch
import torch.distributed as dist
from safetensors.torch import load_file, save_file
from sklearn.datasets import load_digits
from torch.nn.parallel import DistributedDataParallel


def main() -> None:
    """Trains and saves."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--encoder", default="topk(0.05) | qsgd(8)")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--checkpoint", type=Path, metavar="FOLDER")
    arguments = parser.parse_args()

    dist.init_process_group("gloo")
    rank, world_size = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    images, labels = map(torch.tensor, load_digits(return_X_y=True))
    images, labels = images[rank::world_size].float() / 16, labels[rank::world_size]

    model = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10))
    ddp = DistributedDataParallel(model)
    state = fedplug_torch.FedplugState(arguments.encoder, model, warmup_steps=10)
    ddp.register_comm_hook(state, fedplug_torch.fedplug_hook)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)

    saved = arguments.checkpoint and arguments.checkpoint / f"rank-{rank}.safetensors"
    if saved and saved.exists():
        tensors = load_file(saved)
        model.load_state_dict({name: tensors.pop(f"model/{name}") for name in model.state_dict()})
        state.load_state_dict(tensors)
    for step in range(state.step, arguments.steps):
        batch = torch.randint(len(labels), (32,), generator=torch.Generator().manual_seed(step))
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(ddp(images[batch]), labels[batch]).backward()
        optimizer.step()
    if saved:
        arguments.checkpoint.mkdir(exist_ok=True)
        tensors = {f"model/{name}": tensor for name, tensor in model.state_dict().items()}
        save_file({**tensors, **state.state_dict()}, saved)

    right = (model(images).argmax(1) == labels).float().mean()
    print(f"rank {rank}: {right:.1%} of its digits right, {state.bytes_sent:,} bytes sent", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
