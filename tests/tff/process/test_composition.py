"""Tests fedplug's aggregators inside TFF's and TFF's inside fedplug's, with state and measurements."""

from __future__ import annotations

import collections
import re
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

import fedplug
from fedplug.errors import CapabilityError, ConfigError
from fedplug.tff.process import Transform, TransformFactory, build_compressed_sum_factory, build_sum_factory

pytestmark = pytest.mark.usefixtures("inprocess")

VALUE = tff.to_type(
    collections.OrderedDict(b=tff.TensorType(np.float32, [2, 50]), a=(tff.TensorType(np.float32),))
)
WEIGHT = tff.TensorType(np.float32)
CLIENTS = 4


def value(seed, scale=1.0):
    rng = np.random.default_rng(seed)
    b = (scale * rng.normal(size=(2, 50))).astype(np.float32)
    return collections.OrderedDict(b=b, a=(np.float32(scale * seed),))


VALUES = [value(seed) for seed in range(CLIENTS)]
WEIGHTS = [1.0, 2.0, 0.5, 4.0]


def expected(weights):
    mean = lambda leaves: np.average(np.stack(leaves), axis=0, weights=weights)  # noqa: E731
    return mean([v["b"] for v in VALUES]), mean([v["a"][0] for v in VALUES])


def check(result, weights=None, factor=1.0, atol=1e-5):
    for found, wanted in zip((result["b"], result["a"][0]), expected(weights), strict=True):
        np.testing.assert_allclose(found, factor * wanted, atol=atol)


class FixedPoint(Transform):
    """Sums floats as whole numbers; doubles its scale every round and reports it."""

    def init_state(self):
        return {"scale": tf.constant(1024.0)}

    def forward(self, value, state):
        return tf.nest.map_structure(lambda x: tf.cast(tf.round(x * state["scale"]), tf.int32), value)

    def backward(self, total, state):
        return tf.nest.map_structure(lambda x: tf.cast(x, tf.float32) / state["scale"], total)

    def next_state(self, total, state):
        return {"scale": state["scale"] * 2}

    def measure(self, total, state):
        return {"scale": state["scale"]}


def test_a_transform_and_its_inner_encoder_keep_states_and_measurements() -> None:
    process = TransformFactory(FixedPoint(), build_sum_factory("identity")).create(VALUE)
    first = process.next(process.initialize(), VALUES)
    second = process.next(first.state, VALUES)
    check(second.result, factor=CLIENTS, atol=CLIENTS / 2048)
    assert [float(o.measurements["transform"]["scale"]) for o in (first, second)] == [1024, 2048]
    assert second.measurements["inner"]["payloads"] == CLIENTS
    assert second.state["inner"]["round_num"] == 2


@pytest.mark.parametrize(
    "inner",
    [
        None,
        tff.aggregators.SecureSumFactory(upper_bound_threshold=2**20, lower_bound_threshold=-(2**20)),
        TransformFactory(FixedPoint(), tff.aggregators.SumFactory()),
    ],
    ids=["sum", "secure sum", "another transform"],
)
def test_a_transform_nests_in_a_weighted_mean_of_tff_with_any_sum_inside(inner) -> None:
    transform = FixedPoint() if not isinstance(inner, TransformFactory) else Halves()
    factory = tff.aggregators.MeanFactory(value_sum_factory=TransformFactory(transform, inner))
    process = factory.create(VALUE, WEIGHT)
    check(process.next(process.initialize(), VALUES, WEIGHTS).result, WEIGHTS, atol=2e-3)


class Halves(Transform):
    def forward(self, value, state):
        return tf.nest.map_structure(lambda x: x / 2, value)

    def backward(self, total, state):
        return tf.nest.map_structure(lambda x: x * 2, total)


