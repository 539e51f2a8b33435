"""Times encoders against this machine's memory floor: loops with the same reads and writes that only add.

``python -m benchmarks.encoder_floor`` prints the page benchmarks/results/encoder_floor.md. It needs g++.
Loops and encoders take turns in one process, because the memory bandwidth of a virtual machine changes from
minute to minute by a factor of two.
"""

from __future__ import annotations

import ctypes
import datetime
import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import fedplug
from fedplug import kernels
from fedplug.diagnostics.environment import processor

SOURCE = Path(__file__).with_name("memory_loops.cc")
SIZE, TURNS, COLUMNS = 10_000_000, 15, 1000
WAYS = ("in place", "elsewhere", "past the caches")
Array = np.ndarray[Any, Any]


class Walk(NamedTuple):
    """Number of arrays of the tensor's size that one walk reads and writes."""

    reads: int
    writes: int

    def __str__(self) -> str:
        """Formats the bytes as in the table."""
        return f"{4 * self.reads} + {4 * self.writes}"


SUM, READ = Walk(2, 1), Walk(1, 0)
ENCODERS = {
    "qsgd(8)": [READ],
    "topk(0.01)": [SUM],
    "randomk(0.01, error_feedback=True)": [SUM],
    "sign": [Walk(2, 0), SUM],
}
"""The walks that each encoder needs at least."""

TEXT = """# Encoders over the floor of the memory

Written by `python -m benchmarks.encoder_floor` on {date}:
{machine}, load {load:.1f} when it began.

{size:,} float32; medians of {turns} turns, in each of which every loop and every encoder runs once, with
other arrays in the caches. GB/s are bytes of the dense tensor, 4 an element, over the time. A loop reads and
writes whole arrays and does nothing but add, on as many threads as the kernels; "past the caches" is with
stores that do not read first what they write over. In [encoders.md](encoders.md) the same call runs again and
again, and finds some of its arrays in the caches.

| bytes read + written an element | in place | elsewhere | past the caches |
| --- | ---: | ---: | ---: |
{loops}

The floor of an encoder is the time of the walks that it cannot do without, each in the fastest of these ways.
It is encoded by `Codec.encode`, with the container.

| encoder | bytes read + written an element | floor GB/s | encode GB/s | time over the floor |
| --- | --- | ---: | ---: | ---: |
{encoders}

What is above the floor: `qsgd` draws a random word for every element, which takes a core longer
than to read it. Selections look at a sample first, and at the end gather, code and check what they send. An
encoder that may refuse an update must not write over its residual before it has seen all, and so writes it
elsewhere: the loop "past the caches" is the bound of `randomk`. `sign` walks several
times, partly in NumPy on one thread.

`countsketch(0.1)` adds every element to a random one of 1,000,000 places, on each thread those of its part of
the places. Where the places are known beforehand, in order of the parts, these additions make
{additions:.1f} GB/s of the dense tensor; with the hashing, and finding out what is in whose part, the encoder
makes {sketch:.1f}.
"""


class Loops:
    """The compiled loops and their arrays."""

    def __init__(self, folder: str, threads: int) -> None:
        """Compiles the loops for this processor."""
        library = Path(folder) / "memory_loops.so"
        flags = ["-O3", "-march=native", "-std=c++17", "-fopenmp", "-shared", "-fPIC"]
        subprocess.run(["g++", *flags, "-o", library, SOURCE], check=True)
        os.environ["OMP_NUM_THREADS"] = str(threads)
        os.environ["OMP_WAIT_POLICY"] = "passive"  # idle threads must not spin
        self._library = ctypes.CDLL(str(library))
        self._read = [_filled(np.ones(SIZE, np.float32)) for _ in range(3)]
        self._written = [_filled(np.ones(SIZE, np.float32)) for _ in range(2)]
        self._others = [_filled(np.ones(SIZE, np.float32)) for _ in range(3)]

    def walk(self, walk: Walk, way: str) -> None:
        to = self._read if way == "in place" else self._written
        streams = way == "past the caches"
        found = self._library.walk(
            _pointers(self._read), walk.reads, _pointers(to), walk.writes, ctypes.c_int64(SIZE), streams
        )
        assert found, f"there is no loop for {walk}"

    def evict(self) -> None:
        """Fills the caches with other data."""
        for other in self._others:
            self._library.walk(_pointers([other]), 1, None, 0, ctypes.c_int64(SIZE), False)

    def add_at(self, x: Array, place: Array, splits: Array, table: Array) -> None:
        """Adds values at places; each thread has a part of them."""
        arguments = [ctypes.c_void_p(each.ctypes.data) for each in (x, place, splits)]
        self._library.add_at(*arguments, len(splits) - 1, ctypes.c_void_p(table.ctypes.data))


