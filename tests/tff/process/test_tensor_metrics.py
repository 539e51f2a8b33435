"""Tests a process's per-tensor metrics: they are the same on every runtime, and the same as the codec's."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

import fedplug
from fedplug.encoders.model import tensor_metrics

pytestmark = pytest.mark.usefixtures("inprocess")

RULES = [
    {"match": "*/bias", "encoder": "identity"},
    {"match": "dense/*", "encoder": "topk(0.1) | bfp(8) | rans | rice"},
    {"match": "*", "encoder": "topk(0.2)"},
]


def run(process, datasets, rounds):
    """The metrics of the rounds, and the model before each of them."""
    state, clients = process.initialize(), [process.initialize_client()] * len(datasets)
    metrics = []
    for _ in range(rounds):
        output = process.next(state, datasets, clients)
        state, clients = output["state"], output["client_states"]
        metrics.append(output["metrics"]["aggregator"])
    return metrics


def built(model_fn, sgd, encoder, **options):
    return fedplug.tff.process.build_weighted_fed_avg(
        model_fn, sgd, encoder=encoder, min_size=8, tensor_metrics=True, **options
    )


def told(process, metrics):
    names = [tensor["name"] for tensor in process.tensors]
    return tensor_metrics.by_name(names, metrics["tensors"])


@pytest.fixture(scope="module")
def process(model_fn, sgd, inprocess):
    return built(model_fn, sgd, RULES)


@pytest.mark.slow
def test_without_them_nothing_else_changes(process, model_fn, sgd, dataset):
    datasets = [dataset(1), dataset(2, poisoned=True), dataset(3)]
    plain = fedplug.tff.process.build_weighted_fed_avg(model_fn, sgd, encoder=RULES, min_size=8)
    assert plain.signature == process.signature  # a store can continue with either
    for measured, off in zip(run(process, datasets, 3), run(plain, datasets, 3), strict=True):
        assert "tensors" not in off
        assert {key: value for key, value in measured.items() if key != "tensors"} == dict(off)
        assert measured["uplink_bytes"] == sum(measured["tensors"]["uplink_bytes"])


def test_a_tensor_reports_its_sent_lost_and_kept_parts(process, dataset):
    first, second = (told(process, metrics) for metrics in run(process, [dataset(1), dataset(2)], 2))
    for metrics in (first, second):
        for tensor in metrics.values():
            parts = (tensor["header_bytes"], tensor["index_bytes"], tensor["value_bytes"])
            assert tensor["uplink_bytes"] == sum(parts)
            assert min(parts[0], parts[2]) > 0
        assert metrics["dense/bias"]["nmse"] == 0
        assert metrics["dense/bias"]["residual_ratio"] is None
        assert metrics["dense/bias"]["entropy_bytes"] == metrics["dense/bias"]["value_bytes"] == 2 * 4 * 16
    kernel = first["dense_1/kernel"]
    # In the first round there is no earlier residual, so the error is the share that the next residual keeps.
    assert kernel["nmse"] == pytest.approx(kernel["residual_ratio"] ** 2, rel=1e-5)
    assert kernel["value_bytes"] == 2 * 4 * 16  # of two clients, a fifth of 16 * 5 four-byte entries each
    assert 0 < second["dense_1/kernel"]["nmse"] < 1


def test_a_round_in_which_nobody_sends_has_no_error(process, dataset):
    (metrics,) = run(process, [dataset(1, poisoned=True)], 1)
    tensor = told(process, metrics)["dense/kernel"]
    assert tensor == {
        **dict.fromkeys(("uplink_bytes", "header_bytes", "index_bytes", "value_bytes"), 0),
        "entropy_bytes": 0,
        "nmse": None,
        "residual_ratio": None,
    }


@pytest.mark.parametrize("encoder", ["topk(0.1)", "qsgd(3) | rans"])
def test_the_codec_and_a_graph_measure_the_same(encoder):
    shapes = {"a": (40, 30), "b": (77,)}
    rng = np.random.default_rng(0)
    updates = [
        {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()} for _ in range(3)
    ]
    codec, on_arrays = fedplug.codec(encoder), fedplug.TensorMetrics()
    state = None
    for round_num, update in enumerate(updates):
        _, state = codec.encode_model(update, state, round_num, metrics=on_arrays)

    specs = [tf.TensorSpec(shape, tf.float32, name) for name, shape in shapes.items()]
    model = fedplug.encoders.ModelEncoder(codec.encoder, specs)

    @tf.function(autograph=False)
    def encode_and_measure(xs, states, round_num):
        buffers, after = model.encode(xs, states, round_num)
        return tensor_metrics.measure(model, xs, buffers, after), after

    states, sums = model.init_state(), None
    for round_num, update in enumerate(updates):
        xs = [tf.constant(update[name]) for name in shapes]
        measured, states = encode_and_measure(xs, states, tf.constant(round_num))
        sums = measured if sums is None else {key: sums[key] + measured[key] for key in sums}
    in_graph = tensor_metrics.by_name(
        list(shapes), {k: v.numpy() for k, v in tensor_metrics.summarize(sums).items()}
    )
    assert on_arrays.value().keys() == in_graph.keys()
    for name, expected in on_arrays.value().items():
        assert in_graph[name] == pytest.approx(expected, rel=1e-5, nan_ok=True)


def test_a_factory_for_tffs_own_processes_measures_too():
    factory = fedplug.tff.process.build_aggregation_factory(
        "qsgd(4)", min_size=1, names=["w", "n"], tensor_metrics=True
    )
    value_type = tff.to_type([tff.TensorType(np.float32, [100]), tff.TensorType(np.float32, [3])])
    process = factory.create(value_type, tff.TensorType(np.float32))
    value = [np.linspace(-1, 1, 100, dtype=np.float32), np.ones(3, np.float32)]
    tensors = process.next(process.initialize(), [value, value], [1.0, 1.0]).measurements["tensors"]
    named = tensor_metrics.by_name(["w", "n"], tensors)
    assert named["w"]["value_bytes"] == 2 * (2 + 4 + 50)
    assert 0 < named["w"]["nmse"] < 0.1
    assert named["n"]["nmse"] == 0


def test_a_process_names_its_tensors(process):
    assert process.tensors[0] == {"name": "dense/kernel", "shape": [20, 16], "dtype": "float32"}
