"""Composes aggregators: small integers, secure sums, clipping, noise, and fedplug inside TFF's.

The aggregator of this example scales values on the clients to 8-bit integers, which any inner sum adds. The
server scales the sum back and derives the range of the next round from it. The aggregator consists of three
functions; `fedplug.tff.process.TransformFactory` provides state, measurements, structured values and the
inner aggregator. The example compares it with compositions of TFF's and fedplug's aggregators.

Clients estimate the mean of a kernel and a bias that drift from round to round. First all clients are honest;
then one of them sends numbers a thousand times too large.
"""

from __future__ import annotations

import argparse
import collections
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff
from tensorflow_privacy import GaussianSumQuery
from tqdm import tqdm

import fedplug
from fedplug.tff.process import (
    Transform,
    TransformFactory,
    build_aggregation_factory,
    build_compressed_sum_factory,
    build_sum_factory,
)

SHAPES = collections.OrderedDict(kernel=[50, 10], bias=[10])
VALUE = tff.to_type(
    collections.OrderedDict((name, tff.TensorType(np.float32, shape)) for name, shape in SHAPES.items())
)
WEIGHT = tff.TensorType(np.float32)
LARGEST = 127  # 8 bits with a sign


class FixedPoint(Transform):
    """Scales floats to 8-bit integers; the server's state is the range that they cover."""

    def init_state(self) -> dict:
        """Returns a guess, which the first round corrects."""
        return {"range": tf.constant(1.0)}

    def forward(self, value: dict, state: dict) -> dict:
        """Scales and rounds on a client, and appends a one, whose sum is the number of clients."""

        def scaled(x: tf.Tensor) -> tf.Tensor:
            return tf.cast(tf.round(LARGEST * tf.clip_by_value(x / state["range"], -1.0, 1.0)), tf.int32)

        return {"numbers": tf.nest.map_structure(scaled, value), "clients": tf.constant(1)}

    def backward(self, total: dict, state: dict) -> dict:
        """Scales back on the server."""
        return tf.nest.map_structure(
            lambda x: tf.cast(x, tf.float32) / LARGEST * state["range"], total["numbers"]
        )

    def next_state(self, total: dict, state: dict) -> dict:
        """Returns a range of three times the largest entry of this round's mean, because clients differ."""
        entries = [tf.reduce_max(tf.abs(x)) for x in tf.nest.flatten(self.backward(total, state))]
        mean = tf.reduce_max(entries) / tf.cast(total["clients"], tf.float32)
        return {"range": tf.maximum(3.0 * mean, 1e-3)}

    def measure(self, total: dict, state: dict) -> dict:
        """Returns the range of the round."""
        return {"range": state["range"], "clients": total["clients"]}


def mean_of(value_sum: Any) -> Any:
    """Returns TFF's weighted mean over a sum."""
    return tff.aggregators.MeanFactory(value_sum_factory=value_sum)


def secure_sum(bound: float) -> Any:
    """Returns TFF's secure sum: the server sees only the sum over all clients."""
    return tff.aggregators.SecureSumFactory(upper_bound_threshold=bound, lower_bound_threshold=-bound)


def follow(quantile: float, initial: float, multiplier: float = 1.0) -> Any:
    """Returns a bound that follows a quantile of the observed norms."""
    return tff.aggregators.PrivateQuantileEstimationProcess.no_noise(
        initial, quantile, learning_rate=0.2, multiplier=multiplier
    )


def clipped(inner: Any) -> Any:
    """Returns TFF's clipping to a high quantile of the norms, after zeroing values far above it."""
    inner = tff.aggregators.clipping_factory(follow(0.8, 30.0), inner)
    return tff.aggregators.zeroing_factory(follow(0.9, 10.0, multiplier=2.0), inner)


def private(inner: Any) -> Any:
    """Returns TFF's differential privacy: clips norms to 60 and adds noise to the sum."""
    return tff.aggregators.DifferentiallyPrivateFactory(GaussianSumQuery(60.0, 2.0), inner)


STACKS: dict[str, Callable[[], Any]] = {
    "mean": lambda: mean_of(tff.aggregators.SumFactory()),
    "mean(fixed point(sum))": lambda: mean_of(TransformFactory(FixedPoint())),
    "mean(fixed point(secure sum))": lambda: mean_of(TransformFactory(FixedPoint(), secure_sum(LARGEST))),
    "mean(randomk(0.5)(secure sum))": lambda: mean_of(
        build_compressed_sum_factory("randomk(0.5)", secure_sum(1e4))
    ),
    "mean(qsgd(8))": lambda: mean_of(build_sum_factory("qsgd(8)")),
    "zeroing(clipping(mean(qsgd(8))))": lambda: clipped(mean_of(build_sum_factory("qsgd(8)"))),
    "zeroing(clipping(float16 mean))": lambda: clipped(build_aggregation_factory(fedplug.encoder("float16"))),
    "mean(private(sum))": lambda: mean_of(private(build_sum_factory("identity", private=True))),
}


