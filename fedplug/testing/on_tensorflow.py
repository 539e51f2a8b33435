"""The execution on TensorFlow tensors, imported only if TensorFlow is installed."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import ClassVar

import numpy as np
import tensorflow as tf
from numpy.typing import ArrayLike, NDArray

from fedplug.testing import memory
from fedplug.testing.execution import Execution, Reader

__all__ = ["TensorFlow", "unoptimized"]


@contextlib.contextmanager
def unoptimized() -> Iterator[None]:
    """Runs graphs as they were traced: to optimize one takes longer than to run it a few times."""
    option = "disable_meta_optimizer"
    before = tf.config.optimizer.get_experimental_options().get(option, False)
    tf.config.optimizer.set_experimental_options({option: True})
    try:
        yield
    finally:
        tf.config.optimizer.set_experimental_options({option: before})


class TensorFlow(Execution):
    """Runs encoders on eager tensors, and reads bytes also in graphs, as on a server."""

    name: ClassVar[str] = "tensorflow"
    refuses: ClassVar[type[Exception]] = tf.errors.InvalidArgumentError

    def spec(self, shape: Sequence[int], dtype: str, name: str | None = None) -> tf.TensorSpec:
        return tf.TensorSpec(shape, tf.as_dtype(dtype), name=name)

    def array(self, values: ArrayLike) -> tf.Tensor:
        return tf.constant(values)

    def round_num(self, number: int) -> tf.Tensor:
        return tf.constant(number)

    def is_array(self, value: object) -> bool:
        return bool(tf.is_tensor(value))

    def numpy(self, x: tf.Tensor) -> NDArray[np.generic]:
        return np.asarray(x.numpy())  # NumPy by itself cannot read a tensor that is a bfloat16 scalar

    def readers(self, read: Reader) -> tuple[Reader, ...]:
        function = tf.function(read, input_signature=[tf.TensorSpec([None], tf.uint8)], autograph=False)
        return function.get_concrete_function(), read

    def stacked(self, function: Callable[[tf.Tensor], tf.Tensor], rounds: int) -> NDArray[np.float64]:
        def one(number: tf.Tensor) -> tf.Tensor:
            return tf.cast(function(number), tf.float64)

        def all_rounds() -> tf.Tensor:
            return tf.map_fn(one, tf.range(rounds), fn_output_signature=tf.float64)

        return np.asarray(tf.function(all_rounds, autograph=False)())

    def peak_memory(self, action: Callable[[], object], allowance: int) -> int:
        return memory.of_tensors(action, allowance)
