"""Tests that legacy names of TFF behave as before, with fedplug's encoders."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from fedplug.errors import ConfigError
from fedplug.tff.compat import tff_legacy
from fedplug.tff.runtime import use_runtime

VALUE = tff.TensorType(np.float32, [100])
WEIGHT = tff.TensorType(np.float32)
VALUES = [np.linspace(-1, 1, 100, dtype=np.float32), np.full(100, 0.5, np.float32)]


@pytest.fixture(autouse=True)
def _inprocess():
    with use_runtime("inprocess"):
        yield


def test_an_encoded_mean_is_the_mean_to_the_precision_of_its_encoder() -> None:
    process = tff_legacy.build_encoded_mean_process(VALUE, "float16")
    output = process.next(process.initialize(), VALUES, [1.0, 3.0])
    np.testing.assert_allclose(output.result, (VALUES[0] + 3 * VALUES[1]) / 4, atol=1e-3)
    assert isinstance(process, tff.templates.AggregationProcess)


def test_an_encoded_sum_is_the_sum() -> None:
    process = tff_legacy.build_encoded_sum_process(VALUE, "identity")
    np.testing.assert_array_equal(process.next(process.initialize(), VALUES).result, VALUES[0] + VALUES[1])


def test_an_encoded_broadcast_is_near_the_value_and_short_for_a_value_at_rest() -> None:
    process = tff_legacy.build_encoded_broadcast_process(VALUE, "bfp(8) | rans")

    @tff.federated_computation(
        process.initialize.type_signature.result,
        tff.FederatedType(VALUE, tff.SERVER),
        tff.FederatedType(np.float32, tff.CLIENTS),
    )
    def send(state, value, clients):
        output = process.next(state, value)
        return output.state, output.result, output.measurements

    state = process.initialize()
    for value in (VALUES[1], VALUES[0], VALUES[0]):
        state, received, measurements = send(state, value, [0.0, 0.0])
    half_a_level = 2.0**-7  # 8 bits for numbers of at most 1
    np.testing.assert_allclose(received, VALUES[0], atol=half_a_level)
    assert tff_legacy.size_info([measurements]).broadcast_bits[0] < 2 * 8 * 60


@pytest.mark.parametrize("weighted", [True, False])
def test_the_compression_aggregator_clips_weighs_encodes_and_counts(weighted) -> None:
    factory = tff_legacy.compression_aggregator("float16", weighted=weighted)
    process = factory.create(VALUE, WEIGHT) if weighted else factory.create(VALUE)
    weights = ([1.0, 3.0],) if weighted else ()
    output = process.next(process.initialize(), VALUES, *weights)
    clipped = [value / max(1.0, np.linalg.norm(value)) for value in VALUES]  # the first estimate is 1
    wanted = np.average(clipped, axis=0, weights=[1, 3] if weighted else None)
    np.testing.assert_allclose(output.result, wanted, atol=1e-3)
    info = tff_legacy.size_info([output.measurements, output.measurements])
    assert info.aggregated_bits[0] == info.aggregated_bits[1] > 2 * 8 * 200
    assert str(info).startswith("2 rounds: 0 bytes down")


def test_the_compression_aggregator_without_clipping_and_zeroing_is_the_bare_mean() -> None:
    factory = tff_legacy.compression_aggregator("identity", zeroing=False, clipping=False)
    process = factory.create(VALUE, WEIGHT)
    result = process.next(process.initialize(), VALUES, [1.0, 1.0]).result
    np.testing.assert_allclose(result, (VALUES[0] + VALUES[1]) / 2, rtol=1e-6)


def test_metrics_without_bytes_are_distinguished_from_zero_bytes() -> None:
    with pytest.raises(ConfigError, match="round 0 count no bytes"):
        tff_legacy.size_info([{"aggregator": {"mean_value": ()}}])
    assert tff_legacy.size_info([]) == tff_legacy.SizeInfo([], [])


def test_the_program_in_the_documentation_runs(capsys) -> None:
    page = Path(__file__).parents[3] / "docs" / "migrating.md"
    (program,) = re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)

    def model_fn():
        layer = tf.keras.layers.Dense(2, kernel_initializer="zeros", input_shape=(4,))
        spec = (tf.TensorSpec([None, 4]), tf.TensorSpec([None, 2]))
        loss = tf.keras.losses.MeanSquaredError()
        return tff.learning.models.from_keras_model(tf.keras.Sequential([layer]), loss=loss, input_spec=spec)

    data = tf.data.Dataset.from_tensors((tf.ones([3, 4]), tf.ones([3, 2])))
    sgd = tff.learning.optimizers.build_sgdm(0.1)
    exec(program, {"tff": tff, "model_fn": model_fn, "sgd": sgd, "client_datasets": [data, data]})
    assert capsys.readouterr().out.startswith("3 rounds: 0 bytes down")
