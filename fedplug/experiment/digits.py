"""The digits task: real images that need no download, spread over clients with a label skew."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from fedplug.errors import ConfigError, MissingDependencyError
from fedplug.experiment.config import DataConfig

__all__ = ["Examples", "FederatedImages", "load_digits", "split_by_dirichlet"]

_MIN_EXAMPLES = 5
_ATTEMPTS = 1000

FloatArray = np.ndarray[Any, np.dtype[np.float32]]
IntArray = np.ndarray[Any, np.dtype[np.int32]]


class Examples(NamedTuple):
    """Images ``float32[n, 8, 8, 1]`` with values in [0, 1], and labels ``int32[n]``."""

    images: FloatArray
    labels: IntArray


class FederatedImages(NamedTuple):
    """Training examples by client id, and the test examples nobody trains on."""

    clients: dict[str, Examples]
    test: Examples


def load_digits(config: DataConfig, seed: int) -> FederatedImages:
    """scikit-learn's handwritten digits, split into clients and a stratified test set.

    Source: Alpaydin & Kaynak, "Optical Recognition of Handwritten Digits", UCI repository, 1998.

    Raises:
        MissingDependencyError: scikit-learn is not installed.
        ConfigError: There are too many clients for the images.
    """
    try:
        from sklearn.datasets import load_digits as load
        from sklearn.model_selection import train_test_split
    except ModuleNotFoundError as error:
        raise MissingDependencyError("the digits data", error.name or "") from error
    data = load()
    images = (data.images / 16.0).astype(np.float32)[..., np.newaxis]
    labels = data.target.astype(np.int32)
    train_x, test_x, train_y, test_y = train_test_split(
        images, labels, test_size=config.test_fraction, random_state=seed, stratify=labels
    )
    parts = split_by_dirichlet(train_y, config.clients, config.dirichlet, seed)
    clients = {f"client{i:03d}": Examples(train_x[part], train_y[part]) for i, part in enumerate(parts)}
    return FederatedImages(clients, Examples(test_x, test_y))


def split_by_dirichlet(labels: IntArray, clients: int, concentration: float, seed: int) -> list[IntArray]:
    """Splits examples so that every class is spread over the clients in Dirichlet-distributed shares.

    Source: Hsu, Qi & Brown, "Measuring the Effects of Non-Identical Data Distribution for Federated Visual
    Classification", 2019 (arXiv 1909.06335). Drawn again until every client has at least 5 examples.

    Args:
        labels: ``int32[n]``.
        clients: How many components.
        concentration: Of the symmetric Dirichlet distribution.
        seed: Of the draw.

    Returns:
        Positions in ``labels``, a disjoint ``int64`` vector per client; together all of them.

    Raises:
        ConfigError: No draw gave every client enough examples.
    """
    generator = np.random.default_rng(seed)
    for _ in range(_ATTEMPTS):
        parts: list[list[Any]] = [[] for _ in range(clients)]
        for label in np.unique(labels):
            members = generator.permutation(np.flatnonzero(labels == label))
            shares = generator.dirichlet(np.full(clients, concentration))
            cuts = (np.cumsum(shares)[:-1] * len(members)).astype(int)
            for part, piece in zip(parts, np.split(members, cuts), strict=True):
                part.append(piece)
        joined = [np.concatenate(part) for part in parts]
        if min(len(part) for part in joined) >= _MIN_EXAMPLES:
            return joined
    raise ConfigError(
        f"could not give each of {clients} clients {_MIN_EXAMPLES} of {len(labels)} examples with dirichlet "
        f"{concentration}; use fewer clients or a larger dirichlet"
    )
