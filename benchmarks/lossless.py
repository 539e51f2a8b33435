"""Compares exact differences between versions of a model with other methods: benchmarks/results/lossless.md.

    python -m benchmarks.lossless        # ten minutes, most of them downloads of PyTorch and the peers

PyTorch trains a small transformer; some peers need it, too. So the command installs them in an environment of
their own, runs/lossless/environment, and runs there with this environment's fedplug. All methods run in one
process with one thread; times are medians of processor time.
"""

from __future__ import annotations

import datetime
import functools
import os
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

import fedplug
from benchmarks.tables import table
from fedplug.diagnostics.environment import processor

ROOT = Path(__file__).parents[1]
RESULTS = Path(__file__).parent / "results" / "lossless.md"
WORK = ROOT / "runs" / "lossless"
PACKAGES = ("torch==2.13.0", "numpy", "ml_dtypes", "zstandard", "zipnn", "fireworks-delta-compression")
WEIGHTS = 1 << 22
RATES = (3.8e-7, 1.55e-6, 4.8e-6)  # of synthetic steps: about 1.56, 4.94 and 11.7 % of the weights change
TIMES = 3

Words = NDArray[np.uint16]


class Versions(NamedTuple):
    """Two versions of a model in bfloat16: the words of all arrays, one after the other, and their sizes."""

    name: str
    old: Words
    new: Words
    sizes: tuple[int, ...]

    @property
    def changed(self) -> int:
        """The number of words that differ."""
        return int(np.count_nonzero(self.old != self.new))

    def arrays(self, words: Words) -> dict[str, NDArray[Any]]:
        """Returns the arrays of one version by name."""
        parts = np.split(words.view(ml_dtypes.bfloat16), np.cumsum(self.sizes)[:-1])
        return {str(i): part for i, part in enumerate(parts)}


class Method(NamedTuple):
    """Encodes two versions, and decodes the new one from the old one and the bytes."""

    name: str
    encode: Callable[[Versions], bytes]
    decode: Callable[[Versions, bytes], Any]


def synthetic() -> Iterator[Versions]:
    """Returns normal weights, rounded to bfloat16 before and after a step of Adam's size."""
    rng = np.random.default_rng(0)
    exact = rng.normal(0, 0.02, WEIGHTS).astype(np.float32)
    for rate in RATES:
        moved = exact + (rng.normal(size=WEIGHTS) * rate).astype(np.float32)
        old, new = (each.astype(ml_dtypes.bfloat16).view(np.uint16) for each in (exact, moved))
        yield Versions("synthetic", old, new, (WEIGHTS,))


def trained() -> Iterator[Versions]:
    """A transformer that `lossless_train` trained in bfloat16 with AdamW at 3e-6."""
    folder = WORK / "versions"
    if not (folder / "sizes").exists():
        folder.mkdir(parents=True, exist_ok=True)
        texts = sorted(map(str, (ROOT / "docs").glob("*.md")))
        command = [sys.executable, str(Path(__file__).with_name("lossless_train.py")), str(folder), *texts]
        subprocess.run(command, check=True)
    sizes = tuple(map(int, (folder / "sizes").read_text().split()))
    old = np.fromfile(folder / "0.bin", np.uint16)
    for path in sorted(folder.glob("[1-9]*.bin"), key=lambda path: int(path.stem)):
        yield Versions(f"trained, {path.stem} steps", old, np.fromfile(path, np.uint16), sizes)


def entropy_bits(versions: Versions) -> float:
    """Returns the entropy of places and steps given the exponents of the old words of each array."""
    bits = 0.0
    ends = np.cumsum(versions.sizes)[:-1]
    for old, new in zip(np.split(versions.old, ends), np.split(versions.new, ends), strict=True):
        exponents, changed = old >> 7 & 255, old != new
        steps = new.astype(np.int32) - old
        for exponent in np.unique(exponents):
            members = exponents == exponent
            bits += _entropy([np.sum(members & changed), np.sum(members & ~changed)])
            bits += _entropy(np.unique(steps[members & changed], return_counts=True)[1])
    return bits


def _entropy(counts: Any) -> float:
    positive = np.asarray(counts, float)[np.asarray(counts) > 0]
    return float(-np.sum(positive * np.log2(positive / positive.sum())))


