"""Tests federated averaging with client-local encoder state: its types, arithmetic and checks."""

from __future__ import annotations

import collections
import inspect

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

import fedplug
from fedplug.encoders import TopK
from fedplug.errors import ConfigError, LoweringError
from fedplug.tff.process import build_weighted_fed_avg, choose_lowering, constrain_weights
from fedplug.tff.process.aggregation.encoded_aggregation import EncodedAggregation, model_encoder
from fedplug.tff.process.arguments import as_aggregator, as_encoder
from fedplug.tff.process.learning.components import build_finalizer
from fedplug.tff.runtime import create_async_execution_context, use_runtime

pytestmark = pytest.mark.usefixtures("inprocess")


@pytest.fixture(scope="module")
def dense(model_fn, sgd, inprocess):
    """The process without compression, built once."""
    return build_weighted_fed_avg(model_fn, sgd)


@pytest.fixture(scope="module")
def sparse(model_fn, sgd, inprocess):
    """The process with a residual on every client, built once."""
    return build_weighted_fed_avg(model_fn, sgd, encoder=TopK(0.1))


def weights_of(state: object) -> list[np.ndarray]:
    return [np.asarray(w) for w in state.global_model_weights.trainable]


def run(process: object, rounds: list[list[tf.data.Dataset]]) -> list[object]:
    """Returns the outputs of rounds with the same clients."""
    state = process.initialize()
    client_states = [process.initialize_client() for _ in rounds[0]]
    outputs = []
    for data in rounds:
        outputs.append(process.next(state, data, client_states))
        state, client_states = outputs[-1]["state"], outputs[-1]["client_states"]
    return outputs


def test_a_program_of_tff_runs_unchanged_with_our_builder(model_fn, sgd, dataset) -> None:
    data = [dataset(1), dataset(2, examples=31).shuffle(31, seed=1)]

    def program(build):
        process = build(
            model_fn,
            client_optimizer_fn=sgd,
            server_optimizer_fn=tff.learning.optimizers.build_sgdm(1.0, 0.9),
            client_weighting=tff.learning.ClientWeighting.UNIFORM,
            model_distributor=None,
            model_aggregator=None,
            metrics_aggregator=tff.learning.metrics.sum_then_finalize,
            loop_implementation=tff.learning.LoopImplementation.DATASET_ITERATOR,
        )
        state = process.initialize()
        for _ in range(2):
            output = process.next(state, data)
            state = output.state
        return process.get_model_weights(state).trainable, output.metrics["client_work"]

    ours, measured = program(build_weighted_fed_avg)
    theirs, expected = program(tff.learning.algorithms.build_weighted_fed_avg)
    assert measured == expected
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-7)


def test_our_builder_takes_every_argument_of_that_of_tff() -> None:
    ours, theirs = (
        inspect.signature(build).parameters
        for build in (build_weighted_fed_avg, tff.learning.algorithms.build_weighted_fed_avg)
    )
    assert theirs.keys() <= ours.keys()
    by_position = [name for name, value in theirs.items() if value.kind is not value.KEYWORD_ONLY]
    assert list(ours)[: len(by_position)] == by_position


def test_a_round_without_the_states_that_clients_keep_is_refused(sparse, dataset) -> None:
    with pytest.raises(ConfigError, match=r"clients keep state .*fedplug.Trainer"):
        sparse.next(sparse.initialize(), [dataset(1)])


def test_uplink_bytes_are_the_lengths_of_the_buffers_sent(dense, dataset) -> None:
    metrics = run(dense, [[dataset(1), dataset(2)]])[0]["metrics"]
    update = 4 * (20 * 16 + 16 + 16 * 5 + 5)
    headers = sum(8 + len("identity/1") + 4 * rank + 8 + 4 for rank in (2, 1, 2, 1))
    assert metrics["aggregator"]["uplink_bytes"] == 2 * (update + headers)
    assert metrics["aggregator"]["payloads"] == metrics["aggregator"]["clients"] == 2


