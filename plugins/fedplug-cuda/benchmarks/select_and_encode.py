"""Times the encoding of a model on a GPU beside PyTorch's own steps and the way through the host.

    python plugins/fedplug-cuda/benchmarks/select_and_encode.py

50M elements in 24 tensors, 1 % of all entries, then 8 bits for each value and Rice-coded indices. Prints a
table of medians in milliseconds: a row for each goal of fedplug on GPUs that can be measured today. The
payloads are compared with the CPU's before anything is timed.
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
PAYLOADS = 8
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
        self._codec_of_each = fedplug_torch.Codec("topk(0.01) | qsgd(8)")
        self._states_of_each: Any = None
        self._quantizer = fedplug_torch.Codec("qsgd(8)")
        self._payloads, _ = self._torch_codec.encode_model(self.tensors)
        self._sums = {name: torch.empty(shape, device="cuda") for name in self.tensors}

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

    def encode_each(self) -> None:
        """The same with 1 % of each tensor."""
        _, self._states_of_each = self._codec_of_each.encode_model(self.tensors, self._states_of_each)

    def quantize(self) -> None:
        """Every entry with 8 bits: on the host, as there is no kernel yet."""
        self._quantizer.encode_model(self.tensors)

    def add(self) -> None:
        """Decodes eight payloads, adds them on the host, and copies the sum to the device."""
        total = fedplug.ModelSum({name: x.shape for name, x in self.tensors.items()})
        for _ in range(PAYLOADS):
            total.add(self._payloads)
        for name, x in total.mean().items():
            self._sums[name].copy_(torch.from_numpy(np.asarray(x)))


def median_ms(run: Any, runs: int = RUNS) -> float:
    """The median time of a call, the device's work included."""
    times = []
    for _ in range(runs + 3):
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
    columns = {}
    for dtype in (torch.float32, torch.bfloat16):
        encoding = Encoding(dtype)
        if encoding.encode() != encoding.through_the_host():
            raise SystemExit("the device's payloads are not the CPU's")
        columns[dtype] = {
            "PyTorch's own steps": median_ms(encoding.torch_steps),
            "through the host": median_ms(encoding.through_the_host, 9),
            "selection alone, entries on the host": median_ms(encoding.select),
            f"`fedplug_torch.Codec`, `{EXPRESSION}`".replace("|", "\\|"): median_ms(encoding.encode),
            "`fedplug_torch.Codec`, `topk(0.01) \\| qsgd(8)`": median_ms(encoding.encode_each),
            "`fedplug_torch.Codec`, `qsgd(8)`, dense": median_ms(encoding.quantize, 5),
            f"{PAYLOADS} payloads decoded and added, the mean on the device": median_ms(encoding.add, 5),
        }
        del encoding
        torch.cuda.empty_cache()
    print("| work | float32 | bfloat16 |")
    print("| --- | --- | --- |")
    for name in columns[torch.float32]:
        print(f"| {name} | " + " | ".join(f"{column[name]:.2f} ms" for column in columns.values()) + " |")


if __name__ == "__main__":
    main()
