"""Tests that TFF's learning, aggregators, analytics and simulation give the stock worker's numbers unchanged.

The compiled math of two TensorFlow builds may differ in the last bit (exp, tanh, ...), so training has a
tolerance.
"""

from __future__ import annotations

import collections

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff
from tensorflow_federated.python.core.backends.test.compiler import replace_secure_intrinsics_with_bodies

F32, I32 = np.float32, np.int32
algorithms = tff.learning.algorithms
TRAINING = 1e-6


def client_data(seed: int, size: int) -> tf.data.Dataset:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(size, 4)).astype(F32)
    y = (x.sum(axis=1, keepdims=True) > 0).astype(F32)
    return tf.data.Dataset.from_tensor_slices(collections.OrderedDict(x=x, y=y)).batch(4)


CLIENTS = [client_data(seed, size) for seed, size in enumerate((7, 12, 3))]


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


def sgd(rate: float = 0.1):
    return tff.learning.optimizers.build_sgdm(rate, momentum=0.9)


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


@pytest.mark.parametrize("loop", list(tff.learning.LoopImplementation), ids=lambda loop: loop.name)
def test_federated_averaging_of_a_keras_model_with_both_client_loops(same_on_both, loop):
    process = algorithms.build_weighted_fed_avg(keras_model, sgd(), sgd(1.0), loop_implementation=loop)
    same_on_both(rounds(process, CLIENTS), TRAINING)


def test_federated_averaging_of_a_functional_model(same_on_both, functional_model):
    process = algorithms.build_unweighted_fed_avg(functional_model, sgd())
    same_on_both(rounds(process, CLIENTS), TRAINING)


def test_a_state_of_one_runtime_goes_into_the_other(inprocess, native, functional_model):
    process = algorithms.build_weighted_fed_avg(functional_model, sgd())
    stack = tff.framework.get_context_stack()

    def two_rounds(*runtimes):
        with stack.install(runtimes[0]):
            state = process.initialize()
        for runtime in runtimes[1:]:
            with stack.install(runtime):
                state = process.next(state, CLIENTS).state
        with stack.install(runtimes[-1]):
            return np.concatenate([w.ravel() for w in process.get_model_weights(state).trainable])

    expected = two_rounds(native, native, native)
    for mixed in ([inprocess, native, inprocess], [native, inprocess, native]):
        np.testing.assert_allclose(two_rounds(*mixed), expected, rtol=TRAINING)


def test_federated_sgd(same_on_both, functional_model):
    same_on_both(rounds(algorithms.build_fed_sgd(functional_model), CLIENTS), TRAINING)


def test_mime_lite(same_on_both, functional_model):
    process = algorithms.build_weighted_mime_lite(functional_model, sgd())
    same_on_both(rounds(process, CLIENTS), TRAINING)


def test_k_means(same_on_both):
    points = [client.unbatch().map(lambda example: example["x"]) for client in CLIENTS]
    process = algorithms.build_fed_kmeans(2, (4,), random_seed=(1, 2))
    same_on_both(rounds(process, points), TRAINING)


def test_federated_evaluation(same_on_both):
    process = algorithms.build_fed_eval(keras_model)

    def evaluate():
        return process.next(process.initialize(), CLIENTS).metrics

    same_on_both(evaluate, TRAINING)


def test_run_training_process(same_on_both, functional_model):
    process = algorithms.build_weighted_fed_avg(functional_model, sgd())

    def train():
        state = tff.simulation.run_training_process(
            process, lambda round_number: CLIENTS[: 1 + round_number % 2], total_rounds=3
        )
        return process.get_model_weights(state)

    same_on_both(train, TRAINING)


VALUE = collections.OrderedDict(w=tff.TensorType(F32, [3]), b=F32)
VALUES = [collections.OrderedDict(w=np.array([n, 0.1, -2.0], F32), b=n / 3) for n in range(1, 5)]


@pytest.mark.parametrize(
    "factory",
    [
        tff.aggregators.MeanFactory(),
        tff.aggregators.SumFactory(),
        tff.aggregators.clipping_factory(1.5, tff.aggregators.SumFactory()),
        tff.aggregators.zeroing_factory(5.0, tff.aggregators.MeanFactory()),
        tff.learning.robust_aggregator(),
        tff.aggregators.DifferentiallyPrivateFactory.gaussian_fixed(0.0, 4.0, 1.0),
        tff.aggregators.HadamardTransformFactory(tff.aggregators.SumFactory()),
    ],
    ids=["mean", "sum", "clipping", "zeroing", "robust", "dp_gaussian", "hadamard"],
)
def test_aggregators(same_on_both, factory):
    member = tff.to_type(VALUE)
    if isinstance(factory, tff.aggregators.WeightedAggregationFactory):
        process = factory.create(member, tff.to_type(F32))
        extra = [[1.0, 2.0, 3.0, 4.0]]
    else:
        process = factory.create(member)
        extra = []

    def aggregate():
        results = []
        state = process.initialize()
        for _ in range(2):
            result = process.next(state, VALUES, *extra)
            state = result.state
            results.append((result.result, result.measurements))
        return results

    same_on_both(aggregate, TRAINING)


@pytest.mark.slow
def test_secure_aggregation_has_the_numbers_of_the_test_runtime_of_tff(inprocess, native):
    """The stock worker has no secure sums; TFF's test runtime rewrites them."""
    process = tff.learning.secure_aggregator().create(tff.to_type(VALUE), tff.to_type(F32))
    stack = tff.framework.get_context_stack()
    with stack.install(inprocess):
        state = process.initialize()
        ours = process.next(state, VALUES, [1.0, 1.0, 1.0, 2.0])
    with stack.install(native):
        stock = replace_secure_intrinsics_with_bodies(process.next)(state, VALUES, [1.0, 1.0, 1.0, 2.0])
    np.testing.assert_array_equal(ours.result["w"], stock["result"]["w"])
    assert ours.result["b"] == stock["result"]["b"]


