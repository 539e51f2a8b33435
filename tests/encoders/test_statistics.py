"""Tests that statistics, integers and booleans are sent exactly unless a rule names them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fedplug
from fedplug.encoders import ModelEncoder, Rules
from fedplug.encoders.model.statistics import is_statistic
from fedplug.errors import ArgumentError, ConfigError
from fedplug.ops.types import ArraySpec

README = "topk(0.01, scope='model') | qsgd(8)"
ENCODERS = [
    README,
    "auto",
    "auto(error_feedback=False)",
    "qsgd(4) | rans",
    "sign",
    "rules({'*': 'stc(0.01)'})",
    "rules([{'min_elements': 100, 'encoder': 'qsgd(2)'}])",
    "rules({'bn*': 'qsgd(2)', '*': 'topk(0.01)'})",
    "budget('topk(0.01)', 9000)",
    "budget(\"topk(0.01, scope='model')\", nmse=0.5)",
    "budget(\"rules({'*': 'qsgd(4)'})\", 120000)",
]


@pytest.mark.parametrize(
    "name",
    [
        "running_mean",
        "bn1.running_var",
        "module.layer1.0.bn2.num_batches_tracked",
        "layer1/0/bn2/running_var",
        "batch_normalization/moving_variance",
        "batch_normalization_1/moving_mean:0",
        "norms.running_mean.0",
        "bn1_running_var",
        "['block']['bn']['running_mean']",
        "batch_stats/BatchNorm_0/mean",
        "model.batch_stats.BatchNorm_0.var",
        "['batch_stats']['BatchNorm_0']['mean']",
        "('batch_stats', 'BatchNorm_0', 'var')",
        "bn.mean",  # Flax nnx
        "layers.2.bn1.var",
        "['norm1']['mean'].value",
        "BatchNorm2d_0/var/raw_value",
        "encoder.ConvBN_3.mean",
        "batch_norm/~/mean_ema/average",  # Haiku
        "res_net/~/initial_batchnorm/~/var_ema/hidden",
        "batch_norm/moving_variance/average:0",  # Sonnet
        "normalization/variance",  # Keras
        "normalization_1/count",
        "bn1._mean",  # Paddle
        "conv1._batch_norm._variance",
        "bn/avg_var",  # Chainer
        "batchnorm0_moving_var",  # MXNet
        "bn1.runningVar",  # others
        "bn1/movingMean",
        "obs_rms.var",
        "obs_normalizer._std",
        "bn1.RunningVar",
        "state.0.exp_avg_sq",
        "0.exp_avg_sq_row",  # Adafactor
        "0.exp_avg_sq_col",
        "0.row_var",
        "state.3.variance",
        "0.exp_inf",  # Adamax
        "0.sum",  # Adagrad
        "nu/Dense_0/kernel",  # optax
        "opt_state/0/v_row/Dense_0/kernel",
        "adam/dense_kernel_velocity",  # Keras
        "vq._codebook.cluster_size",
        "vq.cluster_usage",
        "quantizer.ema_count",
    ],
)
def test_names_of_known_frameworks_are_statistics(name: str) -> None:
    assert is_statistic(name)


@pytest.mark.parametrize(
    "name",
    [
        *(None, "", "0", "bn.weight", "moving_head.weight", "running/kernel", "mean", "stats"),
        *("overrunning_var", "policy.mean", "mean.weight", "bn.mean.weight", "norm.mean_scale", "head/var"),
        *("layer.weight_mean", "subnet.mean", "normal.mean", "Normal_0/std", "forms.var", "abnormal.std"),
        *("norm_weight_mean", "runningKernel", "movingHead.weight", "mean_ema_head.weight", "exp_avg"),
        *("layers.1.mean", "w.count", "head.variance", "sum", "menu/kernel", "nu", "nu_net/kernel"),
    ],
)
def test_weights_are_none(name: str | None) -> None:
    assert not is_statistic(name)


def update(seed: int) -> dict[str, np.ndarray]:
    random = np.random.default_rng(seed)
    return {
        "conv.weight": 0.01 * random.standard_normal((64, 64), np.float32),
        "bn.weight": 0.01 * random.standard_normal(256, np.float32),
        "bn.running_mean": random.standard_normal(256, np.float32),
        "bn.running_var": 100 * random.standard_normal(256, np.float32),
        "batch_stats/bn/var": random.standard_normal(256),
        "bn.num_batches_tracked": np.asarray(2**53 + seed),
        "index": random.integers(0, 2**62, 200),
        "mask": random.random(200) < 0.5,
    }


EXACT = list(update(0))[2:]


@pytest.mark.parametrize("encoder", ENCODERS)
def test_statistics_integers_and_booleans_arrive_bit_for_bit(encoder: str) -> None:
    codec, state = fedplug.codec(encoder), None
    for round_num in range(3):
        arrays = update(round_num)
        payloads, state = codec.encode_model(arrays, state, round_num)
        received = fedplug.decode_model(payloads)
        for name in EXACT:
            assert received[name].dtype == arrays[name].dtype
            assert received[name].tobytes() == arrays[name].tobytes()
        assert not np.array_equal(received["conv.weight"], arrays["conv.weight"])
    assert not any(name in key for key in state or {} for name in EXACT)


@pytest.mark.parametrize(
    ("pattern", "name", "is_meant"),
    [
        ("*running_var", "bn.running_var", True),
        ("bn.running_var", "bn.running_var", True),
        ("bn.running_*", "bn.running_var", True),
        ("bn?running_var", "bn.running_var", True),
        ("*moving*", "bn/moving_mean", True),
        ("batch_stats*", "batch_stats/bn/mean", True),
        ("*/mean", "batch_stats/bn/mean", True),
        ("*", "bn.running_var", False),
        ("?*", "bn.running_var", False),
        ("bn*", "bn.running_var", False),
        ("bn.*", "bn.running_var", False),
        ("*weight_norm*", "weight_norm.running_var", False),
        ("*bn*", "batch_stats/bn/mean", False),
    ],
)
def test_a_rule_compresses_the_statistics_that_its_pattern_names(
    pattern: str, name: str, is_meant: bool
) -> None:
    for rules in ({pattern: "qsgd(8)"}, [{"match": pattern, "encoder": "qsgd(8)"}]):
        model = ModelEncoder(Rules(rules), [ArraySpec((100,), "float32", name)])
        assert (model.encoders[0].wire_id == "qsgd/1") == is_meant
        assert model.sent_exactly == (None if is_meant else "statistics",)


def test_an_earlier_rule_for_all_tensors_says_nothing_of_statistics() -> None:
    rules = {"conv*": "topk(0.1)", "*": "qsgd(8)"}
    codec = fedplug.codec("budget", encoder=rules, bytes_per_client=9000)
    assert codec.sent_exactly(update(0))["statistics"] == EXACT[:3]
    named = {"*running_*": "qsgd(8)", **rules}
    codec = fedplug.codec("budget", encoder=named, bytes_per_client=9000)
    assert codec.sent_exactly(update(0))["statistics"] == ["batch_stats/bn/var"]


def test_exactly_sent_tensors_are_listed_with_the_reason() -> None:
    arrays = {**update(0), "fc.bias": np.zeros(10, np.float32)}
    assert fedplug.codec("auto").sent_exactly(arrays) == {
        "statistics": ["bn.running_mean", "bn.running_var", "batch_stats/bn/var"],
        "int64": ["bn.num_batches_tracked", "index"],
        "bool": ["mask"],
        "fewer than 64 elements": ["fc.bias"],
    }
    by_rule = fedplug.codec({"conv*": "identity", "*": "qsgd(8)"}, min_size=0).sent_exactly(arrays)
    assert by_rule["lossless encoder"] == ["conv.weight"]
    assert "fewer than 0 elements" not in by_rule


def test_further_arrays_are_sent_exactly_where_they_are_asked_for() -> None:
    arrays = {str(place): array for place, array in enumerate(update(0).values())}
    codec = fedplug.codec("auto", exactly=["1", "3"])
    assert codec.sent_exactly(arrays)["asked for"] == ["1", "3"]
    received = fedplug.decode_model(codec.encode_model(arrays)[0])
    assert [name for name in "0123" if np.array_equal(received[name], arrays[name])] == ["1", "3"]
    with pytest.raises(ConfigError, match=r"exactly names 'bn\.wieght', .*did you mean 'bn\.weight'"):
        fedplug.codec("auto", exactly=["bn.wieght"]).encode_model(update(0))


@pytest.mark.parametrize("exactly", ["bn.weight", 5, [1, 3], None])
def test_arrays_to_be_sent_exactly_are_listed_by_name(exactly: Any) -> None:
    with pytest.raises(ArgumentError, match=r"exactly is .*; it must be a list of names"):
        fedplug.codec("auto", exactly=exactly)


def test_the_error_of_a_budget_is_that_of_the_weights() -> None:
    """Statistics are large and exact: if they counted, hardly a bit would be spent on the weights."""
    codec, state = fedplug.codec("budget(\"topk(0.01, scope='model')\", nmse=0.5)"), None
    weights = update(0)
    for round_num in range(12):
        payloads, state = codec.encode_model(weights, state, round_num)
    alone, before = fedplug.codec("budget(\"topk(0.01, scope='model')\", nmse=0.5)"), None
    for round_num in range(12):
        few = {name: weights[name] for name in ("conv.weight", "bn.weight")}
        expected, before = alone.encode_model(few, before, round_num)
    assert payloads["conv.weight"] == expected["conv.weight"]
    assert payloads["bn.weight"] == expected["bn.weight"]


@pytest.mark.parametrize("encoder", ["auto", README, "budget('topk(0.1)', nmse=0.5)"])
def test_a_model_of_statistics_alone_is_sent_exactly(encoder: str) -> None:
    codec, state, arrays = fedplug.codec(encoder), None, {"bn.running_var": np.ones(99, np.float32)}
    for round_num in range(2):
        payloads, state = codec.encode_model(arrays, state, round_num)
        assert np.array_equal(fedplug.decode_model(payloads)["bn.running_var"], arrays["bn.running_var"])
