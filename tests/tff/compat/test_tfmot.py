"""Tests that tfmot's encoding stages run unchanged as encoders."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff
from tensorflow_model_optimization.python.core.internal import tensor_encoding as te

import fedplug.testing
from fedplug.encoders import Pipeline, TopK
from fedplug.errors import ConfigError
from fedplug.tff.compat.tfmot import StageEncoder
from fedplug.tff.process import build_aggregation_factory
from fedplug.tff.runtime import use_runtime


def _load_stages():
    """Loads `stages.py` as an importable module, because stages are found by name."""
    spec = importlib.util.spec_from_file_location(
        "fedplug_test_stages", Path(__file__).with_name("stages.py")
    )
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


stages = _load_stages()


class TestAStageWithoutState(fedplug.testing.EncoderSuite):
    shapes = ((1,), (7,), (3, 5))
    dtypes = (tf.float32, tf.float64)

    def make_encoder(self):
        return StageEncoder(stages.KeepsTheHead, count=4)


class TestAnAdaptiveStage(fedplug.testing.EncoderSuite):
    shapes = ((1,), (3, 5))
    dtypes = (tf.float32,)

    def make_encoder(self):
        return StageEncoder(stages.TopKWithError, fraction=0.3)


def test_a_stage_equals_the_encoder_of_fedplug():
    adapted, native = StageEncoder(stages.TopKWithError, fraction=0.3), Pipeline([TopK(0.3)])
    spec = tf.TensorSpec([50], tf.float32)
    states = [adapted.init_state(spec), native.init_state(spec)]
    for number in range(4):
        x = tf.random.stateless_normal([50], [number, 0])
        sent = []
        for position, encoder in enumerate((adapted, native)):
            payload, states[position] = encoder.encode(x, states[position], tf.constant(number))
            sent.append(encoder.decode(payload, spec))
        np.testing.assert_array_equal(*sent)
        np.testing.assert_array_equal(states[0]["residual"], states[1]["residual"])


def test_state_parameters_and_sizes_by_the_data_travel_with_the_payload():
    encoder = StageEncoder(stages.ScalesByAState)
    spec = tf.TensorSpec([2, 3], tf.float32)
    state = encoder.init_state(spec)
    for number in range(3):
        x = tf.constant([[0, 3, 0], [-4, 0, 5]], tf.float32) * (number + 1)
        payload, state = encoder.encode(x, state, tf.constant(number))
        received = encoder.from_wire(encoder.to_wire(payload, spec), spec)
        np.testing.assert_allclose(encoder.decode(received, spec), x, rtol=1e-6)
    assert float(state["calls"]) == 3
    assert float(state["scale"]) == 16


def test_a_sum_is_not_promised_where_each_client_decodes_with_parameters_of_its_own():
    assert stages.ScalesByAState.commutes_with_sum
    assert not StageEncoder(stages.ScalesByAState).capabilities.commutes_with_sum
    assert StageEncoder(stages.KeepsTheHead).capabilities.commutes_with_sum


@pytest.mark.parametrize(
    ("stage", "tolerance"),
    [
        (te.stages.UniformQuantizationEncodingStage, 6 / 255),
        (te.stages.HadamardEncodingStage, 1e-5),  # draws a new rotation seed for every tensor
    ],
)
def test_stages_of_tfmot_itself_run(stage, tolerance):
    encoder, spec = StageEncoder(stage), tf.TensorSpec([3, 5], tf.float32)
    x = tf.random.stateless_uniform([3, 5], [1, 2], -3.0, 3.0)
    payload, _ = encoder.encode(x, encoder.init_state(spec), tf.constant(0))
    received = encoder.from_wire(encoder.to_wire(payload, spec), spec)
    np.testing.assert_allclose(encoder.decode(received, spec), x, atol=tolerance)


def test_it_is_written_and_read_by_the_name_of_the_stage():
    encoder = StageEncoder(stages.TopKWithError, fraction=0.5)
    assert encoder.get_config() == {"stage": "fedplug_test_stages:TopKWithError", "fraction": 0.5}
    assert StageEncoder.from_config(encoder.get_config()) == encoder
    assert encoder.wire_id == "tfmot+topk_with_error/1"


@pytest.mark.parametrize(
    ("stage", "arguments", "message"),
    [
        ("no_such_module:Stage", {}, "cannot be imported"),
        ("fedplug_test_stages:Missing", {}, "cannot be imported"),
        ("fedplug_test_stages", {}, "module:Class"),
        (lambda: None, {}, "top level of a module"),
        (stages.not_a_stage, {}, "has no name, commutes_with_sum"),
        (stages.KeepsTheHead, {"fraction": 1}, "refuses its arguments"),
    ],
)
def test_a_non_stage_is_refused_with_the_reason(stage, arguments, message):
    with pytest.raises(ConfigError, match=message):
        StageEncoder(stage, **arguments)


def test_a_stage_that_keeps_a_variable_is_refused_with_a_remedy():
    encoder = StageEncoder(stages.KeepsAVariable)
    with pytest.raises(ConfigError, match="state of an adaptive stage"):
        encoder.from_wire(tf.zeros([0], tf.uint8), tf.TensorSpec([3], tf.float32))


def test_it_trains_in_a_process_on_both_runtimes_with_the_bytes_it_measures():
    encoder = StageEncoder(stages.KeepsTheHead, count=2)
    outputs = []
    for runtime in ("inprocess", "native"):
        with use_runtime(runtime):
            process = build_aggregation_factory(encoder, min_size=0).create(
                tff.TensorType(np.float32, [4]), tff.TensorType(np.float32)
            )
            values = [np.array([1, 2, 3, 4], np.float32), np.array([5, 6, 7, 8], np.float32)]
            outputs.append(process.next(process.initialize(), values, [1.0, 3.0]))
    for output in outputs:
        np.testing.assert_array_equal(output.result, [4, 5, 0, 0])
        header = 8 + len("tfmot+keeps_the_head/1") + 4 + 8 + 4
        assert output.measurements["uplink_bytes"] == 2 * (header + 2 * 4)
