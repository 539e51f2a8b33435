"""Measures time and peak memory of the codec, broadcasts and differences at the size of the reader's model.

    python -m benchmarks.at_size                      # GPT-2; writes benchmarks/results/at_size.md
    python -m benchmarks.at_size --models gpt2 llama  # also 1.1 billion parameters

Each row is measured in a process of its own, so that its peak is its own. A row that needs more than the free
memory says so. The rows are kept in ``runs/at_size.jsonl``, and the same command continues after an
interruption. zstandard and PyTorch are measured if they are installed.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import datetime
import importlib
import itertools
import json
import os
import re
import statistics
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

import fedplug
from benchmarks.memory import elsewhere, resident
from benchmarks.tables import table
from fedplug.diagnostics.environment import environment

RESULTS = Path(__file__).parent / "results" / "at_size.md"
RECORDS = Path("runs/at_size.jsonl")
DTYPES = {"float32": np.dtype(np.float32), "bfloat16": np.dtype(ml_dtypes.bfloat16)}
TOPK = "topk(0.01, scope='model') | qsgd(8)"
ENCODERS = ("auto", TOPK, "qsgd(8)")
RUNS = 4
TOO_LARGE = "takes more than the memory of this machine"
BUSY = ": other work shared the machine, so that seconds are too long"

Model = dict[str, NDArray[Any]]
Call = Callable[[], int]  # returns the bytes that it made, or read


def gpt2() -> Iterator[tuple[str, tuple[int, ...]]]:
    """The 148 arrays of GPT-2, 124 million parameters."""
    yield from [("wte", (50257, 768)), ("wpe", (1024, 768)), ("ln_f.weight", (768,)), ("ln_f.bias", (768,))]
    widths = {"ln_1": (768,), "attn.c_attn": (768, 2304), "attn.c_proj": (768, 768)}
    widths |= {"ln_2": (768,), "mlp.c_fc": (768, 3072), "mlp.c_proj": (3072, 768)}
    for layer, (name, shape) in itertools.product(range(12), widths.items()):
        yield f"h.{layer}.{name}.weight", shape
        yield f"h.{layer}.{name}.bias", shape[-1:]


def llama() -> Iterator[tuple[str, tuple[int, ...]]]:
    """The 201 arrays of TinyLlama, 1.1 billion parameters."""
    yield from [("embed", (32000, 2048)), ("lm_head", (32000, 2048)), ("norm", (2048,))]
    widths = {"q": (2048, 2048), "k": (256, 2048), "v": (256, 2048), "o": (2048, 2048), "norm_1": (2048,)}
    widths |= {"gate": (5632, 2048), "up": (5632, 2048), "down": (2048, 5632), "norm_2": (2048,)}
    for layer, (name, shape) in itertools.product(range(22), widths.items()):
        yield f"layers.{layer}.{name}", shape


MODELS = {"gpt2": gpt2, "llama": llama}


def made(model: str, dtype: str, seed: int = 0) -> Model:
    """Weights or an update. Numbers repeat after 2^22, times another factor, which is quicker to draw."""
    numbers = np.random.default_rng(seed).standard_normal(2**22, np.float32)
    factors, arrays = itertools.count(1), {}
    for name, shape in MODELS[model]():
        array = arrays[name] = np.empty(shape, DTYPES[dtype])
        flat = array.reshape(-1)
        for begin in range(0, flat.size, numbers.size):
            block = flat[begin : begin + numbers.size]
            block[:] = numbers[: block.size] * np.float32(0.02 + 1e-5 * next(factors))
    return arrays


def stepped(old: Model) -> Model:
    """The weights after a step of fine-tuning, which changes a tenth of those in bfloat16."""
    step = np.random.default_rng(1).standard_normal(2**22, np.float32) * np.float32(2e-3)
    new = {}
    for name, array in old.items():
        scale = np.resize(step, array.size).reshape(array.shape)
        new[name] = (array * (1 + scale)).astype(array.dtype)
    return new


def size_of(arrays: Model) -> int:
    return sum(array.nbytes for array in arrays.values())


def bytes_of(payloads: dict[str, bytes]) -> int:
    return sum(map(len, payloads.values()))


def payloads_of(model: str, dtype: str, encoder: str) -> dict[str, bytes]:
    return fedplug.codec(encoder).encode_model(made(model, dtype))[0]


def snapshots_of(model: str, dtype: str) -> list[bytes]:
    """Returns the snapshots of two versions."""
    found = []
    for weights in (arrays := made(model, dtype), stepped(arrays)):
        server = fedplug.Broadcaster()
        server.publish(weights)
        found.append(server.message(None))
    return found


def difference_of(model: str, dtype: str) -> bytes:
    old = made(model, dtype)
    return fedplug.diff(old, stepped(old))


def memcpy(model: str, dtype: str) -> Call:
    arrays, copies = made(model, dtype), made(model, dtype)

    def call() -> int:
        for name, array in arrays.items():
            np.copyto(copies[name], array)
        return size_of(copies)

    return call


def encode(model: str, dtype: str, encoder: str, *, in_place: bool = False) -> Call:
    arrays, codec, state = made(model, dtype), fedplug.codec(encoder), None
    rounds = itertools.count()

    def call() -> int:
        nonlocal state
        payloads, state = codec.encode_model(arrays, state, next(rounds), in_place=in_place)
        return bytes_of(payloads)

    return call


def add(model: str, dtype: str, encoder: str) -> Call:
    payloads = elsewhere(payloads_of, model, dtype, encoder)
    total: fedplug.ModelSum | None = None

    def call() -> int:
        nonlocal total
        if total is None:
            total = fedplug.ModelSum(dict(MODELS[model]()))
        total.add(payloads, 0.5)
        return bytes_of(payloads)

    return call


def mean(model: str, dtype: str, *, again: bool = False) -> Call:
    total = fedplug.ModelSum.like(made(model, dtype))
    total.add(elsewhere(payloads_of, model, dtype, TOPK), 2)
    out = made(model, "float32") if again else None
    return lambda: size_of(total.mean(out=out))


def decode(model: str, dtype: str, encoder: str, *, again: bool = False) -> Call:
    payloads = elsewhere(payloads_of, model, dtype, encoder)
    out = made(model, dtype) if again else None

    def call() -> int:
        fedplug.decode_model(payloads, out=out, max_bytes=2**40)
        return bytes_of(payloads)

    return call


def publish(model: str, dtype: str) -> Call:
    server, arrays = fedplug.Broadcaster(), made(model, dtype)
    versions = itertools.cycle([arrays, stepped(arrays)])

    def call() -> int:
        server.publish(next(versions))
        return len(server.message(None))

    return call


def apply(model: str, dtype: str) -> Call:
    receiver, messages = fedplug.Receiver(max_bytes=2**40), elsewhere(snapshots_of, model, dtype)
    turns = itertools.cycle(messages)

    def call() -> int:
        receiver.apply(message := next(turns))
        return len(message)

    return call


def diff(model: str, dtype: str) -> Call:
    old = made(model, dtype)
    new = stepped(old)
    return lambda: len(fedplug.diff(old, new))


def patch(model: str, dtype: str, *, again: bool = False) -> Call:
    old, message = made(model, dtype), elsewhere(difference_of, model, dtype)
    out = made(model, dtype) if again else None

    def call() -> int:
        fedplug.patch(old, message, max_bytes=2**40, out=out)
        return len(message)

    return call


def zstd(model: str, dtype: str) -> Call:
    arrays = made(model, dtype)
    packer = importlib.import_module("zstandard").ZstdCompressor(level=1)
    return lambda: sum(len(packer.compress(array.view(np.uint8))) for array in arrays.values())


def torch_topk(model: str, dtype: str) -> Call:
    """Selects 1 % of each tensor, casts values to bfloat16 and indices to int32; without error feedback."""
    torch = importlib.import_module("torch")
    torch.set_num_threads(os.cpu_count())
    tensors = [torch.from_numpy(array.astype(np.float32)) for array in made(model, dtype).values()]
    tensors = [each.to(getattr(torch, dtype)) for each in tensors]

    def call() -> int:
        made = 0
        for tensor in tensors:
            flat = tensor.reshape(-1)
            indices = torch.topk(flat.abs(), max(1, flat.numel() // 100), sorted=False).indices
            made += 2 * flat[indices].to(torch.bfloat16).numel() + 4 * indices.to(torch.int32).numel()
        return made

    return call


WAYS: dict[str, Callable[[str, str], Call]] = {
    "memcpy": memcpy,
    **{f"encode_model, {each}": partial(encode, encoder=each) for each in ENCODERS},
    **{
        f"encode_model, {each}, in_place": partial(encode, encoder=each, in_place=True)
        for each in ENCODERS[:2]
    },
    **{f"ModelSum.add, {each}": partial(add, encoder=each) for each in ENCODERS},
    "ModelSum.mean": mean,
    "ModelSum.mean, out=": partial(mean, again=True),
    **{f"decode_model, {each}": partial(decode, encoder=each) for each in ENCODERS},
    **{f"decode_model, {each}, out=": partial(decode, encoder=each, again=True) for each in ENCODERS},
    "Broadcaster.publish": publish,
    "Receiver.apply": apply,
    "diff": diff,
    "patch": patch,
    "patch, out=": partial(patch, again=True),
    "zstandard, level 1": zstd,
    "torch.topk of 1 %, casts": torch_topk,
}


def measured(way: str, model: str, dtype: str) -> dict[str, Any]:
    """Returns the seconds of each run, the bytes, and the peak above the memory before the first run."""
    Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")  # memory ends with this
    try:
        call = WAYS[way](model, dtype)
        before, seconds = resident(), []
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # forgets the peak
        for _ in range(RUNS):
            begin = time.perf_counter()
            made_bytes = call()
            seconds.append(time.perf_counter() - begin)
        return {"seconds": seconds, "bytes": made_bytes, "peak": resident("VmHWM") - before}
    except ImportError as error:
        return {"failed": f"{error.name} is not installed"}
    except MemoryError:
        return {"failed": TOO_LARGE}


def line(record: dict[str, Any], memcpy_seconds: float) -> list[str]:
    way = record["way"].replace("|", "\\|")
    if "failed" in record:
        return [way, record["failed"], *[""] * 5]
    size = sum(np.prod(shape) for _, shape in MODELS[record["model"]]()) * DTYPES[record["dtype"]].itemsize
    first, then = record["seconds"][0], statistics.median(record["seconds"][1:])
    cells = [f"{first:.3g}", f"{then:.3g}", f"{size / then / 1e9:.2f}", f"{then / memcpy_seconds:.1f}x"]
    cells += [f"{record['bytes'] / 1e6:,.1f}", f"{record['peak'] / 1e9:.2f}"]
    return [way, *cells]


def page(records: list[dict[str, Any]]) -> str:
    here = environment()
    text = f"""# Time and memory at the size of a model

