"""Tests processes on 16-bit values: state between rounds and sums are float32."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

import fedplug
from fedplug import ops
from fedplug.encoders import ModelEncoder
from fedplug.tff.aggregators import Mean, MemoryMean, Sum
from fedplug.tff.process.aggregation.encoded_aggregation import EncodedAggregation, model_encoder

DTYPES = [np.float16, ml_dtypes.bfloat16]
SIZE, CLIENTS = 8, 300


def parts_of(expression, aggregator, dtype):
    value_type = tff.TensorType(tf.as_dtype(dtype).as_numpy_dtype, [SIZE])
    encoder = model_encoder(fedplug.encoder(expression), value_type, min_size=0)
    return EncodedAggregation(value_type, encoder, aggregator, "reference")


@pytest.mark.parametrize("dtype", DTYPES, ids=["float16", "bfloat16"])
def test_the_residual_of_a_client_keeps_growing(dtype):
    parts = parts_of("topk(count=1)", Mean(), dtype)
    instructions = parts.server_message(parts.init_server())
    update = np.full(SIZE, 1, dtype)
    update[0] = 100
    state = parts.init_client()
    assert state[0]["residual"].dtype == np.float32
    state[0]["residual"] = np.full(SIZE, 4096, np.float32)  # both 16-bit types have steps above 1
    sent = parts.encode(update, 1.0, state, instructions)
    want = np.full(SIZE, 4097, np.float32)
    want[0] = 4196 - 4192 if dtype is ml_dtypes.bfloat16 else 4196 - 4196
    np.testing.assert_array_equal(sent["state"][0]["residual"], want)


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
