"""Tests `fedplug.TensorMetrics` against measurements of the payloads and states."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fedplug
from fedplug import wire
from fedplug.errors import ArgumentError, NonFiniteError

WITH_RESIDUAL = [
    *("topk(0.1)", "topk(0.1) | qsgd(4) | rans | rice", "topk(count=5, chunk=100, decay=0.5)"),
    *("stc(0.1)", "sign", "randomk(0.1, error_feedback=True)", "topk(0.05, scope='model')"),
]
WITHOUT = ["qsgd(3)", "float16", "randomk(0.1)", "qsgd(2) | rans", "topk(0.1, error_feedback=False) | sign"]
SHAPES = {"dense/kernel": (30, 20), "dense/bias": (77,)}


def updates(number, seed=0):
    rng = np.random.default_rng(seed)
    return [
        {name: rng.normal(size=shape).astype(np.float32) for name, shape in SHAPES.items()}
        for _ in range(number)
    ]


def encoded(encoder, models, **options):
    """The metrics of one client's rounds, and the payloads and states of each round."""
    codec, metrics, state, rounds = fedplug.codec(encoder), fedplug.TensorMetrics(), None, []
    for round_num, model in enumerate(models):
        payloads, state = codec.encode_model(model, state, round_num, metrics=metrics, **options)
        rounds.append((payloads, state))
    return metrics.value(), rounds


def square(x):
    return float(np.sum(np.square(x, dtype=np.float64)))


@pytest.mark.parametrize("encoder", WITH_RESIDUAL)
def test_with_error_feedback_the_error_equals_the_residual(encoder):
    models = updates(3)
    found, rounds = encoded(encoder, models)
    for name in SHAPES:
        error = norm = update = 0.0
        for model, (payloads, state) in zip(models, rounds, strict=True):
            residual = state[f"{name}/residual"]
            error += square(residual)
            norm += square(residual + fedplug.decode(payloads[name]))
            update += square(model[name])
        assert found[name]["nmse"] == pytest.approx(error / norm, rel=1e-5)
        assert found[name]["residual_ratio"] == pytest.approx(math.sqrt(error / update), rel=1e-5)


@pytest.mark.parametrize("encoder", WITHOUT)
def test_without_feedback_the_error_is_the_part_that_is_not_sent(encoder):
    models = updates(3)
    found, rounds = encoded(encoder, models)
    for name in SHAPES:
        error = sum(
            square(model[name] - fedplug.decode(payloads[name]))
            for model, (payloads, _) in zip(models, rounds, strict=True)
        )
        norm = sum(square(model[name]) for model in models)
        assert found[name]["nmse"] == pytest.approx(error / norm, rel=1e-5)
        assert found[name]["residual_ratio"] is None


@pytest.mark.parametrize("encoder", [*WITH_RESIDUAL, *WITHOUT, "identity", "mixed_qsgd(4)"])
def test_the_bytes_of_a_payload_are_divided_without_a_rest(encoder):
    found, rounds = encoded(encoder, updates(2))
    for name, tensor in found.items():
        assert tensor["uplink_bytes"] == sum(len(payloads[name]) for payloads, _ in rounds)
        parts = [tensor[key] for key in ("header_bytes", "index_bytes", "value_bytes")]
        assert tensor["uplink_bytes"] == sum(parts)
        assert all(isinstance(part, int) and part >= 0 for part in parts)


def test_bytes_by_purpose_are_known_if_they_can_be_counted():
    found, _ = encoded("topk(count=10, chunk=1024) | qsgd(4) | offsets(1024)", updates(1))
    kernel = found["dense/kernel"]
    assert kernel["index_bytes"] == 4 + 13  # the chunk, and ten indices of ten bits
    assert kernel["value_bytes"] == 2 + 4 + 5  # bits and block size, a scale, and ten values of four bits


def test_an_encoder_that_does_not_say_how_it_spends_its_bytes_spends_them_on_values():
    found, ((payloads, _),) = encoded("mixed_qsgd(4)", updates(1))
    kernel, body = found["dense/kernel"], wire.unframe(payloads["dense/kernel"]).body
    assert (kernel["index_bytes"], kernel["value_bytes"]) == (0, len(body))
    assert kernel["entropy_bytes"] is None


def test_indices_that_both_sides_draw_need_not_be_sent():
    found, _ = encoded("randomk(count=10)", updates(1))
    kernel = found["dense/kernel"]
    assert (kernel["index_bytes"], kernel["entropy_bytes"]) == (8, kernel["value_bytes"])


