"""Compares the codec with other ways to compress the same array.

    python -m benchmarks.codec        # writes benchmarks/results/codec.md

It needs no TensorFlow. It measures the peers that are installed (``pip install zstandard blosc2 zfpy torch``)
and names the others. All calls take turns in one process; every result is checked; figures are medians of
many runs.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import fedplug
from benchmarks.tables import code, table
from fedplug.diagnostics.environment import environment

RESULTS = Path(__file__).parent / "results" / "codec.md"
BESIDE_PEERS = 1_000_000
FRACTION = 0.01

Array = np.ndarray[Any, Any]


class Peer(NamedTuple):
    """A way to compress an array."""

    name: str
    encode: Callable[[], bytes]
    decode: Callable[[bytes], Array]


def in_turn(functions: list[Callable[[], object]], runs: int) -> list[float]:
    """The median seconds of each function; in every run, all are called one after the other."""
    times: list[list[float]] = [[] for _ in functions]
    for function in functions:
        function()
    for _ in range(runs):
        for function, mine in zip(functions, times, strict=True):
            begin = time.perf_counter()
            function()
            mine.append(time.perf_counter() - begin)
    return [statistics.median(mine) for mine in times]


def fedplug_peer(text: str, x: Array) -> Peer:
    codec = fedplug.codec(text)
    return Peer(code(text), lambda: codec.encode(x)[0], fedplug.decode)


def zstandard_peer(module: Any, x: Array) -> Peer:
    packer, unpacker = module.ZstdCompressor(level=3), module.ZstdDecompressor()
    return Peer(
        "zstandard, level 3, of the array",
        lambda: packer.compress(x),
        lambda data: np.frombuffer(unpacker.decompress(data), x.dtype),
    )


def blosc2_peer(module: Any, x: Array) -> Peer:
    return Peer(
        "blosc2, byte shuffle and zstd, of the array",
        lambda: module.pack_array2(x, cparams={"codec": module.Codec.ZSTD, "typesize": 4}),
        lambda data: module.unpack_array2(data),
    )


def zfpy_peer(module: Any, x: Array) -> Peer:
    return Peer("zfpy, 8 bits an element", lambda: module.compress_numpy(x, rate=8), module.decompress_numpy)


def torch_topk_peer(torch: Any, x: Array) -> Peer:
    tensor, k = torch.from_numpy(x), round(FRACTION * x.size)

    def encode() -> bytes:
        indices = torch.topk(tensor.abs(), k).indices
        return bytes(indices.to(torch.int32).numpy().tobytes() + tensor[indices].numpy().tobytes())

    def decode(data: bytes) -> Array:
        dense = np.zeros_like(x)
        dense[np.frombuffer(data, np.int32, k)] = np.frombuffer(data, np.float32, k, 4 * k)
        return dense

    return Peer("torch.topk of 1 %, packed by hand", encode, decode)


def torch_int8_peer(torch: Any, x: Array) -> Peer:
    tensor = torch.from_numpy(x)

    def encode() -> bytes:
        scale = float(tensor.abs().max()) / 127
        codes = (tensor / scale).round_().to(torch.int8)
        return bytes(np.float32(scale).tobytes() + codes.numpy().tobytes())

    def decode(data: bytes) -> Array:
        return np.frombuffer(data, np.int8, offset=4).astype(np.float32) * np.frombuffer(data, np.float32, 1)

    return Peer("torch int8, a scale for the array", encode, decode)


PEERS: tuple[tuple[str, Callable[[Any, Array], Peer]], ...] = (
    ("zstandard", zstandard_peer),
    ("blosc2", blosc2_peer),
    ("zfpy", zfpy_peer),
    ("torch", torch_topk_peer),
    ("torch", torch_int8_peer),
)
OURS = (
    "topk(0.01)",
    "topk(0.01) | qsgd(8)",
    "topk(0.01) | qsgd(4) | rans",
    "qsgd(8)",
    "qsgd(4) | rans",
    "float16",
)


def beside_peers() -> tuple[str, list[str]]:
    """The table, and the missing packages."""
    x = np.random.default_rng(0).standard_normal(BESIDE_PEERS).astype(np.float32)
    peers, missing = [fedplug_peer(text, x) for text in OURS], []
    for package, make in PEERS:
        try:
            peers.append(make(importlib.import_module(package), x))
        except ImportError:
            missing.append(package)
    payloads = [peer.encode() for peer in peers]
    received = [np.array(peer.decode(data)) for peer, data in zip(peers, payloads, strict=True)]
    runs = 20
    encode = in_turn([peer.encode for peer in peers], runs)
    decode = in_turn([lambda p=p, d=d: p.decode(d) for p, d in zip(peers, payloads, strict=True)], runs)
    rows = [["", "bytes / element", "NMSE", "encode, GB/s", "decode, GB/s"]]
    for peer, data, got, *times in zip(peers, payloads, received, encode, decode, strict=True):
        error = float(np.square(x - got.reshape(x.shape)).sum() / np.square(x).sum())
        assert 0 <= error < 1, peer.name
        speeds = (f"{x.nbytes / seconds / 1e9:.3g}" for seconds in times)
        rows.append([peer.name, f"{len(data) / x.size:.4g}", f"{error:.3g}", *speeds])
    return table(rows), sorted(set(missing))


def environment_lines() -> str:
    facts = environment()
    versions = [f"numpy {facts['numpy']}"]
    for package, _ in PEERS:
        if importlib.util.find_spec(package) is not None:
            versions.append(f"{package} {importlib.metadata.version(package)}")
    threads = f"SIMD level {facts['simd']}, {facts['kernel_threads']} threads"
    return f"""- {facts["processor"]}, {facts["cores"]} cores, {threads}
- {facts["system"]}, Python {facts["python"]}, {", ".join(dict.fromkeys(versions))}
- load average {os.getloadavg()[0]:.1f} when the run began"""


def main() -> None:
    peers, missing = beside_peers()
    absent = f" Not installed: {', '.join(missing)}." if missing else ""
    text = f"""# The codec

Written by `python -m benchmarks.codec`; normal float32 numbers; medians; functions in turn in one process.

{environment_lines()}

## Beside what one would use instead

10^6 elements. Speeds count the bytes of the dense array. NMSE is the normalised mean squared error of one
round: of sparse encoders it is what error feedback sends later.{absent}

{peers}"""
    RESULTS.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
