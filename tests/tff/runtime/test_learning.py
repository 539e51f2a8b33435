"""Tests that TFF's learning algorithms and programs give the stock worker's numbers unchanged.

The compiled math of two TensorFlow builds may differ in the last bit (exp, tanh, ...), so training has a
tolerance.
"""

from __future__ import annotations

import asyncio
import collections

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from fedplug.tff.process import build_aggregation_factory
from fedplug.tff.runtime import create_async_execution_context

pytestmark = pytest.mark.slow  # other tests run TFF's programs, and aggregations on both runtimes

F32 = np.float32
algorithms = tff.learning.algorithms
TRAINING = 1e-6


def examples(seed: int, size: int) -> collections.OrderedDict[str, np.ndarray]:
    x = np.random.default_rng(seed).normal(size=(size, 4)).astype(F32)
    return collections.OrderedDict(x=x, y=x.sum(axis=1, keepdims=True))


EXAMPLES = {f"client {seed}": examples(seed, size) for seed, size in enumerate((7, 12, 3))}
CLIENTS = [tf.data.Dataset.from_tensor_slices(of_client).batch(4) for of_client in EXAMPLES.values()]


def keras_model():
    initial = tf.keras.initializers.GlorotUniform
    model = tf.keras.Sequential(
        [
            tf.keras.layers.Dense(3, "relu", kernel_initializer=initial(seed=1), input_shape=(4,)),
            tf.keras.layers.Dense(1, kernel_initializer=initial(seed=2)),
        ]
    )
    return tff.learning.models.from_keras_model(
        model,
        loss=tf.keras.losses.MeanSquaredError(),
        input_spec=CLIENTS[0].element_spec,
        metrics=[tf.keras.metrics.MeanAbsoluteError()],
    )


def sgd(rate: float = 0.1, momentum: float | None = 0.9):
    return tff.learning.optimizers.build_sgdm(rate, momentum)


def rounds(process, data, count=2):
    """Runs rounds and returns everything that a user sees."""

    def run():
        state = process.initialize()
        metrics = []
        for _ in range(count):
            result = process.next(state, data)
            state = result.state
            metrics.append(result.metrics)
        return process.get_model_weights(state), metrics

    return run


def test_the_runtimes_average_alike_and_take_each_others_states(same_on_both, inprocess, native):
    robust = tff.learning.robust_aggregator()  # clips, zeroes, and takes the mean
    process = algorithms.build_weighted_fed_avg(keras_model, sgd(), sgd(1.0), model_aggregator=robust)
    expected, _ = same_on_both(rounds(process, CLIENTS), TRAINING)
    stack = tff.framework.get_context_stack()
    for first, *others in ([inprocess, native, inprocess], [native, inprocess, native]):
        with stack.install(first):
            state = process.initialize()
        for runtime in others:
            with stack.install(runtime):
                state = process.next(state, CLIENTS).state
        with stack.install(first):
            weights = process.get_model_weights(state)
        for ours, theirs in zip(weights.trainable, expected.trainable, strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=TRAINING, atol=TRAINING)


def test_mime_lite_of_a_functional_model(same_on_both, functional_model):
    process = algorithms.build_weighted_mime_lite(functional_model, sgd())
    same_on_both(rounds(process, CLIENTS), TRAINING)


def of_ids(process):
    """Returns the process with ids as clients, and the ids."""
    data = tff.simulation.datasets.TestClientData(EXAMPLES).preprocess(lambda dataset: dataset.batch(4))
    composed = tff.simulation.compose_dataset_computation_with_learning_process(
        data.dataset_computation, process
    )
    return composed, data.client_ids


@pytest.mark.usefixtures("on_inprocess")
def test_the_training_program_of_tff_resumes(functional_model, tmp_path):
    # TFF samples clients in random order and sums differ in their last bits, so nothing may round at random.
    factory = build_aggregation_factory("randomk(1.0)", min_size=1)
    process, ids = of_ids(
        algorithms.build_weighted_fed_avg(functional_model, sgd(), model_aggregator=factory)
    )
    models = tff.program.MemoryReleaseManager()
    context = create_async_execution_context()

    async def program(rounds):
        metrics = tff.program.MemoryReleaseManager()
        with tff.framework.get_context_stack().install(tff.program.NativeFederatedContext(context)):
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

    async def weights_of(state):
        with tff.framework.get_context_stack().install(context):
            return await process.get_model_weights(state)

    async def by_hand():
        with tff.framework.get_context_stack().install(context):
            state = await process.initialize()
            for _ in range(2):
                state = (await process.next(state, ids)).state
        return await weights_of(state)

    loop = asyncio.new_event_loop()  # `asyncio.run` would remove the thread's loop, which simulations need
    assert loop.run_until_complete(program(1)) == [1]
    assert loop.run_until_complete(program(2)) == [2]
    expected = loop.run_until_complete(by_hand())
    weights = loop.run_until_complete(weights_of(models.values()["training_checkpoint_round_2"]))
    loop.close()
    for ours, theirs in zip(weights.trainable, expected.trainable, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5)  # clients are in random order
