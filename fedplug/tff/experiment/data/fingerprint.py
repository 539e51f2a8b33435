"""Fingerprints of an experiment's data, by which a resumed experiment detects changed data."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from fedplug.tff.experiment.data.federated import FederatedData

__all__ = ["Fingerprint", "fingerprint"]


class Fingerprint(NamedTuple):
    """A fingerprint of clients and test examples.

    Attributes:
        clients: Number of clients.
        examples: Number of examples of all clients.
        sha256: Hash of the clients' names and of all arrays, with their dtypes and shapes, in hexadecimal.
    """

    clients: int
    examples: int
    sha256: str


def fingerprint(data: FederatedData) -> Fingerprint | None:
    """Returns the fingerprint of these data. None if a dataset or function produces some on demand."""
    if not isinstance(data.clients, dict):
        return None
    parts = [*sorted(data.clients.items()), ("", data.test)]
    if not all(_is_arrays(examples) for _, examples in parts):
        return None
    digest = hashlib.sha256()
    for name, examples in parts:
        for piece in _pieces(name, examples):
            digest.update(piece)
    count = sum(len(examples[0]) for examples in data.clients.values())
    return Fingerprint(len(data.clients), count, digest.hexdigest())


def _is_arrays(examples: Any) -> bool:
    return isinstance(examples, tuple) and all(isinstance(array, np.ndarray) for array in examples)


def _pieces(name: str, examples: tuple[np.ndarray[Any, Any], ...]) -> Iterator[Any]:
    yield repr((name, [(array.dtype.str, array.shape) for array in examples])).encode()
    for array in examples:
        yield np.ascontiguousarray(array)
