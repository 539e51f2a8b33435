"""Names a version of a model by its contents."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedplug import kernels
from fedplug.wire.message import VERSION_BYTES

__all__ = ["version_of"]


def version_of(model: Mapping[str, NDArray[Any]]) -> str:
    """Returns the version of a model: 16 hexadecimal digits that follow from its arrays.

    Two models have the same version if they have the same names in the same order, and the same dtypes,
    shapes and bits. Different models have different versions with a probability of 1 - 2^-32 or more: it
    detects mistakes, and does not stop somebody who searches for two models with one version.

    Args:
        model: C-contiguous arrays by name.
    """
    digest = hashlib.blake2b(digest_size=VERSION_BYTES)
    for name, array in model.items():
        bits = kernels.crc32(array.reshape(-1).view(np.uint8))
        digest.update(f"{len(name.encode())} {name} {array.dtype.name} {array.shape} {bits:08x}\n".encode())
    return digest.hexdigest()
