"""A server's memory while it adds up N compressed updates: one accumulator, whatever N is.

Each payload is decoded straight into the sum and forgotten. Next to it the obvious way: decode all of them,
then add up. For every N a process of its own measures by how much its peak memory grows beyond that of adding
up three. The payloads are made one at a time, as they would arrive.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

from tqdm import tqdm

WAYS = ("as they arrive", "decode, then add")


def measure(way: str, clients: int, size: int) -> float:
    """Peak memory that adding up takes, in MB above what was in use before it began; in this process."""
    import numpy as np
    import tensorflow as tf

    import fedplug
    from fedplug.encoders import ModelEncoder

    encoder = ModelEncoder(fedplug.encoder("topk(0.01, error_feedback=False)"), [tf.TensorSpec([size])])

    @tf.function
    def encode(seed: tf.Tensor) -> tuple[tf.Tensor, ...]:
        update = tf.random.stateless_uniform([size], [seed, 0], -1.0, 1.0)
        return encoder.encode([update], encoder.init_state(), 0)[0]

    decode = tf.function(encoder.decode)
    add = tf.function(lambda sums, buffers: encoder.accumulate(sums, buffers, tf.constant(1.0)))

    def total(count: int) -> np.ndarray:
        if way == WAYS[0]:
            sums = (tf.zeros([size]),)
            for seed in range(count):
                sums = add(sums, encode(tf.constant(seed)))
            return sums[0].numpy()
        return sum(decoded[0].numpy() for decoded in [decode(encode(tf.constant(s))) for s in range(count)])

    total(3)  # traces the functions and lets the allocator take what a step takes
    before = peak()
    total(clients)
    return peak() - before


def peak() -> float:
    """The most memory this process ever had, in MB (Linux)."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024


def measure_apart(way: str, clients: int, size: int) -> float:
    """`measure` in a fresh process: the peak of a process never falls."""
    command = [sys.executable, __file__, "--measure", way, "--clients", str(clients), "--size", str(size)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return float(done.stdout.split()[-1])


def compare(counts: list[int], size: int) -> dict[str, list[float]]:
    """MB for every way and every number of clients."""
    with tqdm(total=len(WAYS) * len(counts), unit="process") as progress:
        results: dict[str, list[float]] = {}
        for way in WAYS:
            for count in counts:
                progress.set_description(f"{way}, {count} clients")
                results.setdefault(way, []).append(measure_apart(way, count, size))
                progress.update()
    return results


def main() -> None:
    """Reads the arguments, measures, prints a table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--clients", type=int, nargs="+", default=[10, 100, 1000], metavar="N")
    parser.add_argument("--size", type=int, default=200_000, help="parameters of the model")
    parser.add_argument("--measure", choices=WAYS, help="measure one way in this very process, print MB")
    arguments = parser.parse_args()
    if arguments.measure:
        print(measure(arguments.measure, arguments.clients[0], arguments.size))
        return
    results = compare(arguments.clients, arguments.size)
    print(f"\nMB on top of adding up 3 clients; one dense update is {arguments.size * 4 / 1e6:.1f} MB")
    print(f"{'clients':16}" + "".join(f"{count:>8,}" for count in arguments.clients))
    for way, growth in results.items():
        print(f"{way:16}" + "".join(f"{megabytes:8.1f}" for megabytes in growth))


if __name__ == "__main__":
    main()
