"""Both runtimes, each started once; a comparison of a program on both; and small programs."""

from __future__ import annotations

import collections
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from fedplug.tff.runtime import create_sync_execution_context
from fedplug.tff.runtime.native.context import NativeContext, create_native_execution_context


@pytest.fixture(scope="session")
def inprocess() -> Iterator[tff.framework.SyncContext]:
    context = create_sync_execution_context()
    yield context
    context.close()


@pytest.fixture(scope="session")
def native() -> Iterator[NativeContext]:
    context = create_native_execution_context()
    yield context
    context.close()


@pytest.fixture
def on_inprocess(inprocess: tff.framework.SyncContext) -> Iterator[None]:
    with tff.framework.get_context_stack().install(inprocess):
        yield


@pytest.fixture(scope="session")
def add_one() -> Any:
    """The computation ``(int32 -> int32)``."""

    @tff.tensorflow.computation(np.int32)
    def add_one(x: tf.Tensor) -> tf.Tensor:
        return x + 1

    return add_one


@pytest.fixture(scope="session")
def total(add_one: Any) -> Any:
    """The computation ``({int32}@CLIENTS -> int32@SERVER)``: the sum plus one for each client."""

    @tff.federated_computation(tff.FederatedType(np.int32, tff.CLIENTS))
    def total(values: Any) -> Any:
        return tff.federated_sum(tff.federated_map(add_one, values))

    return total


@pytest.fixture(scope="session")
def functional_model() -> tff.learning.models.FunctionalModel:
    """A linear regression from a batch of 4 numbers ``x`` to a batch of one, ``y``."""

    @tf.function
    def predict(weights, x, training):
        kernel, bias = weights[0]
        return x @ kernel + bias

    @tf.function
    def loss(output, label, sample_weight=None):
        return tf.reduce_mean(tf.square(output - label))

    spec = {name: tf.TensorSpec([None, width], tf.float32) for name, width in (("x", 4), ("y", 1))}
    return tff.learning.models.FunctionalModel(
        initial_weights=((np.full([4, 1], 0.1, np.float32), np.zeros([1], np.float32)), ()),
        predict_on_batch_fn=predict,
        loss_fn=loss,
        input_spec=collections.OrderedDict(spec),
    )


def plain(value: Any) -> Any:
    """Converts a result to lists, dictionaries and arrays that compare by content."""
    if isinstance(value, tf.data.Dataset):
        return ["dataset", *(plain(element) for element in value)]
    if isinstance(value, tf.Tensor):
        return value.numpy()
    if hasattr(value, "_asdict"):
        return plain(value._asdict())
    if hasattr(value, "__attrs_attrs__"):
        return {a.name: plain(getattr(value, a.name)) for a in value.__attrs_attrs__}
    if isinstance(value, tff.structure.Struct):
        return [(name, plain(part)) for name, part in tff.structure.iter_elements(value)]
    if isinstance(value, collections.abc.Mapping):
        return {name: plain(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    return value


def assert_same(actual: Any, expected: Any, rtol: float = 0.0) -> None:
    """Asserts equal structure, dtypes and shapes, and equal numbers (within `rtol`)."""
    if isinstance(expected, dict):
        assert list(actual) == list(expected)
        for name in expected:
            assert_same(actual[name], expected[name], rtol)
    elif isinstance(expected, list | tuple):
        assert len(actual) == len(expected)
        for a, e in zip(actual, expected, strict=True):
            assert_same(a, e, rtol)
    elif isinstance(expected, np.ndarray | np.generic):
        assert type(actual) is type(expected)
        assert (actual.dtype, actual.shape) == (expected.dtype, expected.shape)
        if rtol and np.issubdtype(expected.dtype, np.floating):
            np.testing.assert_allclose(actual, expected, rtol=rtol, atol=rtol)
        else:
            np.testing.assert_array_equal(actual, expected)
    else:
        assert type(actual) is type(expected)
        assert actual == expected


@pytest.fixture
def same_on_both(inprocess: tff.framework.SyncContext, native: NativeContext) -> Callable[..., Any]:
    """Returns a function that runs a program on both runtimes, compares the results, and returns ours."""

    def run(program: Callable[[], Any], rtol: float = 0.0) -> Any:
        stack = tff.framework.get_context_stack()
        with stack.install(inprocess):
            ours = program()
        with stack.install(native):
            stock = program()
        assert_same(plain(ours), plain(stock), rtol)
        return ours

    return run
