"""Training of a small network, each rank on its part of scikit-learn's digits."""

from __future__ import annotations

import functools

import fedplug_torch
import numpy as np
import torch
import torch.distributed as dist
from sklearn.datasets import load_digits
from torch.nn.parallel import DistributedDataParallel

from fedplug.errors import FedplugError

BATCH = 16
SMALL_BUCKETS = 0.005
"""Bucket size in MiB at which each bucket holds one or few parameters."""


@functools.cache
def data():
    images, labels = load_digits(return_X_y=True)
    return torch.from_numpy(images.astype(np.float32) / 16), torch.from_numpy(labels)


def network(dtype=torch.float32):
    torch.manual_seed(0)
    layers = torch.nn.Linear(64, 48), torch.nn.ReLU(), torch.nn.Linear(48, 32), torch.nn.ReLU()
    return torch.nn.Sequential(*layers, torch.nn.Linear(32, 10)).to(dtype)


def batch(step, rank):
    """Returns the batch of a rank in a step. The same batch in every call."""
    images, labels = data()
    chosen = np.random.default_rng([step, rank]).choice(len(labels), BATCH, replace=False)
    return images[chosen], labels[chosen]


def loss_of(model, step, rank):
    images, labels = batch(step, rank)
    dtype = next(model.parameters()).dtype
    return torch.nn.functional.cross_entropy(model(images.to(dtype)).float(), labels)


def parameters(model):
    return {name: _array(p.detach()) for name, p in model.named_parameters()}


def gradients(model):
    return {name: _array(p.grad) for name, p in model.named_parameters()}


def _array(tensor):
    """Returns a copy as an array. bfloat16, which NumPy lacks, becomes float32."""
    return (tensor.float() if tensor.dtype is torch.bfloat16 else tensor).numpy().copy()


def hooked(encoder, model, ddp_arguments=None, **state_arguments):
    """Returns the DDP model and the state of its hook."""
    ddp = DistributedDataParallel(model, **{"bucket_cap_mb": SMALL_BUCKETS, **(ddp_arguments or {})})
    state = fedplug_torch.FedplugState(encoder, ddp, **state_arguments)
    ddp.register_comm_hook(state, fedplug_torch.fedplug_hook)
    return ddp, state


def train(
    encoder,
    steps,
    *,
    begin=0,
    saved=None,
    dtype=torch.float32,
    lr=0.2,
    ddp_arguments=None,
    **state_arguments,
):
    """Trains in DDP with the hook, or without it if there is no encoder.

    ``saved`` is the entry of that name in an earlier result. The ranks resume from it at step ``begin``.
    """
    rank = dist.get_rank()
    model = network(dtype)
    if saved:
        model.load_state_dict(saved[rank]["model"])
    if encoder is None:
        ddp, state = DistributedDataParallel(model, bucket_cap_mb=SMALL_BUCKETS), None
    else:
        ddp, state = hooked(encoder, model, ddp_arguments, **state_arguments)
    if saved:
        state.load_state_dict(saved[rank]["state"])
    optimizer = torch.optim.SGD(model.parameters(), lr=lr)
    for step in range(begin, steps):
        optimizer.zero_grad()
        loss_of(ddp, step, rank).backward()
        optimizer.step()
    return {
        "parameters": parameters(model),
        "bytes": state.bytes_sent if state else 0,
        "dense bytes": state.dense_bytes if state else 0,
        "saved": {"model": model.state_dict(), "state": state.state_dict() if state else {}},
    }


def assert_same(left, right):
    """Compares arrays by name, bit for bit except for the signs of zeros."""
    assert left.keys() == right.keys()
    for name in left:
        np.testing.assert_array_equal(left[name], right[name], err_msg=name)


def error_of(function, *args, **kwargs):
    """Returns the class and the message of the error that a call raises, or None."""
    try:
        function(*args, **kwargs)
    except FedplugError as error:
        return f"{type(error).__name__}: {error}"
    return None
