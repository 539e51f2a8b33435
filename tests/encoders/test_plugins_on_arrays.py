"""The encoders of plugins give the same bits of NumPy arrays as of tensors, fused and reference."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import fedplug
from fedplug import ops

CASES = [
    ("eden(1)", (7,), "bfloat16"),
    ("eden(8) | rans", (257,), "float64"),
    ("topk(0.3) | eden(4) | rice", (500,), "float32"),
    ("countsketch(0.5)", (300,), "float16"),
    ("countsketch(1.0, rows=4, seed=3)", (3, 5), "float32"),
    ("countsketch(0.7, rows=5)", (100,), "float64"),
    ("powersgd(2, min_ratio=1)", (21, 30), "float32"),
    ("powersgd(3)", (40, 7, 5), "float64"),
    ("powersgd(1, min_ratio=1)", (4, 5, 7), "bfloat16"),
]
ROUNDS = 3
DRAWS = {
    "normal": lambda rng, shape: rng.standard_normal(shape),
    "of any magnitude": lambda rng, shape: rng.standard_normal(shape) * 2.0 ** rng.integers(-9, 9, shape),
    "ties": lambda rng, shape: rng.integers(-1, 2, shape).astype(np.float64),
    "negative zeros": lambda rng, shape: np.full(shape, -0.0),
    "sparse": lambda rng, shape: rng.standard_normal(shape) * (rng.random(shape) < 0.1),
}


def one_round(encoder, x, state, round_num, spec):
    payload, state = encoder.encode(x, state, round_num)
    body = encoder.to_wire(payload, spec)
    return body, encoder.decode(encoder.from_wire(body, spec), spec), state


@pytest.fixture(scope="module", params=CASES, ids=lambda case: f"{case[0]}-{case[2]}")
def case(request):
    """An encoder, what it is for, and a graph for each way to run it."""
    expression, shape, dtype = request.param
    encoder, spec = fedplug.encoder(expression), tf.TensorSpec(shape, dtype)

    def in_graph(lowering):
        @tf.function(autograph=False)
        def run(x, state, round_num):
            with ops.use_lowering(lowering):
                return one_round(encoder, x, state, round_num, spec)

        return run

    return (
        encoder,
        ops.ArraySpec(shape, dtype),
        spec,
        {name: in_graph(name) for name in ("fused", "reference")},
    )


def bits(result):
    body, decoded, state = result
    named = {"body": body, "decoded": decoded, **state}
    return {name: np.asarray(value).tobytes() for name, value in named.items()}


@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    seed=st.integers(0, 2**32 - 1),
    draws=st.lists(st.sampled_from(sorted(DRAWS)), min_size=ROUNDS, max_size=ROUNDS),
)
def test_bytes_tensors_and_states_have_the_same_bits(case, seed, draws):
    encoder, spec, tensor_spec, graphs = case
    rng, state = np.random.default_rng(seed), encoder.init_state(spec)
    states = dict.fromkeys(graphs, encoder.init_state(tensor_spec))
    for round_num, draw in enumerate(draws):
        x = DRAWS[draw](rng, spec.shape).astype(spec.dtype)
        given_x = x.tobytes()
        result = one_round(encoder, x, state, round_num, spec)
        state = result[2]
        assert x.tobytes() == given_x
        for lowering, run in graphs.items():
            same = run(tf.constant(x), states[lowering], tf.constant(round_num))
            states[lowering] = same[2]
            assert bits(same) == bits(result), (lowering, round_num)