def test_a_non_finite_update_is_dropped_and_counted_and_does_not_change_its_client(sparse, dataset) -> None:
    good, bad = dataset(1), dataset(2, poisoned=True)
    first, second = run(sparse, [[good, dataset(2)], [good, bad]])
    alone = run(sparse, [[good, dataset(2)], [good, dataset(3, examples=0)]])[1]
    assert second["metrics"]["aggregator"]["nonfinite_updates"] == 1
    assert second["metrics"]["aggregator"]["payloads"] == 1
    for before, after in zip(first["client_states"][1], second["client_states"][1], strict=True):
        for key in before:
            np.testing.assert_array_equal(before[key], after[key])
    for a, b in zip(weights_of(second["state"]), weights_of(alone["state"]), strict=True):
        assert np.all(np.isfinite(a))
        np.testing.assert_array_equal(a, b)


def test_a_client_without_examples_sends_nothing_and_is_not_counted_as_broken(dense, dataset) -> None:
    output = run(dense, [[dataset(1, examples=0)]])[0]
    assert output["metrics"]["aggregator"]["uplink_bytes"] == 0
    assert output["metrics"]["aggregator"]["nonfinite_updates"] == 0
    for a, b in zip(weights_of(output["state"]), weights_of(dense.initialize()), strict=True):
        np.testing.assert_array_equal(a, b)


def everything(model_fn, sgd, **options):
    """Combines rules, top-k per tensor and per model, a budget, a compressed broadcast and constraints."""
    encoders = {"*/bias": "identity", "dense/*": "topk(0.1)", "*": "topk(0.1, scope='model')"}
    rules = fedplug.encoder("rules", rules=encoders)
    budget = fedplug.encoder("budget", encoder=rules, bytes_per_client=500)
    process = build_weighted_fed_avg(
        model_fn, sgd, encoder=budget, broadcast_encoder="bfp(5) | rans", min_size=0, **options
    )
    return constrain_weights(process, [tf.keras.constraints.MaxNorm(1.0), None] * 2)


@pytest.mark.slow
def test_the_runtimes_and_lowerings_agree(model_fn, sgd, dataset) -> None:
    rounds = [[dataset(1), dataset(2, examples=7, poisoned=True), dataset(3)]] * 3
    fused = run(everything(model_fn, sgd, lowering="fused"), rounds)[-1]
    reference = run(everything(model_fn, sgd, lowering="reference"), rounds)[-1]
    with use_runtime("native"):
        process = everything(model_fn, sgd)
        assert process.lowering == "reference"
        stock = run(process, rounds)[-1]
    for a, b in zip(weights_of(fused["state"]), weights_of(reference["state"]), strict=True):
        np.testing.assert_array_equal(a, b)
    for a, b in zip(weights_of(fused["state"]), weights_of(stock["state"]), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-6)  # the worker's exp differs by an ulp
    for measured in ("aggregator", "distributor"):
        assert fused["metrics"][measured] == reference["metrics"][measured]
        assert dict(fused["metrics"][measured]) == pytest.approx(dict(stock["metrics"][measured]), rel=1e-6)
    assert stock["metrics"]["aggregator"]["nonfinite_updates"] == 1


def test_the_fused_ops_are_chosen_where_the_runtime_or_that_of_a_program_can_load_them(dense) -> None:
    assert dense.lowering == "fused"
    for context, expected in (
        (create_async_execution_context(), "fused"),
        (tff.backends.native.create_async_local_cpp_execution_context(), "reference"),
    ):
        program_context = tff.program.NativeFederatedContext(context)
        with tff.framework.get_context_stack().install(program_context):
            assert choose_lowering("auto") == expected