class Result(NamedTuple):
    """The result of one composition.

    Attributes:
        error: Relative error of the means of all rounds after the first ten.
        bytes_up: Bytes sent by one client in one round; None if the composition does not count them.
        measurements: The measurements of the last round.
    """

    error: float
    bytes_up: float | None
    measurements: Any


def make_values(rounds: int, clients: int, broken: bool, seed: int) -> tuple[list[list[Any]], list[Any]]:
    """Returns every client's value in every round, and the weighted means of the honest clients."""
    rng = np.random.default_rng(seed)
    center = {name: rng.normal(size=shape) for name, shape in SHAPES.items()}
    weights = client_weights(clients)
    values, means = [], []
    for _ in range(rounds):
        center = {name: x + 0.1 * rng.normal(size=x.shape) for name, x in center.items()}
        of_round = [
            collections.OrderedDict(
                (name, (x + 0.3 * rng.normal(size=x.shape)).astype(np.float32)) for name, x in center.items()
            )
            for _ in range(clients)
        ]
        means.append(
            {name: np.average([v[name] for v in of_round], axis=0, weights=weights) for name in SHAPES}
        )
        if broken:
            of_round[0] = collections.OrderedDict((name, 1000 * x) for name, x in of_round[0].items())
        values.append(of_round)
    return values, means


def client_weights(clients: int) -> list[float]:
    """Returns weights, some of which are twice as large as others."""
    return [1.0 + number % 2 for number in range(clients)]


def run(name: str, rounds: int, clients: int, broken: bool, seed: int) -> Result:
    """Runs all rounds with one composition."""
    values, means = make_values(rounds, clients, broken, seed)
    process = STACKS[name]().create(VALUE, WEIGHT)
    state, errors, metrics = process.initialize(), [], []
    for of_round, mean in zip(values, means, strict=True):
        output = process.next(state, of_round, client_weights(clients))
        state = output.state
        metrics.append(output.measurements)
        errors.append(relative_error(output.result, mean))
    counted = [count for of_round in metrics for count in uplink_bytes(of_round)]
    bytes_up = sum(counted) / rounds / clients if counted else None  # TFF's sum alone does not count
    return Result(float(np.mean(errors[10:])), bytes_up, metrics[-1])


def uplink_bytes(measurements: Any) -> list[int]:
    """Returns the bytes that factories of fedplug report, however deep they are nested."""
    if not isinstance(measurements, Mapping):
        return []
    nested = [count for member in measurements.values() for count in uplink_bytes(member)]
    return [int(measurements["uplink_bytes"])] if "uplink_bytes" in measurements else nested


def relative_error(found: Any, true: Any) -> float:
    """Returns ``||found - true|| / ||true||`` over all tensors."""
    difference, size = (
        np.concatenate([np.ravel(x) for x in tensors])
        for tensors in ([found[n] - true[n] for n in SHAPES], [true[n] for n in SHAPES])
    )
    return float(np.linalg.norm(difference) / np.linalg.norm(size))


def compare(rounds: int, clients: int, seed: int) -> dict[str, tuple[Result, Result]]:
    """Runs every composition with honest clients only and with a broken one."""
    results = {}
    with fedplug.use_runtime("inprocess"), tqdm(total=2 * len(STACKS), unit="run") as progress:
        for name in STACKS:
            progress.set_description(name)
            pair = []
            for broken in (False, True):
                pair.append(run(name, rounds, clients, broken, seed))
                progress.update()
            results[name] = tuple(pair)
    return results


def plot(results: dict[str, tuple[Result, Result]], path: Path) -> None:
    """Plots the errors as bars."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 4), layout="constrained")
    axes = figure.subplots()
    places = np.arange(len(results))
    axes.barh(places - 0.2, [honest.error for honest, _ in results.values()], 0.4, label="all honest")
    axes.barh(places + 0.2, [broken.error for _, broken in results.values()], 0.4, label="one broken")
    axes.set(xscale="log", xlabel="relative error of the mean")
    axes.set_yticks(places, list(results))
    axes.invert_yaxis()
    axes.legend()
    figure.savefig(path, dpi=120)


def main() -> None:
    """Reads the arguments, runs every composition and prints a table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw the errors (needs matplotlib)")
    arguments = parser.parse_args()
    # TFF's secure sum leaves an assertion unused, about which TensorFlow logs 40 lines.
    tf.get_logger().setLevel("FATAL")
    results = compare(arguments.rounds, clients=20, seed=arguments.seed)
    print(f"\n{'relative error of the mean':34}  all honest  one broken  bytes/client/round")
    for name, (honest, broken) in results.items():
        bytes_up = "not counted" if honest.bytes_up is None else f"{honest.bytes_up:,.0f}"
        print(f"{name:34}  {honest.error:10.4f}  {broken.error:10.4f}  {bytes_up:>18}")
    if arguments.plot:
        plot(results, arguments.plot)


if __name__ == "__main__":
    main()
