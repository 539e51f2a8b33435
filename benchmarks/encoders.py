"""Writes the table of all encoders: the bytes, error, state and time of each. It knows encoders only by name.

``python -m benchmarks.encoders`` writes benchmarks/results/encoders.md, on the CPU. With expressions, for
instance of plugins, it only prints their lines.
"""

from __future__ import annotations

import argparse
import datetime
import os
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

import fedplug
from benchmarks.tables import code, table
from fedplug import kernels
from fedplug.diagnostics.environment import processor
from fedplug.ops.lowering import use_lowering

RESULTS = Path(__file__).parent / "results" / "encoders.md"
REPEATS = 5
ENOUGH_SECONDS = 2.0
Array = np.ndarray[Any, Any]
LOWERINGS = ("fused", "reference")
_BYTES = tf.TensorSpec([None], tf.uint8)
_COLUMNS = 1000  # a matrix, for encoders that compress only matrices
BASELINES = (
    "terngrad",
    "eden(4)",
    "eden(2)",
    "eden(1)",
    "powersgd(2)",
    "threshold(2.5758)",
    "dgc(0.01)",
)
"""Encoders of fedplug-baselines, which are written to be read: their times say nothing of the methods."""
EXPRESSIONS = (
    "identity",
    "float16",
    "bfloat16",
    "qsgd(8, block_size=256, rounding='nearest')",
    "qsgd(8)",
    "qsgd(4)",
    "qsgd(2)",
    "qsgd(4) | rans",
    "sign",
    "codebook(8)",
    "codebook(2)",
    "bfp(8)",
    "bfp(5) | rans",
    "bounded(0.01)",
    "bounded(0.01) | rans",
    "countsketch(0.1)",
    "topk(0.01)",
    "randomk(0.01)",
    "randomk(0.01, error_feedback=True)",
    "stc(0.01)",
    "topk(0.01) | rice",
    "topk(0.01) | bfloat16 | rice",
    "topk(0.01) | qsgd(8) | rice",
    "topk(0.01) | qsgd(4) | rice",
    "topk(0.01) | qsgd(4) | rans | rice",
    "topk(count=64, chunk=4096, decay=0.95) | codebook(2) | rans",
    "topk(count=64, chunk=4096) | codebook(2) | offsets(4096)",
    "randomk(0.01) | qsgd(8)",
    *BASELINES,
)

_MADE = """# Encoders

Made by `python -m benchmarks.encoders --size {size}` on {date}:
{machine}, TensorFlow {tensorflow}.

{size:,} normally distributed float32; a first round, with an empty residual. Bytes are those of the encoder's
body, without the container (about 40 bytes a tensor). NMSE is the squared error of the decoded tensor over
the squared norm; what an encoder with state misses, it sends later. GB/s are bytes of the dense tensor over
the time from tensor to bytes, and from bytes to tensor: in a TensorFlow graph, then by `fedplug.codec` on
an array, with the container and back into an array that is there. "x reference" says how much faster the
graph is than that of the same encoder in plain TensorFlow (`lowering="reference"`), measured right after it;
bold where it is below {goal:g}. A dash: there is no compiled op on that way, or no reference.

The last rows are of fedplug-baselines, whose code is written to be read and is not timed.
"""
GOAL = 5


def seconds(call: Callable[[], object]) -> float:
    """The median of some runs after a first one; slow calls have fewer runs."""
    call()
    times: list[float] = []
    while len(times) < REPEATS and sum(times) < ENOUGH_SECONDS:
        begin = time.perf_counter()
        call()
        times.append(time.perf_counter() - begin)
    return statistics.median(times)


class Direction:
    """One direction, encoding or decoding, as a graph for each lowering."""

    def __init__(self, function: Callable[..., object], lowerings: Sequence[str], *arguments: object) -> None:
        """Traces the function for these arguments."""
        self._graphs = {}
        for lowering in lowerings:
            with use_lowering(lowering):
                traced = tf.function(function, autograph=False).get_concrete_function(*arguments)
            self._graphs[lowering] = traced

    def __call__(self, *arguments: object) -> object:
        """Runs the compiled ops."""
        return self._graphs["fused"](*arguments)

    @property
    def has_op(self) -> bool:
        """Whether the graph has a compiled op."""
        graph = self._graphs["fused"].graph
        functions = [node.op for body in graph.as_graph_def().library.function for node in body.node_def]
        return any(
            kind.startswith("Fedplug>") for kind in [op.type for op in graph.get_operations()] + functions
        )

    def cells(self, dense: int, *arguments: object) -> list[str]:
        """GB/s, and the speed relative to the reference."""
        fused, *reference = (seconds(lambda g=graph: g(*arguments)) for graph in self._graphs.values())
        speed = f"{dense / fused / 1e9:.2f}"
        if not reference or not self.has_op:
            return [speed, "-"]
        ratio = reference[0] / fused
        bold = "**" if ratio < GOAL else ""
        return [speed, f"{bold}{ratio:.1f}{bold}"]


