"""Times the encoding of a model on a GPU beside PyTorch's own steps and the way through the host.

    python plugins/fedplug-cuda/benchmarks/select_and_encode.py

50M elements in 24 tensors, 1 % of all entries, then 8 bits for each value and Rice-coded indices. Prints a
table of medians in milliseconds: the codec of PyTorch with several encoders, payloads of a fixed size, and
sums. The payloads of the first encoder are compared with the CPU's before anything is timed.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

import fedplug_torch
import ml_dtypes
import numpy as np
import torch
from fedplug_cuda import as_device_array, grouped_topk_residual

import fedplug
from fedplug import kernels
from fedplug.ops.types import GroupedTopK

ELEMENTS, TENSORS, RUNS = 50_331_648, 24, 21
EXPRESSION = "topk(0.01, scope='model') | qsgd(8)"
FIXED = "topk(count=64, chunk=4096) | codebook(2) | offsets(4096)"
OTHERS = (
    "topk(0.01) | qsgd(8)",
    "topk(0.01, chunk=4096) | qsgd(8)",
    "stc(0.01)",
    "randomk(0.01) | qsgd(8)",
    "qsgd(8)",
    "bfp(4)",
    "sign",
    "qsgd(8, block_size=256, rounding='nearest')",
    "bfloat16",
)
PAYLOADS = 8
K = ELEMENTS // 100


def host(x: torch.Tensor) -> np.ndarray[Any, Any]:
    """A copy of a tensor as a NumPy array."""
    if x.dtype is torch.bfloat16:
        return x.cpu().view(torch.int16).numpy().view(ml_dtypes.bfloat16)
    return x.cpu().numpy()


class Encoding:
    """The ways to encode one model. Each method is one round."""

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
        self._fixed = fedplug_torch.FixedSize(FIXED)
        self._fixed_residuals = {name: self._fixed.zeros(x) for name, x in self.tensors.items()}
        self._sums = {name: torch.zeros(shape, device="cuda") for name in self.tensors}

    def torch_steps(self) -> None:
        """Top-k of each tensor, int8 values, and the entries on the host: as people write it themselves."""
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

    def encode_with(self, encoder: str) -> Callable[[], object]:
        """A call that encodes the model with another encoder, from its last state on."""
        codec, states = fedplug_torch.Codec(encoder), None

        def once() -> None:
            nonlocal states
            _, states = codec.encode_model(self.tensors, states)

        return once

    def encode_fixed(self) -> None:
        """Payloads of a fixed size, of which nothing is known on the host."""
        for name, x in self.tensors.items():
            self._fixed_residuals[name] = self._fixed.encode(x, self._fixed_residuals[name]).residual

    def recorded(self) -> Callable[[], object]:
        """A call that replays the kernels of `encode_fixed` from a CUDA graph."""
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self.encode_fixed()
        replay: Callable[[], object] = graph.replay
        return replay

    def adding(self, encoder: str) -> Callable[[], object]:
        """A call that adds eight payloads of an encoder to zeros on the device, and averages them."""
        payloads, _ = fedplug_torch.Codec(encoder).encode_model(self.tensors)

        def once() -> None:
            total = fedplug.ModelSum.like({name: as_device_array(x) for name, x in self._sums.items()})
            for _ in range(PAYLOADS):
                total.add(payloads)
            total.mean()

        return once


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


def encodings(encoding: Encoding) -> Iterator[tuple[str, Callable[[], object]]]:
    """The encoders of the table, with a call of each."""
    yield EXPRESSION, encoding.encode
    for encoder in OTHERS:
        yield encoder, encoding.encode_with(encoder)


def code(expression: str) -> str:
    """An expression as code in a table."""
    return "`" + expression.replace("|", "\\|") + "`"


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
            **{code(name): median_ms(run, 7) for name, run in encodings(encoding)},
            **{
                f"{PAYLOADS} payloads of {code(encoder)} added on the device, and their mean": median_ms(
                    encoding.adding(encoder), 5
                )
                for encoder in (EXPRESSION, "qsgd(8)")
            },
        }
        if dtype is torch.float32:
            columns[dtype][f"fixed size, {code(FIXED)}"] = median_ms(encoding.encode_fixed)
            columns[dtype]["the same, replayed from a CUDA graph"] = median_ms(encoding.recorded())
        del encoding
        torch.cuda.empty_cache()
    print("| work | float32 | bfloat16 |")
    print("| --- | --- | --- |")
    for name in columns[torch.float32]:
        times = (column.get(name) for column in columns.values())
        print(f"| {name} | " + " | ".join("" if time is None else f"{time:.2f} ms" for time in times) + " |")


if __name__ == "__main__":
    main()
