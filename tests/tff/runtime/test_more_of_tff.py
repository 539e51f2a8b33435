"""Tests more of TFF against the numbers of the stock worker; `test_learning` has the common part."""

from __future__ import annotations

import asyncio
import collections

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from fedplug.tff.process import build_aggregation_factory
from fedplug.tff.runtime import create_async_execution_context

F32, I32 = np.float32, np.int32
algorithms = tff.learning.algorithms
TRAINING = 1e-6


def examples(seed: int, size: int) -> collections.OrderedDict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(size, 4)).astype(F32)
    return collections.OrderedDict(x=x, y=x.sum(axis=1, keepdims=True))


SIZES = (7, 12, 3)
CLIENTS = [tf.data.Dataset.from_tensor_slices(examples(seed, n)).batch(4) for seed, n in enumerate(SIZES)]


def sgd(rate=0.1):
    return tff.learning.optimizers.build_sgdm(rate)


def two_rounds(process, data):
    def run():
        state = process.initialize()
        for _ in range(2):
            result = process.next(state, data)
            state = result.state
        return process.get_model_weights(state), result.metrics

    return run


@pytest.mark.parametrize(
    "build",
    [
        lambda model: algorithms.build_unweighted_fed_prox(model, 0.5, sgd()),
        lambda model: algorithms.build_unweighted_mime_lite(model, sgd()),
        lambda model: algorithms.build_weighted_fed_avg_with_optimizer_schedule(
            model, lambda round_num: 0.1 / tf.cast(round_num + 1, tf.float32), sgd
        ),
    ],
    ids=["unweighted fed_prox", "unweighted mime_lite", "optimizer schedule"],
)
def test_learning_algorithms(same_on_both, functional_model, build):
    same_on_both(two_rounds(build(functional_model), CLIENTS), TRAINING)


@pytest.mark.slow
@pytest.mark.usefixtures("on_inprocess")
def test_distributed_differential_privacy_trains(functional_model):
    """The stock worker does not support secure sums, and the noise is random."""
    aggregator = tff.learning.ddp_secure_aggregator(1e-6, expected_clients_per_round=3)
    process = algorithms.build_unweighted_fed_avg(functional_model, sgd(), model_aggregator=aggregator)
    plain = algorithms.build_unweighted_fed_avg(functional_model, sgd())
    private, exact = (two_rounds(p, CLIENTS)()[0] for p in (process, plain))
    # Updates are clipped, initially to a norm of 0.1, which keeps their direction.
    moves = [weights.trainable[0].ravel() - 0.1 for weights in (private, exact)]
    cosine = np.dot(*moves) / np.prod([np.linalg.norm(move) for move in moves])
    assert cosine > 0.95


VALUE = tff.StructWithPythonType([("w", tff.TensorType(F32, [3])), ("b", F32)], collections.OrderedDict)
VALUES = [collections.OrderedDict(w=np.array([n, 0.1, -2.0], F32), b=F32(n / 3)) for n in range(1, 5)]


@pytest.mark.parametrize(
    "factory",
    [
        tff.aggregators.UnweightedMeanFactory(),
        tff.aggregators.concat_factory(tff.aggregators.SumFactory()),
        tff.aggregators.DiscreteFourierTransformFactory(tff.aggregators.SumFactory()),
        tff.aggregators.UnweightedReservoirSamplingFactory(10, return_sampling_metadata=False),
        tff.aggregators.add_measurements(
            tff.aggregators.SumFactory(),
            client_measurement_fn=lambda value: collections.OrderedDict(
                norm=tff.federated_mean(
                    tff.federated_map(tff.tensorflow.computation(lambda v: tf.norm(v["w"])), value)
                )
            ),
        ),
        tff.aggregators.DifferentiallyPrivateFactory.tree_aggregation(
            0.0,
            4.0,
            1.0,
            record_specs=collections.OrderedDict(
                w=tf.TensorSpec([3], tf.float32), b=tf.TensorSpec([], tf.float32)
            ),
            noise_seed=1,
        ),
    ],
    ids=["unweighted mean", "concat", "rotation", "sample", "measurements", "dp tree"],
)
def test_aggregators(same_on_both, factory):
    process = factory.create(VALUE)

    def aggregate():
        state = process.initialize()
        for _ in range(2):
            output = process.next(state, VALUES)
            state = output.state
        if isinstance(factory, tff.aggregators.UnweightedReservoirSamplingFactory):
            return sorted(output.result["b"])  # of all clients, in random order
        return output.result, output.measurements

    same_on_both(aggregate, TRAINING)


def test_private_quantile_estimation(same_on_both):
    process = tff.aggregators.PrivateQuantileEstimationProcess.no_noise(1.0, 0.5, 0.2)

    def estimate():
        state = process.initialize()
        for _ in range(3):
            state = process.next(state, [1.0, 5.0, 9.0])
        return process.report(state)

    assert same_on_both(estimate, TRAINING) > 1.0


def test_counting_distinct_strings(same_on_both):
    count = tff.analytics.count_distinct.create_federated_hyperloglog_computation()
    words = [["sun", "moon"], ["sun"], ["star", "sun"]]

    # The sketch is sized for many strings: with three, the estimate is far off, but equal on both.
    same_on_both(lambda: count([tf.data.Dataset.from_tensor_slices(w) for w in words]))


def of_ids(process):
    """Returns the process with ids as clients, and the ids."""
    data = tff.simulation.datasets.TestClientData(
        {f"client {s}": examples(s, n) for s, n in enumerate(SIZES)}
    )
    data = data.preprocess(lambda dataset: dataset.batch(4))
    composed = tff.simulation.compose_dataset_computation_with_learning_process(
        data.dataset_computation, process
    )
    return composed, data.client_ids


def test_data_sets_made_within_the_computation(same_on_both, functional_model):
    process, ids = of_ids(algorithms.build_weighted_fed_avg(functional_model, sgd()))
    same_on_both(two_rounds(process, ids), TRAINING)


@pytest.mark.usefixtures("on_inprocess")
def test_the_training_program_of_tff_goes_on_where_it_ended(functional_model, tmp_path):
    # TFF samples clients in random order and sums differ in their last bits, so nothing may round at random.
    factory = build_aggregation_factory("randomk(1.0)", min_size=1)
    process, ids = of_ids(
        algorithms.build_weighted_fed_avg(functional_model, sgd(), model_aggregator=factory)
    )
    models = tff.program.MemoryReleaseManager()

    async def program(rounds):
        metrics = tff.program.MemoryReleaseManager()
        context = tff.program.NativeFederatedContext(create_async_execution_context())
        with tff.framework.get_context_stack().install(context):
            await tff.learning.programs.train_model(
                train_process=process,
                train_data_source=tff.program.ClientIdDataSource(ids),
                train_per_round_clients=3,
                train_total_rounds=rounds,
                program_state_manager=tff.program.FileProgramStateManager(tmp_path),
                model_output_manager=models,
                train_metrics_manager=metrics,
                evaluation_manager=None,
                evaluation_periodicity=1,
            )
        return list(metrics.values())

    loop = asyncio.new_event_loop()  # `asyncio.run` would remove the thread's loop, which simulations need
    assert loop.run_until_complete(program(1)) == [1]
    assert loop.run_until_complete(program(2)) == [2]
    loop.close()
    weights = process.get_model_weights(models.values()["training_checkpoint_round_2"])
    expected, _ = two_rounds(process, ids)()
    for ours, theirs in zip(weights.trainable, expected.trainable, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5)  # clients are in random order
