"""The table of all encoders: what each sends, loses, keeps and takes. Knows encoders only by name.

``python -m benchmarks.encoders`` writes benchmarks/results/encoders.md, on the CPU.
"""

from __future__ import annotations

import argparse
import datetime
import os
import platform
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import tensorflow as tf

import fedplug
from fedplug import ops

RESULTS = Path(__file__).parent / "results" / "encoders.md"
REPEATS = 5
EXPRESSIONS = (
    "identity",
    "float16",
    "bfloat16",
    "blockwise8",
    "qsgd(8)",
    "qsgd(4)",
    "qsgd(2)",
    "terngrad",
    "sign",
    "signsgd",
    "eden(8)",
    "eden(4)",
    "eden(2)",
    "eden(1)",
    "topk(0.01)",
    "threshold(2.5758)",
    "randomk(0.01)",
    "dgc(0.01)",
    "stc(0.01)",
    "topk(0.01) | rice",
    "topk(0.01) | bitpack",
    "topk(0.01) | bitmap",
    "topk(0.1) | shortest",
    "topk(0.01) | bfloat16 | rice",
    "topk(0.01) | qsgd(8) | rice",
    "topk(0.01) | qsgd(4) | rice",
    "topk(0.01) | eden(4) | rice",
    "randomk(0.01) | qsgd(8)",
)

_MADE = """# Encoders

Made by `python -m benchmarks.encoders --size {size}` on {date}:
{machine}, TensorFlow {tensorflow}, with {lowering}.

{size:,} normally distributed float32; a first round, with an empty residual. Bytes are those of the encoder's
body, without the container (about 40 bytes a tensor). NMSE is the squared error of the decoded tensor over
the squared norm; what an encoder with state misses, it sends later. GB/s are bytes of the dense tensor over
the time from tensor to bytes, and from bytes to tensor; `identity` hardly copies.

"""


def seconds(call: Callable[[], object]) -> float:
    """The median of some runs after a first one."""
    call()
    times = []
    for _ in range(REPEATS):
        begin = time.perf_counter()
        call()
        times.append(time.perf_counter() - begin)
    return statistics.median(times)


def measure(expression: str, x: tf.Tensor) -> list[str]:
    """One line of the table."""
    encoder, spec = fedplug.encoder(expression), tf.TensorSpec(x.shape, x.dtype)
    state, round_num = encoder.init_state(spec), tf.constant(1)

    @tf.function(autograph=False)
    def encode(x: tf.Tensor, state: object) -> object:
        payload, next_state = encoder.encode(x, state, round_num)
        return encoder.to_wire(payload, spec), next_state

    @tf.function(autograph=False, input_signature=[tf.TensorSpec([None], tf.uint8)])
    def decode(body: tf.Tensor) -> tf.Tensor:
        return encoder.decode(encoder.from_wire(body, spec), spec)

    body, _ = encode(x, state)
    size, dense = x.shape.num_elements(), x.shape.num_elements() * x.dtype.size
    error = decode(body) - x
    nmse = float(tf.reduce_sum(error**2) / tf.reduce_sum(x**2))
    state_bytes = sum(part.shape.num_elements() * part.dtype.size for part in state.values())
    return [
        f"`{expression}`",
        f"`{encoder.wire_id}`",
        f"{len(body) / size:.4f}",
        f"{nmse:.3g}",
        f"{dense / seconds(lambda: encode(x, state)) / 1e9:.2f}",
        f"{dense / seconds(lambda: decode(body)) / 1e9:.2f}",
        f"{state_bytes / size:g}",
        "yes" if encoder.capabilities.unbiased else "no",
    ]


def processor() -> str:
    """As the system names it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        return next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def table(size: int) -> str:
    """The whole file."""
    x = tf.constant(np.random.default_rng(0).standard_normal(size).astype(np.float32))
    head = [
        "encoder",
        "wire id",
        "bytes/element",
        "NMSE",
        "encode GB/s",
        "decode GB/s",
        "state bytes/element",
    ]
    rows = [[*head, "unbiased"], ["---", "---", *["---:"] * 5, "---"]]
    with tf.device("/CPU:0"):
        rows += [measure(expression, x) for expression in EXPRESSIONS]
    made = _MADE.format(
        size=size,
        date=datetime.date.today(),
        machine=f"{processor()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}",
        tensorflow=tf.__version__,
        lowering="the compiled ops" if ops.available() else "the plain-TensorFlow twins",
    )
    lines = ("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows)
    return made + "\n".join(lines) + "\n"


def main() -> None:
    """Measures, prints and writes the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.encoders", description=main.__doc__)
    parser.add_argument("--size", type=int, default=10_000_000, help="elements of the tensor")
    text = table(parser.parse_args().size)
    print(text)
    RESULTS.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
