"""Tests that a TensorFlow process and a codec write the same bytes, and read each other's."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
import tensorflow as tf

import fedplug
from fedplug.encoders import ModelEncoder

SHAPES = {"dense/kernel": (9, 20), "dense/bias": (20,), "scale": (), "steps": (3,)}
ENCODERS = [
    "topk(0.1)",
    "topk(0.1) | qsgd(4) | rans | bitmap",
    "topk(0.2, scope='model') | sign",
    "dgc(0.1)",
    "randomk(0.2, error_feedback=True)",
    "qsgd(3)",
    "sign",
    "mixed_qsgd(4)",
    "rules({'*kernel': 'topk(0.2)', '*': 'blockwise8'})",
]


def model(seed, dtype):
    random = np.random.default_rng(seed)
    arrays = {name: random.standard_normal(shape).astype(dtype) for name, shape in SHAPES.items()}
    return {**arrays, "steps": np.arange(3, dtype=np.int32)}


@pytest.mark.parametrize("encoder", ENCODERS)
@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16])
@pytest.mark.parametrize("lowering", ["fused", pytest.param("reference", marks=pytest.mark.slow)])
def test_buffers_and_states_are_equal(encoder, dtype, lowering):
    codec = fedplug.codec(encoder, min_size=1)
    specs = [tf.TensorSpec(x.shape, x.dtype, name) for name, x in model(0, dtype).items()]
    with fedplug.ops.lowering.use_lowering(lowering):
        graphs = ModelEncoder(fedplug.encoder(encoder), specs, min_size=1)
        states, state = graphs.init_state(), None
        for round_num in range(3):
            arrays = model(round_num, dtype)
            payloads, state = codec.encode_model(arrays, state, round_num)
            tensors = [tf.constant(x) for x in arrays.values()]
            buffers, states = graphs.encode(tensors, states, tf.constant(round_num))
            sent = [buffer.numpy().tobytes() for buffer in buffers]
            assert sent == list(payloads.values())
            received = fedplug.decode_model(dict(zip(arrays, sent, strict=True)))
            for name, tensor in zip(arrays, graphs.decode(buffers), strict=True):
                assert received[name].tobytes() == tensor.numpy().tobytes()
                for key, kept in states[list(arrays).index(name)].items():
                    assert state[f"{name}/{key}"].tobytes() == kept.numpy().tobytes()