def test_requesting_fused_ops_on_an_unsupported_runtime_names_the_fix(model_fn, sgd) -> None:
    with use_runtime("native"), pytest.raises(LoweringError, match=r"use_runtime\('inprocess'\) before"):
        build_weighted_fed_avg(model_fn, sgd, lowering="fused")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"encoder": "topk(2.0)"}, "fraction is 2.0"),
        ({"encoder": "topkk(0.1)"}, "did you mean 'topk'"),
        ({"encoder": 3}, "encoder must be an Encoder"),
        ({"aggregator": "meen"}, "did you mean 'mean'"),
        ({"aggregator": 3}, "aggregator must be an Aggregator"),
        ({"aggregator": tff.aggregators.SumFactory()}, "a SumFactory, a factory of TFF, .*build_sum_factory"),
        ({"client_weighting": "uniform"}, "client_weighting .* must be a tff.learning.ClientWeighting"),
        (
            {"client_weighting": tff.learning.ClientWeighting.UNIFORM, "aggregator": "mean"},
            "client_weighting is given with an aggregator",
        ),
        (
            {"model_aggregator": tff.learning.robust_aggregator()},
            r"a factory of TFF.*\.build_aggregation_factory",
        ),
        ({"model_distributor": "any"}, "write broadcast_encoder="),
        ({"min_size": -1}, "min_size"),
        ({"lowering": "fast"}, "lowering"),
    ],
)
def test_wrong_parts_are_refused_when_the_process_is_built(model_fn, sgd, arguments, message) -> None:
    with pytest.raises(ConfigError, match=message):
        build_weighted_fed_avg(model_fn, sgd, **arguments)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"model_fn": 3}, "model_fn must be a function that makes a model, .* found a int"),
        (
            {"model_fn": tf.keras.Sequential()},
            r"model_fn is a Keras model; use fedplug.tff.process.from_keras\(",
        ),
        (
            {"client_optimizer_fn": 0.1},
            "client_optimizer_fn must be an optimizer of TFF, found 0.1; .*build_sgdm",
        ),
        ({"server_optimizer_fn": tf.keras.optimizers.SGD}, "server_optimizer_fn must be an optimizer of TFF"),
    ],
)
def test_other_models_and_optimizers_are_refused_with_a_remedy(model_fn, sgd, arguments, message) -> None:
    with pytest.raises(TypeError, match=message):
        build_weighted_fed_avg(**{"model_fn": model_fn, "client_optimizer_fn": sgd, **arguments})


def test_a_sum_that_is_not_finite_counts_as_a_round_without_clients() -> None:
    value_type = tff.to_type(collections.OrderedDict(a=(np.float32, [100]), b=(np.float16, [3])))
    aggregation = EncodedAggregation(
        value_type,
        model_encoder(as_encoder("identity"), value_type, 0),
        as_aggregator("mean"),
        choose_lowering("auto"),
    )
    state, accumulator = aggregation.init_server(), aggregation.zero()
    for value in (1.0, 3e38):
        update = collections.OrderedDict(a=np.full(100, value, np.float32), b=np.ones(3, np.float16))
        sent = aggregation.encode(
            update, np.float32(10), aggregation.init_client(), aggregation.server_message(state)
        )
        accumulator = aggregation.accumulate(accumulator, sent["message"])
        result = aggregation.finish(accumulator, state)
        np.testing.assert_array_equal(result["value"]["a"], np.full(100, 1.0 if value == 1 else 0.0))
    assert not np.any(result["value"]["b"])
    assert result["state"]["round_num"] == 1


def test_a_step_of_the_server_optimizer_that_is_not_finite_is_not_taken() -> None:
    """Adam squares 1e30. An infinity from an earlier round is not a reason to skip the step."""
    shape = (np.float32, [3])
    weights_type = tff.to_type(tff.learning.models.ModelWeights(trainable=(shape,), non_trainable=(shape,)))
    finalizer = build_finalizer(tff.learning.optimizers.build_adam(0.1), weights_type)
    constant = np.array([-np.inf, 0, 0], np.float32)
    weights = tff.learning.models.ModelWeights((np.ones(3, np.float32),), (constant,))
    state = finalizer.initialize()
    refused = finalizer.next(state, weights, (np.full(3, 1e30, np.float32),))
    taken = finalizer.next(refused.state, refused.result, (np.ones(3, np.float32),))
    expected = finalizer.next(state, weights, (np.ones(3, np.float32),))
    np.testing.assert_array_equal(refused.result.trainable[0], np.ones(3))
    np.testing.assert_array_equal(taken.result.trainable[0], expected.result.trainable[0])
    assert np.isfinite(taken.result.trainable[0]).all()
    assert not np.array_equal(taken.result.trainable[0], np.ones(3))
