"""The clients' data as `fedplug.Trainer` takes them: functions from the round to shuffled batches, seeded."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from fedplug.errors import ConfigError
from fedplug.experiment.config import DataConfig
from fedplug.experiment.data.federated import Examples, as_examples

__all__ = ["client_datasets"]


def client_datasets(
    config: DataConfig, clients: Mapping[str, Any], seed: int
) -> dict[str, Callable[[int], tf.data.Dataset]]:
    """For each client a function from the round number to its shuffled and batched data.

    The order depends on seed, client and round only, so that a resumed run sees what an uninterrupted one
    does. What is a dataset, or a function from the round to one, stays as it is.
    """
    return {
        client_id: functools.partial(_dataset, config, clients, client_id, (seed, position))
        for position, client_id in enumerate(sorted(clients))
    }


def _dataset(
    config: DataConfig, clients: Mapping[str, Any], client_id: str, seed: tuple[int, int], round_num: int
) -> tf.data.Dataset:
    found = clients[client_id]
    if callable(found):
        found = found(round_num)
    if isinstance(found, tf.data.Dataset):
        return found
    if not (isinstance(found, tuple | list) and len(found) == 2):
        raise ConfigError(
            f"the data of client {client_id!r} are a {type(found).__name__}; they must be a pair of arrays "
            "(x, y), a tf.data.Dataset, or a function from the number of the round to one"
        )
    x, y = found
    if not isinstance(found, Examples):
        x, y = as_examples(x, y, f"client {client_id!r}")
    generator = np.random.default_rng([*seed, round_num])
    order = np.concatenate([generator.permutation(len(y)) for _ in range(config.epochs)])
    return tf.data.Dataset.from_tensor_slices((x[order], y[order])).batch(config.batch_size)
