"""Tests federated averaging under a secure sum of integers: what leaves a client, and its numbers."""

from __future__ import annotations

import collections

import numpy as np
import pytest
import tensorflow_federated as tff
from tensorflow_federated.python.core.impl.compiler import building_blocks, tree_analysis

import fedplug
from fedplug.errors import CapabilityError, ConfigError
from fedplug.secure import MaskedSum
from fedplug.tff.aggregators.sums import Sum
from fedplug.tff.process import build_weighted_fed_avg
from fedplug.tff.process.aggregation.secure_aggregation import SecureAggregation

pytestmark = pytest.mark.usefixtures("inprocess")

ENCODER = "sharedk(0.1, clients=3, max_weight=64)"
BY_RANK = "sharedk(0.5, clients=3, bits=8, rank=2, max_weight=64)"


@pytest.fixture(scope="module")
def process(model_fn, sgd, inprocess):
    return build_weighted_fed_avg(model_fn, sgd, encoder=ENCODER, secure_sum=True)


def summed_types(computation):
    """The types of the values of all clients that a computation adds up."""
    found = []

    def look(block):
        if isinstance(block, building_blocks.Intrinsic) and block.uri.startswith("federated_secure_sum"):
            found.append(block.type_signature.parameter[0].member)

    tree_analysis.visit_postorder(computation.to_building_block(), look)
    return found


def test_only_the_vector_and_known_sizes_leave_a_client_and_all_in_secure_sums(process, model_fn, sgd):
    tff.test.assert_not_contains_unsecure_aggregation(process.next)
    plain = build_weighted_fed_avg(model_fn, sgd)
    tff.test.assert_contains_unsecure_aggregation(plain.next)
    size = sum(int(np.prod(tensor["shape"])) for tensor in process.tensors)
    vector = tff.TensorType(np.int32, [round(0.1 * size) + 4])
    sent = summed_types(process.next)
    assert [found for found in sent if isinstance(found, tff.TensorType) and found.shape] == [vector]


@pytest.mark.parametrize(
    ("expression", "lowering"),
    [
        (ENCODER, "reference"),
        (BY_RANK, "fused"),
        pytest.param(BY_RANK, "reference", marks=pytest.mark.slow),
    ],
)
def test_a_round_has_the_bits_of_numpy(expression, lowering):
    shapes = collections.OrderedDict(a=[20, 10], b=[10], c=[6, 30])
    value_type = tff.to_type(
        collections.OrderedDict((name, tff.TensorType(np.float32, shape)) for name, shape in shapes.items())
    )
    encoder, rng = fedplug.encoder(expression), np.random.default_rng(0)
    masked = MaskedSum(encoder, {name: np.zeros(shape, np.float32) for name, shape in shapes.items()})
    aggregation = SecureAggregation(value_type, encoder, lowering)
    server, states = aggregation.init_server(), [aggregation.init_client() for _ in range(3)]
    ours, residuals = masked.init_server(), [masked.init_client() for _ in range(3)]
    for _ in range(3):
        updates = [
            collections.OrderedDict((n, rng.normal(size=s).astype(np.float32)) for n, s in shapes.items())
            for _ in range(3)
        ]
        total, our_total, message = 0, 0, aggregation.server_message(server)
        for number, (update, weight) in enumerate(zip(updates, (8.0, 100.0, 1.0), strict=True)):
            encoded = aggregation.encode(update, weight, states[number], message)
            states[number] = encoded["state"]
            total = total + encoded["message"]
            vector, residuals[number] = masked.encode(
                update, residuals[number], masked.message(ours), weight=weight
            )
            our_total = our_total + vector
            np.testing.assert_array_equal(encoded["message"], vector)
            np.testing.assert_array_equal(states[number]["residual"], residuals[number]["residual"])
        finished = aggregation.finish({"vectors": total, "clients": 3}, server)
        mean, ours = masked.decode(our_total, ours)
        server = finished["state"]
        np.testing.assert_equal(dict(finished["value"]), mean.update)
        np.testing.assert_equal({name: np.asarray(x) for name, x in server.items()}, ours)


def test_a_training_counts(process, dataset):
    trainer = fedplug.Trainer(process, {f"client {i}": dataset(i) for i in range(6)}, clients_per_round=3)
    trainer.run(1)
    measured = trainer.last_metrics["aggregator"]
    size = sum(int(np.prod(tensor["shape"])) for tensor in process.tensors)
    bytes_of_a_client = -(-(round(0.1 * size) + 4) * 8 // 8)
    assert (measured["clients"], measured["payloads"], measured["nonfinite_updates"]) == (3, 3, 0)
    assert measured["uplink_bytes"] == 3 * bytes_of_a_client


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"encoder": "topk(0.1)"}, CapabilityError, r"a secure sum.*use sharedk"),
        ({"encoder": "randomk(0.1)"}, CapabilityError, r"secure sum of integers: it sends floats"),
        ({"encoder": ENCODER, "aggregator": Sum()}, CapabilityError, r"secure sum of integers.*use mean"),
        ({"encoder": {"*": ENCODER}}, ConfigError, "one encoder for the whole update"),
        ({"encoder": ENCODER, "tensor_metrics": True}, ConfigError, "without tensor_metrics"),
        ({"encoder": ENCODER, "broadcast_encoder": "bfp(5)"}, ConfigError, "leave broadcast_encoder out"),
    ],
)
def test_what_a_secure_sum_of_integers_refuses(model_fn, sgd, arguments, error, message):
    metrics = tff.learning.metrics.sum_then_finalize  # the default takes seconds to trace
    with pytest.raises(error, match=message):
        build_weighted_fed_avg(model_fn, sgd, secure_sum=True, metrics_aggregator=metrics, **arguments)


def test_more_clients_than_can_be_added_are_refused(process, dataset):
    with pytest.raises(ConfigError, match="a sum of 4 clients could wrap"):
        fedplug.Trainer(process, {f"client {i}": dataset(i) for i in range(4)})