def _filled(values: Array) -> Array:
    """Copies values to memory aligned to a cache line."""
    made = kernels.empty(values.shape, values.dtype)
    made[...] = values
    return made


def _pointers(arrays: list[Array]) -> Any:
    return (ctypes.c_void_p * len(arrays))(*(each.ctypes.data for each in arrays))


def sketch_floor(loops: Loops, threads: int) -> Callable[[], None]:
    """Returns the additions of a sketch whose places are known."""
    rng = np.random.default_rng(0)
    places = SIZE // 10
    place = rng.integers(0, places, SIZE).astype(np.int32)
    part = place.astype(np.int64) * threads // places
    place = place[np.argsort(part, kind="stable")]
    splits = np.concatenate([[0], np.cumsum(np.bincount(part, minlength=threads))]).astype(np.int64)
    x, table = rng.standard_normal(SIZE, np.float32), np.zeros(places, np.float32)
    return lambda: loops.add_at(x, place, splits, table)


def encode_call(expression: str, x: Array) -> Callable[[], object]:
    """Returns a round of a client whose residual is zero."""
    codec = fedplug.codec(expression)
    _, state = codec.encode(x)
    first = {name: np.zeros_like(each) if each.size == x.size else each for name, each in state.items()}
    return lambda: codec.encode(x, first, 1)


def medians(calls: dict[Any, Callable[[], object]], evict: Callable[[], object]) -> dict[Any, float]:
    """The median seconds of each call, with other data in the caches."""
    times: dict[Any, list[float]] = {name: [] for name in calls}
    for _ in range(TURNS + 1):
        for name, call in calls.items():
            evict()
            begin = time.perf_counter()
            call()
            times[name].append(time.perf_counter() - begin)
    return {name: statistics.median(each[1:]) for name, each in times.items()}


def page(folder: str) -> str:
    load, threads = os.getloadavg()[0], kernels.num_threads()
    loops = Loops(folder, threads)
    walks = sorted({walk for each in ENCODERS.values() for walk in each})
    x = _filled(np.random.default_rng(0).standard_normal(SIZE, np.float32)).reshape(-1, COLUMNS)
    calls: dict[Any, Callable[[], object]] = {
        (walk, way): lambda walk=walk, way=way: loops.walk(walk, way)  # type: ignore[misc]
        for walk in walks
        for way in WAYS[: 3 if walk.writes else 1]
    }
    calls |= {each: encode_call(each, x) for each in (*ENCODERS, "countsketch(0.1)")}
    calls["additions"] = sketch_floor(loops, threads)
    speed = {name: 4 * SIZE / seconds / 1e9 for name, seconds in medians(calls, loops.evict).items()}
    return TEXT.format(
        date=datetime.date.today(),
        machine=f"{processor()}, {os.cpu_count()} cores, SIMD level {kernels.simd_level()}",
        load=load,
        size=SIZE,
        turns=TURNS,
        loops="\n".join(
            f"| {walk} | "
            + " | ".join(f"{speed[walk, w]:.1f}" if (walk, w) in speed else "" for w in WAYS)
            + " |"
            for walk in walks
        ),
        encoders="\n".join(_line(name, each, speed) for name, each in ENCODERS.items()),
        additions=speed["additions"],
        sketch=speed["countsketch(0.1)"],
    )


def _line(name: str, walks: list[Walk], speed: dict[Any, float]) -> str:
    fastest = [max(speed[walk, way] for way in WAYS if (walk, way) in speed) for walk in walks]
    floor = 1 / sum(1 / each for each in fastest)
    bytes_moved = ", ".join(map(str, walks))
    return f"| `{name}` | {bytes_moved} | {floor:.1f} | {speed[name]:.1f} | {floor / speed[name]:.2f} |"


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        print(page(folder), end="")


if __name__ == "__main__":
    main()
