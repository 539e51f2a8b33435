"""Times the encoding of a model on a GPU beside PyTorch's own steps and the way through the host.

    python plugins/fedplug-cuda/benchmarks/select_and_encode.py

50M elements in 24 tensors, 1 % of all entries, then 8 bits for each value and Rice-coded indices. Prints a
table of medians in milliseconds. The payloads are compared with the CPU's before anything is timed.
"""

from __future__ import annotations

import statistics
import time
from typing import Any

import fedplug_torch
import ml_dtypes
import numpy as np
import torch
from fedplug_cuda import grouped_topk_residual

import fedplug
from fedplug import kernels
from fedplug.ops.types import GroupedTopK

ELEMENTS, TENSORS, RUNS = 50_331_648, 24, 21
EXPRESSION = "topk(0.01, scope='model') | qsgd(8)"
K = ELEMENTS // 100


def host(x: torch.Tensor) -> np.ndarray[Any, Any]:
    """A copy of a tensor as a NumPy array."""
    if x.dtype is torch.bfloat16:
        return x.cpu().view(torch.int16).numpy().view(ml_dtypes.bfloat16)
    return x.cpu().numpy()


class Encoding:
    """The ways to encode one model; each method is one round."""

    def __init__(self, dtype: torch.dtype) -> None:
        """Makes the model, of normal numbers."""
        torch.manual_seed(0)
        shape = (2048, ELEMENTS // TENSORS // 2048)
        self.tensors = {f"layer{i}": torch.randn(shape, device="cuda").to(dtype) for i in range(TENSORS)}
        self.codec = fedplug.codec(EXPRESSION)
        self._torch_codec = fedplug_torch.Codec(self.codec)
        self._state: Any = None
        self._states: Any = None
        self._residuals = [torch.zeros(shape, device="cuda") for _ in self.tensors]

    def torch_steps(self) -> None:
        """Top-k of each tensor, int8 values, and the entries on the host: what people write themselves."""
        for x in self.tensors.values():
            flat = x.reshape(-1)
            _, indices = torch.topk(flat.abs(), flat.numel() // 100, sorted=False)
            values = flat[indices]
            scale = values.abs().max() / 127
            (values / scale).round().to(torch.int8).cpu()
            indices.to(torch.int32).cpu()
            flat.index_fill(0, indices, 0)

    def through_the_host(self) -> dict[str, bytes]:
        """A copy of the model to the host, and the CPU's codec there."""
        arrays = {name: host(x) for name, x in self.tensors.items()}
        payloads, self._state = self.codec.encode_model(arrays, self._state, in_place=self._state is not None)
        return payloads

    def select(self) -> GroupedTopK:
        """The selection on the device, with its entries on the host."""
        deltas = [x.float() for x in self.tensors.values()]
        found = grouped_topk_residual(deltas, self._residuals, K)
        self._residuals = found.residuals
        return found

    def encode(self) -> dict[str, bytes]:
        """fedplug_torch's codec, whose payloads and residuals are those of the CPU."""
        payloads, self._states = self._torch_codec.encode_model(self.tensors, self._states)
        return payloads


def median_ms(run: Any) -> float:
    """The median time of a call, the device's work included."""
    times = []
    for _ in range(RUNS + 3):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        run()
        torch.cuda.synchronize()
        times.append(time.perf_counter() - begin)
    return 1e3 * statistics.median(times[3:])


def main() -> None:
    """Compares the payloads, then times all ways."""
    print(
        f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}, {kernels.num_threads()} CPU threads\n"
    )
    print("| dtype | PyTorch's own steps | through the host | selection alone | fedplug_torch.Codec |")
    print("| --- | --- | --- | --- | --- |")
    for dtype in (torch.float32, torch.bfloat16):
        encoding = Encoding(dtype)
        if encoding.encode() != encoding.through_the_host():
            raise SystemExit("the device's payloads are not the CPU's")
        ways = (encoding.torch_steps, encoding.through_the_host, encoding.select, encoding.encode)
        times = " | ".join(f"{median_ms(way):.2f} ms" for way in ways)
        print(f"| {str(dtype).removeprefix('torch.')} | {times} |", flush=True)


if __name__ == "__main__":
    main()