@pytest.mark.parametrize("quantizer", ["identity", "qsgd(3)", "sign", "bfp(4)", "codebook(2)"])
@settings(max_examples=20, deadline=None)
@given(size=st.integers(1, 300), share=st.floats(0.003, 1), seed=st.integers(0, 99), rans=st.booleans())
def test_no_code_of_fixed_length_and_no_code_of_single_symbols_is_below_the_bound(
    quantizer, size, share, seed, rans
):
    rng = np.random.default_rng(seed)
    x = np.round(rng.normal(size=size) * 3).astype(np.float32)  # with equal values, so that codes are short
    entropy_coder = " | rans" if rans and quantizer != "identity" else ""
    codec = fedplug.codec(
        f"topk({share}, chunk={size + 1}) | {quantizer}{entropy_coder} | offsets({size + 1})"
    )
    metrics = fedplug.TensorMetrics()
    fedplug.Codec(codec.encoder, min_size=0).encode_model({"x": x}, metrics=metrics)
    tensor = metrics.value()["x"]
    assert 0 <= tensor["entropy_bytes"] <= tensor["index_bytes"] + tensor["value_bytes"] + 1e-9


@pytest.mark.parametrize("share", [0.001, 0.01, 0.2, 0.6])
@pytest.mark.parametrize("index_coder", ["rice", "gaps"])
def test_a_code_that_fits_itself_to_the_indices_is_not_below_the_bound_where_they_lie_at_random(
    index_coder, share
):
    models = [{"x": np.random.default_rng(seed).normal(size=3000).astype(np.float32)} for seed in range(20)]
    codec, metrics = fedplug.codec(f"topk({share}) | {index_coder}"), fedplug.TensorMetrics()
    for model in models:
        codec.encode_model(model, metrics=metrics)
    tensor = metrics.value()["x"]
    assert tensor["entropy_bytes"] < tensor["index_bytes"] + tensor["value_bytes"]


def test_the_payloads_and_the_state_are_those_without_metrics():
    codec = fedplug.codec({"*/bias": "sign", "*": "topk(0.1) | qsgd(4) | rans"})
    (model,) = updates(1)
    payloads, state = codec.encode_model(model, metrics=fedplug.TensorMetrics())
    expected, expected_state = codec.encode_model(model)
    assert payloads == expected
    assert all(np.array_equal(state[key], array) for key, array in expected_state.items())


def test_states_that_are_written_over_measure_the_same():
    expected, _ = encoded("topk(0.1) | qsgd(4)", updates(3))
    assert encoded("topk(0.1) | qsgd(4)", updates(3), in_place=True)[0] == expected
    codec, metrics, state, spare = fedplug.codec("topk(0.1) | qsgd(4)"), fedplug.TensorMetrics(), None, None
    for round_num, model in enumerate(updates(3)):
        _, new = codec.encode_model(model, state, round_num, out=spare, metrics=metrics)
        state, spare = new, state
    assert metrics.value() == expected


def test_metrics_of_several_threads_are_merged():
    codec, together = fedplug.codec("topk(0.1)"), fedplug.TensorMetrics()
    alone = [fedplug.TensorMetrics() for _ in range(2)]
    for model, metrics in zip(updates(2), alone, strict=True):
        codec.encode_model(model, metrics=metrics)
        codec.encode_model(model, metrics=together)
    total = fedplug.TensorMetrics()
    total.merge(fedplug.TensorMetrics())  # an empty one
    for metrics in alone:
        total.merge(metrics)
    assert total.value() == together.value()
    with pytest.raises(ArgumentError, match="another TensorMetrics"):
        total.merge(total)


def test_metrics_are_of_one_model():
    codec, metrics = fedplug.codec("topk(0.1)"), fedplug.TensorMetrics()
    assert metrics.value() == {}
    codec.encode_model({"a": np.ones(100, np.float32)}, metrics=metrics)
    with pytest.raises(ArgumentError, match=r"of the arrays \['a'\], not of \['b'\]"):
        codec.encode_model({"b": np.ones(100, np.float32)}, metrics=metrics)


def test_an_update_that_is_refused_is_not_measured():
    codec, metrics = fedplug.codec("topk(0.1)"), fedplug.TensorMetrics()
    with pytest.raises(NonFiniteError):
        codec.encode_model({"a": np.full(100, np.nan, np.float32)}, metrics=metrics)
    assert metrics.value() == {}


def test_arrays_of_integers_and_of_zeros_have_no_error_to_tell():
    metrics = fedplug.TensorMetrics()
    model = {"steps": np.arange(3), "zeros": np.zeros(100, np.float32), "empty": np.zeros(0, np.float32)}
    fedplug.codec("topk(0.1)").encode_model(model, metrics=metrics)
    found = metrics.value()
    assert {name: tensor["nmse"] for name, tensor in found.items()} == dict.fromkeys(model)
    assert found["steps"]["entropy_bytes"] == 3 * 8
    assert found["empty"]["value_bytes"] == 0


def test_a_budget_and_a_client_that_keeps_its_state_are_measured():
    metrics = fedplug.TensorMetrics()
    codec = fedplug.codec("budget", encoder="topk(0.1, scope='model')", bytes_per_client=400)
    client = fedplug.ClientCodec(codec, fedplug.open_store("memory://"), "7")
    (model,) = updates(1)
    payloads, _ = client.encode_model(model, metrics=metrics)
    sizes = {name: tensor["uplink_bytes"] for name, tensor in metrics.value().items()}
    assert sizes == {name: len(payload) for name, payload in payloads.items()}
