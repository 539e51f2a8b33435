"""Data and models of published settings, from `tff.simulation.baselines`, for the presets in ``examples/``.

The settings are those of Reddi et al., "Adaptive Federated Optimization" (ICLR 2021, arXiv 2003.00295). Data
and models are TFF's own. The data are read from the cache files of TFF's loaders and never downloaded here.
Every data function returns data for ``[data] source``. Each client's examples are shuffled by seed,
client and round, so that an interrupted run resumes with the same order.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from fedplug.errors import ConfigError
from fedplug.tff.experiment.data.federated import Array
from fedplug.tff.structures import Structure

__all__ = ["cifar100", "femnist", "femnist_cnn", "resnet18", "shakespeare", "shakespeare_lstm"]

_CROP = 24
"""Height and width of the crops of CIFAR-100 images, which have 32 x 32 pixels."""

Elements = Mapping[str, Array]
Augment = Callable[[Elements, np.random.Generator], Elements]


def femnist(
    path: Path, seed: int, batch_size: int, epochs: int, test_examples: int = 0
) -> dict[str, Structure]:
    """Returns FEMNIST: characters of 62 classes, 3,400 writers (Caldas et al., "LEAF", arXiv 1812.01097).

    Args:
        path: The folder with ``emnist_all.sqlite``.
        seed: The seed of the order of examples.
        batch_size: Batch size of the clients.
        epochs: Number of epochs of a client in a round.
        test_examples: Number of test examples to use. All if 0.

    Raises:
        ConfigError: The file is missing.
    """
    _require(path, "emnist")
    task = _femnist_task(batch_size, epochs, cache_dir=str(path))
    return _data(task, seed, test_examples)


def femnist_cnn() -> Structure:
    """Returns a network of two convolutions with dropout and 1,206,590 weights."""
    return _model_fn(_femnist_task)()


def shakespeare(
    path: Path, seed: int, batch_size: int, epochs: int, test_examples: int = 0
) -> dict[str, Structure]:
    """Returns lines of 715 roles for next-character prediction, in sequences of 80.

    The folder must hold ``shakespeare.sqlite``. A test example is a snippet of a role, with several
    sequences. For arguments and errors see `femnist`.
    """
    _require(path, "shakespeare")
    task = _shakespeare_task(batch_size, epochs, cache_dir=str(path))
    return _data(task, seed, test_examples)


def shakespeare_lstm() -> Structure:
    """Returns a network with an embedding of 8, two LSTM layers of 256, and 90 outputs."""
    return _model_fn(_shakespeare_task)()


def cifar100(
    path: Path, seed: int, batch_size: int, epochs: int, test_examples: int = 0
) -> dict[str, Structure]:
    """Returns CIFAR-100 over 500 clients by Pachinko allocation, cropped and flipped.

    The folder must hold ``cifar100.sqlite``. For arguments and errors see `femnist`.
    """
    _require(path, "cifar100")
    task = _cifar100_task(batch_size, epochs, cache_dir=str(path))
    return _data(task, seed, test_examples, _crop_and_flip)


def resnet18() -> Structure:
    """Returns ResNet-18 with group normalization, for images of 24 x 24 pixels and 100 classes."""
    return _model_fn(_cifar100_task)()


@functools.cache
def _model_fn(make_task: Callable[..., Structure]) -> Structure:
    """Returns the model function of a task. It is independent of the data and cached outside of graphs."""
    return make_task(1, 1, use_synthetic_data=True).model_fn


def _femnist_task(batch_size: int, epochs: int, **options: Structure) -> Structure:
    return tff.simulation.baselines.emnist.create_character_recognition_task(
        _spec(batch_size, epochs), model_id="cnn_dropout", **options
    )


def _shakespeare_task(batch_size: int, epochs: int, **options: Structure) -> Structure:
    return tff.simulation.baselines.shakespeare.create_character_prediction_task(
        _spec(batch_size, epochs), **options
    )


def _cifar100_task(batch_size: int, epochs: int, **options: Structure) -> Structure:
    return tff.simulation.baselines.cifar100.create_image_classification_task(
        _spec(batch_size, epochs), model_id="resnet18", crop_height=_CROP, crop_width=_CROP, **options
    )


def _spec(batch_size: int, epochs: int) -> Structure:
    """Returns a specification without TFF's shuffling, which has no seed: clients are shuffled here."""
    return tff.simulation.baselines.ClientSpec(
        num_epochs=epochs, batch_size=batch_size, shuffle_buffer_size=1
    )


def _require(path: Path, name: str) -> None:
    file = path / {"emnist": "emnist_all.sqlite"}.get(name, f"{name}.sqlite")
    if not file.is_file():
        command = f"tff.simulation.datasets.{name}.load_data(cache_dir='{path}')"
        raise ConfigError(
            f"there is no {file}; [data] path must be its folder, to which TFF downloads it: "
            f'python -c "import tensorflow_federated as tff; {command}"'
        )


def _data(
    task: Structure, seed: int, test_examples: int, augment: Augment | None = None
) -> dict[str, Structure]:
    datasets = task.datasets
    test = datasets.test_data.create_tf_dataset_from_all_clients(seed=seed)
    if test_examples:
        test = test.take(test_examples)
    return {
        "clients": {
            client_id: functools.partial(_of_round, datasets, client_id, (seed, position), augment)
            for position, client_id in enumerate(datasets.train_data.client_ids)
        },
        "test": datasets.eval_preprocess_fn(test),
    }


def _of_round(
    datasets: Structure, client_id: str, seed: tuple[int, int], augment: Augment | None, round_num: int
) -> tf.data.Dataset:
    """Returns a client's batches of a round."""
    elements = list(datasets.train_data.create_tf_dataset_for_client(client_id).as_numpy_iterator())
    generator = np.random.default_rng([*seed, round_num])
    order = generator.permutation(len(elements))
    shuffled: Elements = {key: np.stack([elements[i][key] for i in order]) for key in elements[0]}
    if augment is not None:
        shuffled = augment(shuffled, generator)
    return datasets.train_preprocess_fn(tf.data.Dataset.from_tensor_slices(dict(shuffled)))


def _crop_and_flip(elements: Elements, generator: np.random.Generator) -> Elements:
    """Crops a random square from every image and mirrors half of them, by seed, unlike TFF's preprocessing.

    TFF's own crop to the middle of the batches then has no effect.
    """
    images = elements["image"]
    count, height, width, _ = images.shape
    top = generator.integers(0, height - _CROP + 1, count)
    left = generator.integers(0, width - _CROP + 1, count)
    cut = [image[i : i + _CROP, j : j + _CROP] for image, i, j in zip(images, top, left, strict=True)]
    mirrored = generator.random(count) < 0.5
    turned = [image[:, ::-1] if flip else image for image, flip in zip(cut, mirrored, strict=True)]
    return {**elements, "image": np.stack(turned)}
