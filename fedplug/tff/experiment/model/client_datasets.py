"""The clients' data for a `Trainer`: seeded functions from the round number to shuffled batches."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from fedplug.errors import ConfigError
from fedplug.tff.experiment.config import DataConfig
from fedplug.tff.experiment.data.federated import Examples, as_examples
from fedplug.tff.runtime.graphs.inline_calls import inlined
from fedplug.tff.runtime.inprocess.values import quick_to_begin
from fedplug.tff.structures import Structure

__all__ = ["client_datasets", "of_client"]


def client_datasets(
    config: DataConfig, clients: Mapping[str, Structure], seed: int
) -> dict[str, Callable[[int], tf.data.Dataset]]:
    """Returns a function from the round number to shuffled and batched data, for each client.

    The order depends only on seed, client and round, so that a resumed run gets the same data as an
    uninterrupted one. Datasets, and functions that return them, are used unchanged.
    """
    return {
        client_id: functools.partial(_dataset, config, clients, client_id, (seed, position))
        for position, client_id in enumerate(sorted(clients))
    }


def of_client(clients: Mapping[str, Structure], client_id: str, round_num: int) -> tf.data.Dataset | Examples:
    """Returns a client's data of a round.

    Raises:
        ConfigError: They are of an unsupported type.
    """
    found: Structure = clients[client_id]
    if callable(found):
        found = found(round_num)
    if isinstance(found, tf.data.Dataset):
        return found
    if isinstance(found, tuple | list) and len(found) == 2:
        x, y = found
        return found if isinstance(found, Examples) else as_examples(x, y, f"client {client_id!r}")
    raise ConfigError(
        f"the data of client {client_id!r} are a {type(found).__name__}; they must be a pair of arrays "
        "(x, y), a tf.data.Dataset of batches, or a function from the round number to one"
    )


def _dataset(
    config: DataConfig,
    clients: Mapping[str, Structure],
    client_id: str,
    seed: tuple[int, int],
    round_num: int,
) -> tf.data.Dataset:
    found = of_client(clients, client_id, round_num)
    if isinstance(found, tf.data.Dataset):
        return found
    x, y = found
    generator = np.random.default_rng([*seed, round_num])
    order = np.concatenate([generator.permutation(len(y)) for _ in range(config.epochs)])
    return _batches(x[order], y[order], config.batch_size)


def _batches(x: NDArray[np.generic], y: NDArray[np.generic], size: int) -> tf.data.Dataset:
    """Computes ``tf.data.Dataset.from_tensor_slices((x, y)).batch(size)`` with a function traced once.

    These are several Python calls per client and round, which would slow down rounds of small models.
    """
    specs = tuple(tf.TensorSpec([None, *array.shape[1:]], array.dtype) for array in (x, y))
    (variant,) = _to_batches(specs, size)([tf.constant(x), tf.constant(y)])
    return tf.data.experimental.from_variant(variant, specs)


@functools.lru_cache(64)
def _to_batches(
    specs: tuple[tf.TensorSpec, ...], size: int
) -> Callable[[Sequence[tf.Tensor]], list[tf.Tensor]]:
    def to_batches(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
        batches = tf.data.Dataset.from_tensor_slices((x, y)).batch(size)
        return tf.data.experimental.to_variant(batches.with_options(quick_to_begin()))

    return inlined(tf.function(to_batches, input_signature=specs, autograph=False).get_concrete_function())
