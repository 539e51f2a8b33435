"""Measures a server's memory while it adds N compressed updates: one accumulator for any N.

Each payload is decoded directly into the sum: by the encoder alone, and by a TFF process in fedplug's
runtime. These are compared with TFF's encoded sum in TFF's own runtime, and with decoding all updates before
adding them. Every number is the peak memory of a separate process, including the worker processes it starts.
Updates are generated one at a time, as they would arrive.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff
from tqdm import tqdm

import fedplug
from fedplug.encoders import ModelEncoder

ENCODER = "topk(0.01, error_feedback=False)"


def update(seed: tf.Tensor, size: int) -> tf.Tensor:
    """Returns a client's update."""
    return tf.random.stateless_uniform([size], [seed, 0], -1.0, 1.0)


def add_as_they_arrive(clients: int, size: int) -> None:
    """Adds updates with the encoder alone: `ModelEncoder.accumulate`."""
    encoder = ModelEncoder(fedplug.encoder(ENCODER), [tf.TensorSpec([size])])
    encode = tf.function(lambda seed: encoder.encode([update(seed, size)], encoder.init_state(), 0)[0])
    add = tf.function(lambda sums, buffers: encoder.accumulate(sums, buffers, tf.constant(1.0)))
    sums = (tf.zeros([size]),)
    for seed in range(clients):
        sums = add(sums, encode(tf.constant(seed)))


def decode_then_add(clients: int, size: int) -> None:
    """Decodes every update first, and then adds them."""
    encoder = ModelEncoder(fedplug.encoder(ENCODER), [tf.TensorSpec([size])])
    encode = tf.function(lambda seed: encoder.encode([update(seed, size)], encoder.init_state(), 0)[0])
    decode = tf.function(encoder.decode)
    decoded = [decode(encode(tf.constant(seed)))[0].numpy() for seed in range(clients)]
    sum(decoded)


def add_in_a_process(factory: tff.aggregators.UnweightedAggregationFactory, clients: int, size: int) -> None:
    """Adds updates in a TFF process of an aggregation factory; the clients generate them."""
    process = factory.create(tff.TensorType(np.float32, [size]))

    @tff.tensorflow.computation(np.int32)
    def make(seed: tf.Tensor) -> tf.Tensor:
        return update(seed, size)

    @tff.federated_computation(tff.FederatedType(np.int32, tff.CLIENTS))
    def total(seeds: object) -> object:
        return process.next(process.initialize(), tff.federated_map(make, seeds)).result

    total(list(range(clients)))


def fedplug_process(clients: int, size: int) -> None:
    """Adds updates with fedplug's sum in fedplug's runtime."""
    fedplug.use_runtime("inprocess")
    add_in_a_process(fedplug.tff.process.build_sum_factory(ENCODER), clients, size)


def stock_process(clients: int, size: int) -> None:
    """Adds updates with TFF's encoded sum, 8 bits per element, in TFF's runtime."""
    fedplug.use_runtime("native")
    factory = tff.aggregators.EncodedSumFactory.quantize_above_threshold(8, threshold=1)
    add_in_a_process(factory, clients, size)


WAYS: dict[str, Callable[[int, int], None]] = {
    "as they arrive": add_as_they_arrive,
    "in a process": fedplug_process,
    "TFF's encoded sum": stock_process,
    "decode, then add": decode_then_add,
}


def peak() -> float:
    """Returns the peak memory of this process and its children so far, in MB (Linux)."""
    processes = [os.getpid()]
    for parent in processes:  # the list grows during the loop
        for tasks in Path(f"/proc/{parent}/task").glob("*/children"):
            processes += [int(child) for child in tasks.read_text(encoding="ascii").split()]
    return sum(_peak_of(process) for process in processes)


def _peak_of(process: int) -> float:
    try:
        lines = Path(f"/proc/{process}/status").read_text(encoding="ascii").splitlines()
    except FileNotFoundError:  # the process has ended
        return 0.0
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM")), 0.0)


def measure_apart(way: str, clients: int, size: int) -> float:
    """Returns the peak memory in MB of a new process that adds the updates, because a peak never falls."""
    command = [sys.executable, __file__, "--measure", way, "--clients", str(clients), "--size", str(size)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, stdin=subprocess.DEVNULL)
    return float(done.stdout.split()[-1])


def compare(counts: list[int], size: int) -> dict[str, list[float]]:
    """Measures MB for every way and every number of clients."""
    with tqdm(total=len(WAYS) * len(counts), unit="process") as progress:
        results: dict[str, list[float]] = {}
        for way in WAYS:
            for count in counts:
                progress.set_description(f"{way}, {count} clients")
                results.setdefault(way, []).append(measure_apart(way, count, size))
                progress.update()
    return results


def main() -> None:
    """Reads the arguments, measures and prints a table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--clients", type=int, nargs="+", default=[10, 100, 1000], metavar="N")
    parser.add_argument("--size", type=int, default=200_000, help="parameters of the model")
    parser.add_argument("--measure", choices=WAYS, help="measure one way in this very process, print MB")
    arguments = parser.parse_args()
    if arguments.measure:
        WAYS[arguments.measure](arguments.clients[0], arguments.size)
        print(peak())
        return
    results = compare(arguments.clients, arguments.size)
    print(
        f"\npeak memory in MB, all of TensorFlow included; one dense update is {arguments.size * 4e-6:.1f} MB"
    )
    print(f"{'clients':18}" + "".join(f"{count:>8,}" for count in arguments.clients) + "  last / first")
    for way, peaks in results.items():
        print(
            f"{way:18}"
            + "".join(f"{megabytes:8.0f}" for megabytes in peaks)
            + f"{peaks[-1] / peaks[0]:14.2f}"
        )


if __name__ == "__main__":
    main()
