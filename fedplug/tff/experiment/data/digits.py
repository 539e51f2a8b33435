"""``source = "digits"``: real images that need no download, divided among clients with a label skew."""

from __future__ import annotations

import numpy as np

from fedplug.errors import MissingDependencyError
from fedplug.tff.experiment.config import DataConfig
from fedplug.tff.experiment.data.federated import Examples, Pooled

__all__ = ["load_digits"]


def load_digits(config: DataConfig, seed: int) -> Pooled:
    """Loads scikit-learn's handwritten digits, with a stratified test set.

    Source: Alpaydin & Kaynak, "Optical Recognition of Handwritten Digits", UCI repository, 1998.

    Returns:
        Images ``float32[n, 8, 8, 1]`` with values in [0, 1], and labels ``int32[n]``.

    Raises:
        MissingDependencyError: scikit-learn is not installed.
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
    return Pooled(Examples(train_x, train_y), test=Examples(test_x, test_y))