Made by `python -m benchmarks.at_size` on {datetime.date.today()}:
{here["processor"]}, {here["cores"]} cores, SIMD level {here["simd"]}.
The load average is {(load := os.getloadavg()[0]):.1f} at the end{BUSY if load > 2 else ""}.
Each row is a process of its own. "First" is the first call, "then" the median of the next {RUNS - 1}.
GB/s are bytes of the model by "then". The peak is resident memory above the input, which includes an `out=`:
states, sums and results are in it, and the pool of released results.
"""
    for (model, dtype), group in itertools.groupby(records, lambda each: (each["model"], each["dtype"])):
        rows = list(group)
        floor = statistics.median(rows[0]["seconds"][1:])
        size = sum(np.prod(shape) for _, shape in MODELS[model]()) * DTYPES[dtype].itemsize / 1e9
        text += f"\n## {model}, {dtype}: {size:.2f} GB\n\n"
        head = ["", "first, s", "then, s", "GB/s", "beside memcpy", "payload, MB", "peak, GB"]
        text += table([head, *(line(row, floor) for row in rows)])
    return text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--models", nargs="+", choices=MODELS, default=["gpt2"])
    parser.add_argument("--dtypes", nargs="+", choices=DTYPES, default=list(DTYPES))
    parser.add_argument("--ways", default="", help="a regular expression of the rows to measure again")
    given = parser.parse_args()
    RECORDS.parent.mkdir(exist_ok=True)
    kept = {}
    if RECORDS.exists():
        for text in RECORDS.read_text(encoding="utf-8").splitlines():
            record = json.loads(text)
            kept[record["model"], record["dtype"], record["way"]] = record
    for model, dtype, way in itertools.product(given.models, given.dtypes, WAYS):
        again = bool(given.ways) and re.search(given.ways, way) is not None
        if (model, dtype, way) not in kept or again:
            try:
                found = elsewhere(measured, way, model, dtype)
            except concurrent.futures.process.BrokenProcessPool:
                found = {"failed": TOO_LARGE}
            record = {"model": model, "dtype": dtype, "way": way, **found}
            kept[model, dtype, way] = record
            with RECORDS.open("a", encoding="utf-8") as file:
                file.write(json.dumps(record) + "\n")
            print(json.dumps(record), flush=True)
    ordered = [kept[key] for key in itertools.product(MODELS, DTYPES, WAYS) if key in kept]
    RESULTS.write_text(page(ordered), encoding="utf-8")


if __name__ == "__main__":
    main()