@pytest.mark.slow
def test_histogram_of_strings(same_on_both):
    histogram = tff.analytics.heavy_hitters.iblt.build_iblt_computation(
        capacity=10, string_max_bytes=8, max_words_per_user=4
    )
    words = [["sun", "moon"], ["sun"], ["star", "sun"]]

    def count():
        result = histogram([tf.data.Dataset.from_tensor_slices(w).batch(1) for w in words])
        return sorted(zip(result.heavy_hitters.tolist(), result.heavy_hitters_counts.tolist(), strict=True))

    assert same_on_both(count) == [(b"moon", 1), (b"star", 1), (b"sun", 3)]


def test_federated_averaging_with_a_proximal_term(same_on_both, functional_model):
    process = algorithms.build_weighted_fed_prox(functional_model, 0.5, sgd())
    same_on_both(rounds(process, CLIENTS), TRAINING)


def reconstruction_model():
    ones = tf.keras.initializers.Constant(0.1)
    inputs = tf.keras.Input([4])
    shared = tf.keras.layers.Dense(3, kernel_initializer=ones)
    private = tf.keras.layers.Dense(1, kernel_initializer=ones)
    model = tf.keras.Model(inputs, private(shared(inputs)))
    return tff.learning.models.ReconstructionModel.from_keras_model_and_variables(
        model,
        global_trainable_variables=shared.trainable_variables,
        global_non_trainable_variables=[],
        local_trainable_variables=private.trainable_variables,
        local_non_trainable_variables=[],
        input_spec=CLIENTS[0].element_spec,
    )


@pytest.mark.slow
def test_partially_local_federated_reconstruction(same_on_both):
    process = algorithms.build_fed_recon(
        reconstruction_model,
        loss_fn=tf.keras.losses.MeanSquaredError,
        metrics_fn=lambda: [tf.keras.metrics.MeanAbsoluteError()],
        client_optimizer_fn=sgd(),
        reconstruction_optimizer_fn=sgd(),
    )
    same_on_both(rounds(process, CLIENTS), TRAINING)


def test_evaluation_of_federated_reconstruction(same_on_both):
    process = algorithms.build_fed_recon_eval(
        reconstruction_model,
        loss_fn=tf.keras.losses.MeanSquaredError,
        reconstruction_optimizer_fn=sgd(),
    )

    def evaluate():
        return process.next(process.initialize(), CLIENTS).metrics

    same_on_both(evaluate, TRAINING)


@pytest.mark.slow
def test_personalization_evaluation(same_on_both):
    @tf.function
    def evaluate(model, data):
        def add(total, batch):
            return total + model.forward_pass(batch, training=False).loss

        return collections.OrderedDict(loss=data.batch(4).reduce(0.0, add))

    def one_step_of_descent():
        optimizer = tf.keras.optimizers.legacy.SGD(0.1)

        @tf.function
        def personalize(model, train_data, test_data, context=None):
            for batch in train_data.batch(4):
                with tf.GradientTape() as tape:
                    loss = model.forward_pass(batch, training=True).loss
                trainable = model.trainable_variables
                optimizer.apply_gradients(zip(tape.gradient(loss, trainable), trainable, strict=True))
            return evaluate(model, test_data)

        return personalize

    computation = algorithms.build_personalization_eval_computation(
        keras_model, collections.OrderedDict(one_step=one_step_of_descent), evaluate
    )
    weights = tff.learning.models.ModelWeights.from_model(keras_model())
    examples = [client.unbatch() for client in CLIENTS]
    data = [collections.OrderedDict(train_data=e, test_data=e) for e in examples]

    def personalize():
        # The sample of clients is in random order.
        metrics = computation(weights, data)
        return [sorted(metrics["baseline_metrics"]["loss"]), sorted(metrics["one_step"]["loss"])]

    before, after = same_on_both(personalize, TRAINING)
    assert len(before) == len(CLIENTS)
    assert sum(after) < sum(before)


def test_compression_aggregator(same_on_both):
    """Tensors of 20,000 elements or more are quantized to 8 bits with random rounding."""
    process = tff.learning.compression_aggregator().create(tff.TensorType(F32, [20_001]), tff.TensorType(F32))
    values = [np.random.default_rng(n).normal(size=20_001, scale=1e-3).astype(F32) for n in range(3)]

    def aggregate():
        return process.next(process.initialize(), values, [1.0, 2.0, 1.0]).result

    rounding = 2 * 4.5e-3 / 255  # range of values over 8 bits, with a margin for the weights
    result = same_on_both(aggregate, 2 * rounding)
    np.testing.assert_allclose(result, np.average(values, axis=0, weights=[1, 2, 1]), atol=2 * rounding)


def test_hierarchical_histogram(same_on_both):
    process = tff.analytics.build_hierarchical_histogram_process(
        lower_bound=0.0, upper_bound=8.0, num_bins=4, max_records_per_user=3, enable_secure_sum=False
    )
    data = [tf.data.Dataset.from_tensor_slices(np.array(ages, F32)) for ages in ([1, 3], [1, 7, 5], [])]

    def count():
        state, _ = process.next(process.initialize(), data)
        return state.aggregated_hierarchical_histogram

    assert same_on_both(count)["flat_values"].tolist() == [5, 3, 2, 2, 1, 1, 1]  # root, halves, quarters
