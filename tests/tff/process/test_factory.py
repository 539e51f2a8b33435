"""Tests a stateless encoder as an aggregation factory in TFF's own processes, and sums of 16-bit values."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

import fedplug
from fedplug import ops
from fedplug.encoders import Identity, ModelEncoder, TopK
from fedplug.errors import CapabilityError, ConfigError
from fedplug.tff.aggregators import Mean, MemoryMean, Sum
from fedplug.tff.process import build_aggregation_factory
from fedplug.tff.process.aggregation.encoded_aggregation import EncodedAggregation, model_encoder

pytestmark = pytest.mark.usefixtures("inprocess")
WEIGHT = tff.TensorType(np.float32)


def test_the_unmodified_averaging_of_tff_takes_it(model_fn, sgd, dataset) -> None:
    factory = build_aggregation_factory(TopK(0.1, error_feedback=False))
    process = tff.learning.algorithms.build_weighted_fed_avg(model_fn, sgd, model_aggregator=factory)
    state = process.initialize()
    output = process.next(state, [dataset(1)])
    changed = [
        np.count_nonzero(np.asarray(a) != np.asarray(b))
        for a, b in zip(
            output.state.global_model_weights.trainable, state.global_model_weights.trainable, strict=True
        )
    ]
    assert changed[0] == 32
    assert changed[2] == 8
    assert output.metrics["aggregator"]["payloads"] == 1


def test_a_client_with_a_value_or_a_weight_that_is_not_finite_sends_nothing_and_is_counted() -> None:
    value_type = tff.to_type({"b": tff.TensorType(np.float32, [2]), "a": (tff.TensorType(np.float32),)})
    process = build_aggregation_factory(Identity()).create(value_type, WEIGHT)
    assert process.next.type_signature.result.result.member == value_type
    for bad in (np.nan, np.inf):
        pairs = [np.array(pair, np.float32) for pair in ([1, 2], [3, bad], [5, 6])]
        values = [{"b": pair, "a": (np.float32(7),)} for pair in pairs]
        output = process.next(process.initialize(), values, [1.0, 1.0, bad])
        np.testing.assert_array_equal(output.result["b"], [1, 2])
        assert output.measurements["payloads"] == 1
        assert output.measurements["nonfinite_updates"] == 2
        assert output.measurements["clients"] == 3


def test_merged_accumulators_are_those_of_all_clients() -> None:
    """Runtimes that split a round into slices merge accumulators; the runtime of these tests does not."""
    value_type = tff.TensorType(np.float32, [2])
    budget = fedplug.encoder("budget", encoder="qsgd(8)", nmse=0.01)  # reports the parts of its error
    encoder = model_encoder(budget, value_type, min_size=0)
    parts = EncodedAggregation(value_type, encoder, Mean(), "reference")
    instructions = parts.server_message(parts.init_server())

    def accumulated(clients):
        total = parts.zero()
        for value, weight in clients:
            sent = parts.encode(np.array(value, np.float32), weight, parts.init_client(), instructions)
            total = parts.accumulate(total, sent["message"])
        return total

    left, right = [([127, 0], 1.0), ([0, 127], 2.0)], [([127, 127], 1.0), ([np.nan, 0], 1.0)]
    merged, together = parts.merge(accumulated(left), accumulated(right)), accumulated([*left, *right])
    tf.nest.map_structure(np.testing.assert_array_equal, merged, together)
    assert together["report"]["squared_norm"] == 4 * 127**2
    assert (together["clients"], together["payloads"], together["nonfinite_updates"]) == (4, 3, 1)


def test_an_encoder_with_client_state_is_refused_with_the_way_out() -> None:
    with pytest.raises(CapabilityError, match=r"build_weighted_fed_avg\(encoder=.*error_feedback=False"):
        build_aggregation_factory(TopK(0.1))


def test_a_weight_of_another_type_is_refused() -> None:
    with pytest.raises(TypeError, match="float32 scalar"):
        build_aggregation_factory(Identity()).create(
            tff.TensorType(np.float32, [2]), tff.TensorType(np.int32)
        )


@pytest.mark.parametrize(
    ("value_type", "message"),
    [
        (tff.TensorType(np.int32, [2]), r"mean\(weights='examples'\) makes .* of type int32\[2\]"),
        (tff.TensorType(np.bool_, [2]), "bool"),
        (tff.TensorType(np.complex64, [2]), "tensor 0 of the model has dtype complex64"),
        (tff.TensorType(np.str_, [2]), "tensor 0 of the model has dtype string"),
        (tff.TensorType(np.float32, [None]), r"tensor 0 of the model has shape \(None,\)"),
        (tff.to_type(()), "no tensors"),
        (tff.SequenceType(np.float32), r"found float32\* at the top"),
    ],
    ids=str,
)
def test_values_that_have_no_mean_are_refused(value_type, message) -> None:
    with pytest.raises(ConfigError, match=message):
        build_aggregation_factory(Identity()).create(value_type, WEIGHT)


DTYPES = [np.float16, ml_dtypes.bfloat16]
SIZE, CLIENTS = 8, 300


def parts_of(expression, aggregator, dtype):
    value_type = tff.TensorType(tf.as_dtype(dtype).as_numpy_dtype, [SIZE])
    encoder = model_encoder(fedplug.encoder(expression), value_type, min_size=0)
    return EncodedAggregation(value_type, encoder, aggregator, "reference")


@pytest.mark.parametrize("dtype", DTYPES, ids=["float16", "bfloat16"])
@pytest.mark.parametrize("aggregator", [Sum(), Mean(), MemoryMean(CLIENTS)], ids=lambda each: each.name)
def test_a_sum_over_many_clients_keeps_growing(aggregator, dtype):
    specs = [tf.TensorSpec([SIZE], tf.as_dtype(dtype))]
    encoder = ModelEncoder("identity", specs)
    (buffer,), _ = encoder.encode([tf.fill([SIZE], tf.cast(100, specs[0].dtype))], encoder.init_state(), 0)
    total = aggregator.zero(specs)
    update = fedplug.tff.aggregators.Update(encoder, [buffer])
    for _ in range(CLIENTS):
        total = aggregator.accumulate(total, update, tf.constant(7.0))
    total = aggregator.merge(total, aggregator.zero(specs))
    (result,), _ = aggregator.finish(total, aggregator.init_state(specs))
    weight = 7.0 * CLIENTS if aggregator.name == "sum" else 1.0
    np.testing.assert_array_equal(ops.widened(result), np.full(SIZE, 100 * weight, np.float32))


@pytest.mark.parametrize("dtype", DTYPES, ids=["float16", "bfloat16"])
def test_a_process_returns_the_type_of_its_values(dtype):
    parts = parts_of("identity", Mean(), dtype)
    instructions = parts.server_message(parts.init_server())
    total = parts.zero()
    for _ in range(3):
        sent = parts.encode(np.full(SIZE, 30000, dtype), 1000.0, parts.init_client(), instructions)
        total = parts.accumulate(total, sent["message"])
    result = parts.finish(total, parts.init_server())
    assert result["value"].dtype == dtype
    np.testing.assert_array_equal(result["value"], np.full(SIZE, 30000, dtype))