def methods() -> Iterator[Method]:
    """Returns fedplug and the peers; each decoder returns the bytes of the new version."""
    yield Method(
        "**`fedplug.diff`**",
        lambda v: fedplug.diff(v.arrays(v.old), v.arrays(v.new)),
        lambda v, code: b"".join(each.tobytes() for each in fedplug.patch(v.arrays(v.old), code).values()),
    )
    yield Method("int32 places, bfloat16 values", _plain, _from_plain)
    import zstandard

    for level in (1, 3):
        compressor, decompressor = zstandard.ZstdCompressor(level), zstandard.ZstdDecompressor()
        yield Method(
            f"XOR, zstd-{level}",
            lambda v, to=compressor: to.compress((v.old ^ v.new).tobytes()),
            lambda v, code, of=decompressor: (
                np.frombuffer(of.decompress(code), np.uint16) ^ v.old
            ).tobytes(),
        )
    fast, decompressor = zstandard.ZstdCompressor(1), zstandard.ZstdDecompressor()
    yield Method(
        "gaps in uint16, bfloat16 values, zstd-1",
        lambda v: fast.compress(_gaps(v)),
        lambda v, code: _from_gaps(v, decompressor.decompress(code)),
    )
    yield _fireworks()
    yield _zipnn()


def _plain(versions: Versions) -> bytes:
    places = np.flatnonzero(versions.old != versions.new).astype(np.int32)
    return places.tobytes() + versions.new[places].tobytes()


def _from_plain(versions: Versions, code: bytes) -> bytes:
    count = len(code) // 6
    result = versions.old.copy()
    result[np.frombuffer(code, np.int32, count)] = np.frombuffer(code, np.uint16, count, 4 * count)
    return result.tobytes()


def _gaps(versions: Versions) -> bytes:
    """A gap of 2^16 or more cannot occur in these versions."""
    places = np.flatnonzero(versions.old != versions.new)
    gaps = np.diff(places, prepend=0)
    assert gaps.max() < 2**16
    return gaps.astype(np.uint16).tobytes() + versions.new[places].tobytes()


def _from_gaps(versions: Versions, code: bytes) -> bytes:
    gaps, values = np.frombuffer(code, np.uint16).reshape(2, -1)
    result = versions.old.copy()
    result[np.cumsum(gaps, dtype=np.int64)] = values
    return result.tobytes()


def _fireworks() -> Method:
    import torch
    from fireworks_delta_compression import delta_compress, delta_decompress

    def tensor(words: Words) -> Any:
        return torch.from_numpy(words.view(np.int16)).view(torch.bfloat16).reshape(-1, 256)

    checksums: dict[str, Any] = {}

    def encode(v: Versions) -> bytes:
        with warnings.catch_warnings(action="ignore"):
            code, checksums[v.name] = delta_compress(
                src=tensor(v.old), dst=tensor(v.new), compression_format="arc_v3"
            )
        result: bytes = code.numpy().tobytes()
        return result

    def decode(v: Versions, code: bytes) -> bytes:
        with warnings.catch_warnings(action="ignore"):
            new = delta_decompress(
                src=tensor(v.old),
                compressed_diff=torch.frombuffer(bytearray(code), dtype=torch.uint8),
                checksum=checksums[v.name],
                compression_format="arc_v3",
            )
        result: bytes = new.view(torch.int16).numpy().tobytes()
        return result

    return Method("fireworks-delta-compression, arc_v3", encode, decode)


def _zipnn() -> Method:
    from zipnn import ZipNN

    coder = ZipNN(input_format="byte", bytearray_dtype="bfloat16", threads=1)

    return Method(
        "XOR, zipnn",
        lambda v: bytes(coder.compress(bytearray((v.old ^ v.new).tobytes()))),
        lambda v, code: (np.frombuffer(coder.decompress(bytearray(code)), np.uint16) ^ v.old).tobytes(),
    )


def whole_models(cases: Sequence[Versions]) -> Iterator[str]:
    """Yields the table of methods that need no older version."""
    drawn = np.random.default_rng(0).normal(0, 0.02, WEIGHTS)
    models: dict[str, list[NDArray[Any]]] = {
        f"{versions.name.partition(',')[0]}, bfloat16": list(versions.arrays(versions.old).values())
        for versions in (cases[0], cases[-1])
    }
    models |= {f"synthetic, {name}": [drawn.astype(name)] for name in ("float16", "float32")}
    yield from ("## Whole models: bits per weight, and GB of model per second: encode, decode", "")
    rows: dict[str, list[str]] = {}
    for arrays in models.values():
        for name, encode, decode in _coders(arrays):
            code = encode()
            if decode(code) != _joined(arrays):
                raise AssertionError(f"{name} does not return the model")
            bits = 8 * sum(map(len, code)) / sum(each.size for each in arrays)
            gigabytes = sum(each.nbytes for each in arrays) / 1e9
            encoding = gigabytes / _median_seconds(encode)
            decoding = gigabytes / _median_seconds(functools.partial(decode, code))
            rows.setdefault(name, [name]).append(f"{bits:.2f} ({encoding:.2f}, {decoding:.2f})")
    yield table([["method", *models], *rows.values()])


