"""Tests that NumPy arrays, compiled ops and references give the same bytes, tensors and states."""

from __future__ import annotations

import functools
import re

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

import fedplug
from fedplug import kernels, wire
from fedplug.encoders import ModelEncoder
from fedplug.encoders.pipeline.kernel_plan import plan_of
from fedplug.ops.lowering import use_lowering
from fedplug.registry.resolve import catalog
from fedplug.testing import executions, expect, tensors
from fedplug.testing.on_tensorflow import unoptimized

SIZE, ROUNDS = 70, 3
CASES = [
    ("topk(0.3)", "float32"),
    ("topk(0.3)", "bfloat16"),
    ("topk(linear(0.3, 0.1, 2), scope='model') | qsgd(8, block_size=16) | rans | rice", "float32"),
    ("stc(0.3)", "float64"),
    ("randomk(0.3, error_feedback=True) | float16 | rice", "float64"),
    ("randomk(0.2) | qsgd(6, block_size=16, rounding='nearest') | seeded", "bfloat16"),
    ("topk(count=3, chunk=16, decay=0.95) | codebook(2) | rans", "float16"),
    ("qsgd(4, block_size=16) | rans", "float32"),
    ("bounded(0.001, error_feedback=True) | rans", "float16"),
    ("topk(0.3) | bounded(0.01) | rans", "float32"),
    ("bfp(5, block_size=16) | rans", "float32"),
    ("topk(0.3) | bfp(4) | gaps", "bfloat16"),
    ("ef21('topk(0.3)')", "float32"),
    ("ef21('topk(0.3)')", "bfloat16"),
    ("sign | rans", "bfloat16"),
    ("qsgd(step([4, 2], [1]), block_size=16)", "float32"),
    ("mixed_qsgd(4.5)", "float32"),
    ("sharedk(0.3, clients=4)", "float32"),
    ("countsketch(0.5)", "float16"),
    ("countsketch(1.0, rows=4, seed=3)", "float32"),
    ("topk(0.3) | identity", "float16"),
    ("bfloat16", "float64"),
    ("identity", "float32"),
]
INPUTS = st.lists(
    st.tuples(
        st.sampled_from([kind for kind in tensors.KINDS if kind != "huge"]),  # their sums are not finite
        st.integers(0, 2**16),
        st.integers(-6, 6),
    ),
    min_size=ROUNDS,
    max_size=ROUNDS,
)
ON_NUMPY, ON_TENSORFLOW = executions.installed()[:2]


def computed(encoder, spec, x, state, round_num):
    payload, next_state = encoder.encode(x, state, round_num)
    body = encoder.to_wire(payload, spec)
    decoded = encoder.decode(encoder.from_wire(body, spec), spec)
    return {"bytes": body, "decoded tensor": decoded, "next state": next_state}


@pytest.fixture(scope="module")
def reference():
    """Returns a cached function that traces an encoder with reference ops, for any round and state."""

    @functools.cache
    def traced(text, dtype):
        encoder, spec = fedplug.encoder(text), ON_TENSORFLOW.spec((SIZE,), dtype)
        with use_lowering("reference"):
            function = tf.function(functools.partial(computed, encoder, spec), autograph=False)
            state = {key: tf.TensorSpec(x.shape, x.dtype) for key, x in encoder.init_state(spec).items()}
            return function.get_concrete_function(spec, state, tf.TensorSpec([], tf.int32))

    with unoptimized():
        yield traced
    traced.cache_clear()


def same(what, got, want):
    expect.same_bits(f"bytes of {what}", got["bytes"], want["bytes"])
    expect.same_bits(f"decoded tensor of {what}", got["decoded tensor"], want["decoded tensor"])
    expect.same_tensors(f"state of {what}", got["next state"], want["next state"])