def measure(expression: str, x: tf.Tensor) -> list[str]:
    encoder, spec = fedplug.encoder(expression), tf.TensorSpec(x.shape, x.dtype)
    state, round_num = encoder.init_state(spec), tf.constant(1)

    def encode(x: tf.Tensor, state: object) -> object:
        payload, next_state = encoder.encode(x, state, round_num)
        return encoder.to_wire(payload, spec), next_state

    def decode(body: tf.Tensor) -> tf.Tensor:
        return encoder.decode(encoder.from_wire(body, spec), spec)

    lowerings = LOWERINGS[:1] if encoder.capabilities.needs_op_library else LOWERINGS
    forth, back = Direction(encode, lowerings, x, state), Direction(decode, lowerings, _BYTES)
    body, _ = forth(x, state)
    size, dense = x.shape.num_elements(), x.shape.num_elements() * x.dtype.size
    error = back(body) - x
    nmse = float(tf.reduce_sum(error**2) / tf.reduce_sum(x**2))
    state_bytes = sum(part.shape.num_elements() * part.dtype.size for part in state.values())
    times = ["-"] * 6
    if expression not in BASELINES:
        times = [*forth.cells(dense, x, state), *back.cells(dense, body), *codec_cells(expression, x.numpy())]
    return [
        code(expression),
        code(encoder.wire_id),
        f"{len(body) / size:.4f}",
        f"{nmse:.3g}",
        *times,
        f"{state_bytes / size:g}",
        "yes" if encoder.capabilities.unbiased else "no",
    ]


def codec_cells(expression: str, x: Array) -> list[str]:
    """GB/s of encoding and decoding without TensorFlow."""
    codec = fedplug.codec(expression)
    _, state = codec.encode(x)
    first = {name: np.zeros_like(each) if each.size == x.size else each for name, each in state.items()}
    payload, _ = codec.encode(x, first, 1)
    back = fedplug.decode(payload)
    out = np.empty_like(x)
    ways = [seconds(lambda: codec.encode(x, first, 1)), seconds(lambda: fedplug.decode(payload, out=out))]
    np.testing.assert_array_equal(out, back)
    return [f"{x.nbytes / way / 1e9:.2f}" for way in ways]


def page(expressions: Sequence[str], size: int) -> str:
    """The whole file for these encoders."""
    load = os.getloadavg()[0]
    numbers = np.random.default_rng(0).standard_normal(size).astype(np.float32)
    x = tf.constant(numbers.reshape(-1, _COLUMNS) if size % _COLUMNS == 0 else numbers)
    head = [
        "encoder",
        "wire id",
        "bytes/element",
        "NMSE",
        "encode GB/s",
        "x reference",
        "decode GB/s",
        "x reference",
        "codec: encode GB/s",
        "decode GB/s",
        "state bytes/element",
    ]
    rows = [[*head, "unbiased"]]
    with tf.device("/CPU:0"):
        rows += [measure(expression, x) for expression in expressions]
    made = _MADE.format(
        size=size,
        date=datetime.date.today(),
        machine=f"{processor()}, {os.cpu_count()} cores, SIMD level {kernels.simd_level()}, "
        f"load {load:.1f} when it began",
        tensorflow=tf.__version__,
        goal=GOAL,
    )
    return made + table(rows, texts=(0, 1, len(head)))


def main() -> None:
    """Measures and prints the table; writes it to its file if no encoder is named."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.encoders", description=main.__doc__)
    parser.add_argument("encoders", metavar="ENCODER", nargs="*", help="expressions; default: all")
    parser.add_argument("--size", type=int, default=10_000_000, help="elements of the tensor")
    arguments = parser.parse_args()
    text = page(arguments.encoders or EXPRESSIONS, arguments.size)
    if not arguments.encoders:
        RESULTS.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
