"""Weights that change a little from step to step, as those of a trainer do."""

from __future__ import annotations

import contextlib
import functools
import http.server
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import ml_dtypes  # noqa: F401  # registers bfloat16 with NumPy
import numpy as np
import torch
from fedplug_vllm.publisher import Published, Publisher
from fedplug_vllm.staging import Staging, Update, as_tensor

NEVER = 3600.0


def weights(dtype: torch.dtype = torch.bfloat16) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    shapes = {"embed": (50, 16), "layer.weight": (33, 16), "layer.bias": (33,), "scale": ()}
    return {name: torch.randn(shape, generator=generator).to(dtype) for name, shape in shapes.items()}


def trained(tensors: dict[str, torch.Tensor], seed: int, share: float = 0.02) -> dict[str, torch.Tensor]:
    """Returns new tensors, of which about this share of the elements changed."""
    generator = torch.Generator().manual_seed(seed)
    after = {}
    for name, tensor in tensors.items():
        moved = torch.rand(tensor.shape, generator=generator) < share
        after[name] = torch.where(moved, tensor * 1.5 + 0.1, tensor).to(tensor.dtype)
    return after


class Trainer:
    """Publishes a model, and versions that change a little from step to step."""

    def __init__(self, url: object, model: dict[str, torch.Tensor] | None = None, **options: int) -> None:
        self.url, self.model = str(url), weights() if model is None else model
        self.publisher = Publisher(self.url, **options)
        self.first = self.publisher.publish(self.model.items())
        self._steps = 1

    def step(self) -> Published:
        self._steps += 1
        self.model = trained(self.model, self._steps)
        return self.publisher.publish(self.model.items())

    def server(self, poll_seconds: float = NEVER, **options: object) -> Staging:
        """A server that has applied the first version. It stages the next one when it is taken."""
        staging = Staging(self.url, poll_seconds=poll_seconds, **options)  # type: ignore[arg-type]
        staging.applied(staging.take(1))
        return staging


def bits(array: np.ndarray | torch.Tensor) -> bytes:
    if isinstance(array, torch.Tensor):
        array = array.contiguous().reshape(-1).view(torch.uint8).numpy()
    return array.tobytes()


def assert_has(update: Update, model: dict[str, torch.Tensor]) -> None:
    """Compares the arrays of a version with tensors, bit for bit."""
    assert update.arrays is not None
    found = {name: bits(as_tensor(array)) for name, array in update.arrays.items()}
    assert found == {name: bits(tensor) for name, tensor in model.items()}


class Files(http.server.SimpleHTTPRequestHandler):
    """Serves a folder, and prints nothing."""

    def log_message(self, *_: object) -> None:
        pass


@contextlib.contextmanager
def served(folder: Path, handler: type[Files] = Files) -> Iterator[str]:
    """Serves a folder by HTTP. Yields the address."""
    with http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), functools.partial(handler, directory=folder)
    ) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def wait_for(staging: Staging, step: int) -> Update:
    for _ in range(6000):
        if staging.staged is not None and staging.staged.number == step:
            return staging.staged
        time.sleep(0.01)
    raise AssertionError(f"step {step} was not staged")