@pytest.mark.parametrize(("text", "dtype"), CASES)
@settings(max_examples=4, deadline=None)
@given(inputs=INPUTS)
def test_bytes_tensors_and_states_are_those_of_compiled_ops_and_of_references(text, dtype, reference, inputs):
    encoder, specs = (
        fedplug.encoder(text),
        [on.spec((SIZE,), dtype) for on in (ON_NUMPY, ON_TENSORFLOW)],
    )
    state, on_tensors = (encoder.init_state(spec) for spec in specs)
    for number, (kind, seed, exponent) in enumerate(inputs):
        values = tensors.tensor(kind, specs[0], seed) * np.array(2.0**exponent, specs[0].dtype)
        x, round_num = tf.constant(values), tf.constant(number)
        got = computed(encoder, specs[0], values, state, number)
        header = wire.header(encoder.wire_id, dtype, (SIZE,))
        [container], [after] = plan_of(encoder, specs[:1]).encode([values], [state], number)
        assert container == kernels.frame(got["bytes"], header)
        expect.same_tensors(f"state of round {number}, with a container", after, got["next state"])
        with use_lowering("fused"):
            compiled = computed(encoder, specs[1], x, on_tensors, round_num)
        same(f"round {number}, against compiled ops", got, compiled)
        if not encoder.capabilities.needs_op_library:
            portable = reference(text, dtype)(x, on_tensors, round_num)
            same(f"round {number}, against references", got, portable)
        state, on_tensors = got["next state"], compiled["next state"]


def test_every_built_in_encoder_that_takes_tensors_is_in_a_case():
    entries = [entry for entry in catalog().entries if entry.builtin and entry.kind == "encoder"]
    names = {entry.name for entry in entries if "tensorflow" in entry.executes_on} - {
        "pipeline",
        "auto",
        "rules",
        "budget",
    }
    assert names == names & {word for text, _ in CASES for word in re.findall(r"[a-z_0-9]+", text)}


@pytest.mark.parametrize(
    "text",
    [
        "budget('topk(0.05, scope=\"model\")', 900)",
        "budget('qsgd(4, block_size=64)', 1500)",
        "budget(\"rules({'*/bias': 'identity', '*': 'stc(0.05)'})\", nmse=0.5)",
    ],
)
def test_models_under_rate_control_send_the_same_bytes_at_the_same_rates(text):
    sent = [list(rounds(on, text)) for on in (ON_NUMPY, ON_TENSORFLOW)]
    for number, (got, want) in enumerate(zip(*sent, strict=True)):
        expect.same_tensors(f"round {number} of {text}", got, want)
    assert len({float(each["rate"]) for each in sent[0]}) > 1


def rounds(on, text):
    """Yields the buffers, states and sums of each round under a budget, and the server's next rate."""
    names = {"dense/kernel": (40, 50), "dense/bias": (80,), "out/kernel": (50, 10)}
    model = ModelEncoder(fedplug.encoder(text), [on.spec(s, "float32", name) for name, s in names.items()])
    states, control = model.init_state(), model.rate_control.init()
    control = {key: on.array(value) for key, value in control.items()}
    for number in range(4):
        xs = [on.tensor("normal", spec, 10 * number + place) for place, spec in enumerate(model.specs)]
        buffers, states = model.encode(xs, states, on.round_num(number), control)
        if on is ON_NUMPY:  # there they are bytes
            buffers = [np.frombuffer(buffer, np.uint8) for buffer in buffers]
        received = model.decode(buffers)
        zeros = [on.array(np.zeros(shape, np.float32)) for shape in names.values()]
        totals = model.accumulate(zeros, buffers, on.array(np.float32(3)))
        report = model.rate_control.report(xs, received, states)
        sizes = on.array(np.array([len(on.numpy(buffer)) for buffer in buffers], np.int64))
        measured = {"tensor_bytes": sizes, "payloads": on.array(np.int32(1)), **report}
        control = model.rate_control.next(control, measured)
        yield {
            **{f"buffer {place}": buffer for place, buffer in enumerate(buffers)},
            **{f"total {place}": total for place, total in enumerate(totals)},
            **{f"state {place} {key}": x for place, state in enumerate(states) for key, x in state.items()},
            **report,
            **control,
        }