def test_encoded_sums_nest_in_the_mean_the_clipping_and_the_zeroing_of_tff() -> None:
    factory = tff.aggregators.MeanFactory(value_sum_factory=build_sum_factory("qsgd(8)"))
    factory = tff.aggregators.zeroing_factory(1e6, tff.aggregators.clipping_factory(1e6, factory))
    process = factory.create(VALUE, WEIGHT)
    output = process.next(process.initialize(), VALUES, WEIGHTS)
    check(output.result, WEIGHTS, atol=0.1)
    inner = output.measurements["zeroing"]["clipping"]["mean_value"]
    assert inner["payloads"] == CLIENTS
    assert 0 < inner["uplink_bytes"] < CLIENTS * 101 * 4


def test_encoded_sums_go_under_the_differential_privacy_of_tff() -> None:
    from tensorflow_privacy import GaussianSumQuery

    query = GaussianSumQuery(l2_norm_clip=1e3, stddev=0.0)
    factory = tff.aggregators.DifferentiallyPrivateFactory(query, build_sum_factory("float16"))
    process = factory.create(VALUE)
    output = process.next(process.initialize(), VALUES)
    check(output.result, factor=CLIENTS, atol=1e-2)


@pytest.mark.slow
def test_distributed_privacy_bounds_what_a_client_changes_if_it_clips_the_payload() -> None:
    """The aggregator of TFF is inside, so it clips, rounds and hides what is sent, to 0.1 at first."""
    private = tff.learning.ddp_secure_aggregator(0.0, CLIENTS, zeroing=False)
    process = build_compressed_sum_factory("randomk(0.5)", private).create(VALUE)
    with pytest.raises(CapabilityError, match=r"'client state'.*sharedk"):
        build_compressed_sum_factory("sharedk(0.5, clients=4)", private)
    state = process.initialize()
    results = [process.next(state, [*VALUES[1:], value(0, scale)]).result for scale in (0.0, 1e6)]
    moved = [x - y for x, y in zip(*map(tf.nest.flatten, results), strict=True)]
    assert 0.9 * 0.1 < CLIENTS * np.linalg.norm(np.concatenate([x.reshape(-1) for x in moved])) < 1.01 * 0.1


def test_a_linear_encoder_is_decoded_once_after_a_secure_sum_with_other_entries_each_round() -> None:
    secure = tff.aggregators.SecureSumFactory(upper_bound_threshold=1e3, lower_bound_threshold=-1e3)
    process = build_compressed_sum_factory("randomk(0.5)", secure).create(VALUE)
    state, results = process.initialize(), []
    for _ in range(2):
        output = process.next(state, VALUES)
        state = output.state
        results.append(output.result["b"])
    chosen = [result != 0 for result in results]
    assert [np.count_nonzero(c) for c in chosen] == [50, 50]
    assert np.any(chosen[0] != chosen[1])
    total = CLIENTS * expected(None)[0]
    for result, where in zip(results, chosen, strict=True):
        np.testing.assert_allclose(result[where], 2 * total[where], atol=1e-3)  # n / k = 2


def test_top_k_under_a_secure_sum_is_refused() -> None:
    with pytest.raises(CapabilityError, match=r"secure sum.*use randomk"):
        build_compressed_sum_factory("topk(0.1, error_feedback=False)")


def test_a_weighted_inner_factory_is_refused_with_where_weights_belong() -> None:
    with pytest.raises(ConfigError, match="weigh outside"):
        TransformFactory(FixedPoint(), tff.aggregators.MeanFactory())


def test_a_transform_that_is_not_inverted_is_refused() -> None:
    class OneWay(FixedPoint):
        def backward(self, total, state):
            return total

    with pytest.raises(ConfigError, match=r"OneWay.backward gives .*int32.*must give .*float32"):
        TransformFactory(OneWay()).create(VALUE)


def test_the_program_on_the_page_about_migration_runs(model_fn, sgd, dataset) -> None:
    page = Path(__file__).parents[3] / "docs" / "migrating.md"
    (program,) = re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    names = {"model_fn": model_fn, "sgd": sgd, "client_datasets": [dataset(1), dataset(2)]}
    names |= {"tff": tff, "fedplug": fedplug}
    exec(program, names)
    assert 0 < names["uplink_bytes"] < 3 * 2 * 421 * 4 / 3