def _coders(
    arrays: list[NDArray[Any]],
) -> Iterator[tuple[str, Callable[[], list[bytes]], Callable[[list[bytes]], bytes]]]:
    import zstandard
    from zipnn import ZipNN

    data, codec = _joined(arrays), fedplug.codec("planes", min_size=0)
    yield (
        "**`planes`**",
        lambda: [codec.encode(each)[0] for each in arrays],
        lambda code: _joined([fedplug.decode(each) for each in code]),
    )
    to, of = zstandard.ZstdCompressor(3), zstandard.ZstdDecompressor()
    yield "zstd-3", lambda: [to.compress(data)], lambda code: of.decompress(code[0])
    zipnn = ZipNN(input_format="byte", bytearray_dtype=arrays[0].dtype.name, threads=1)
    yield (
        "zipnn",
        lambda: [bytes(zipnn.compress(bytearray(data)))],
        lambda code: bytes(zipnn.decompress(bytearray(code[0]))),
    )


def _joined(arrays: list[NDArray[Any]]) -> bytes:
    return b"".join(each.tobytes() for each in arrays)


def _median_seconds(call: Callable[[], Any]) -> float:
    """Returns the median of processor time, of all threads."""
    times = []
    for _ in range(TIMES):
        begin = time.process_time()
        call()
        times.append(time.process_time() - begin)
    return statistics.median(times)


def measured(versions: Versions, method: Method) -> tuple[float, float, float]:
    """Returns bits per changed weight, and GB of model per second of encoding and of decoding."""
    code = method.encode(versions)
    if method.decode(versions, code) != versions.new.tobytes():
        raise AssertionError(f"{method.name} does not return the new version of {versions.name}")
    gigabytes = versions.new.nbytes / 1e9
    encoding = _median_seconds(lambda: method.encode(versions))
    decoding = _median_seconds(lambda: method.decode(versions, code))
    return 8 * len(code) / versions.changed, gigabytes / encoding, gigabytes / decoding


def report() -> str:
    """Measures everything, and returns the page."""
    cases = [*synthetic(), *trained()]
    head = ["method", *(f"{each.name}: {100 * each.changed / each.old.size:.2f} %" for each in cases)]
    bounds = [f"{entropy_bits(each) / each.changed:.2f}" for each in cases]
    rows, speeds = [head, ["entropy given the old exponents", *bounds]], [head]
    for method in methods():
        bits, encoding, decoding = zip(*(measured(each, method) for each in cases), strict=True)
        rows.append([method.name, *(f"{each:.2f}" for each in bits)])
        seconds = zip(encoding, decoding, strict=True)
        speeds.append([method.name, *(f"{there:.2f}, {back:.2f}" for there, back in seconds)])
    load = os.getloadavg()[0]
    words = [
        f"Written by `python -m benchmarks.lossless` on {datetime.date.today()}: {processor()},",
        f"{os.cpu_count()} cores, load {load:.0f}. All methods ran in one process with one thread. Speeds",
        f"are medians of {TIMES} in processor time, which a load also slows; compare them with each other.",
        "",
        f"Synthetic versions are {WEIGHTS:,} normal weights of standard deviation 0.02, rounded to bfloat16",
        "before and after normal steps. The trained ones are weights of a transformer with",
        f"{cases[-1].old.size:,} parameters,",
        "in bfloat16, before and after steps of AdamW with a rate of 3e-6. The rows of fedplug have",
        "the names and checksums of all arrays.",
    ]
    whole = list(whole_models(cases))
    return "\n".join(
        [
            "# Exact differences between versions of a model",
            "",
            *words,
            "",
            "## Bits per changed weight",
            "",
            table(rows),
            "## GB of model per second: encode, decode",
            "",
            table(speeds),
            *whole,
        ]
    )


def write() -> None:
    """Measures everything, and writes the page."""
    RESULTS.write_text(report(), encoding="utf-8")
    print(f"wrote {RESULTS}")


def main() -> None:
    """Calls `write` in the environment with the peers, which is made the first time."""
    there = WORK / "environment" / "bin" / "python"
    if not there.exists():
        subprocess.run([sys.executable, "-m", "venv", str(there.parents[1])], check=True)
        subprocess.run([str(there), "-m", "pip", "install", "--quiet", *PACKAGES], check=True)
    here = next(path for path in sys.path if path.endswith("site-packages"))
    code = f"import site; site.addsitedir({here!r}); from benchmarks.lossless import write; write()"
    one_thread = ("FEDPLUG_NUM_THREADS", "OMP_NUM_THREADS")
    settings = {"FIREWORKS_DELTA_DECOMPRESS_THREADS": "0", **dict.fromkeys(one_thread, "1")}
    os.chdir(ROOT)
    os.execve(there, [str(there), "-c", code], {**os.environ, **settings})


if __name__ == "__main__":
    main()
