"""Exact differences of arrays and models in memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

import fedplug.wire as wire
from fedplug.differences.arrays import decode_array, encode_array
from fedplug.differences.models import decode_model, encode_model, require_places
from fedplug.errors import ArgumentError
from fedplug.kernels.foreign import read_array, require_names
from fedplug.types import Values
from fedplug.wire.message import MessageReader

__all__ = ["DEFAULT_MAX_BYTES", "diff", "patch"]

DEFAULT_MAX_BYTES = 2**30


def diff(old: Any, new: object) -> bytes:
    """Encodes the difference between two versions of an array or of a model, exact to the bit.

    A model is a mapping of arrays by name. Arrays may be added, removed and reshaped, and have any dtype
    except Python objects and records: floats change by units in the last place, integers by differences, and
    other elements byte by byte. A difference is never much longer than the new version.

    >>> import fedplug, numpy as np
    >>> old = {"kernel": np.float32([1, 2, 3]), "bias": np.float32([0])}
    >>> new = {"kernel": np.float32([1, 2.0000002, 3])}
    >>> fedplug.patch(old, fedplug.diff(old, new))
    {'kernel': array([1.       , 2.0000002, 3.       ], dtype=float32)}

    Args:
        old: The version that receivers have: an array, or a mapping.
        new: The version to send, of the same kind. Arrays are of NumPy, or have ``__dlpack__`` (PyTorch, JAX;
            on the CPU) or ``__array__``.

    Returns:
        The message for `patch`.

    Raises:
        ArgumentError: Only one of the versions is a mapping, or an array cannot be encoded.
    """
    if isinstance(old, Mapping) != isinstance(new, Mapping):
        raise ArgumentError("one version is a mapping of arrays and the other is not; pass two of a kind")
    if isinstance(new, Mapping):
        return b"".join(encode_model(_arrays(old), _arrays(new)))
    return encode_array(read_array(old), read_array(new))


@overload
def patch(
    old: Mapping[str, object],
    message: object,
    *,
    max_bytes: float = ...,
    out: Mapping[str, NDArray[np.generic]] | None = ...,
) -> dict[str, Values]: ...


@overload
def patch(
    old: object, message: object, *, max_bytes: float = ..., out: NDArray[np.generic] | None = ...
) -> Any: ...


def patch(old: object, message: object, *, max_bytes: float = DEFAULT_MAX_BYTES, out: Any = None) -> Any:
    """Returns the new version from the old one and a message of `diff`.

    Args:
        old: The version that the difference was made from. It is not changed.
        message: The untrusted message: any C-contiguous buffer.
        max_bytes: Maximum size of the new version, also in ``out``. Decoding takes scratch memory besides, up
            to 13 bytes for each of the 8 million elements that a thread decodes at a time.
        out: An array to write into, or a mapping of arrays by name for some or all of a model. They share no
            memory with ``old``, and all are checked before one is written.

    Returns:
        An array, or a dict of arrays in the order of the encoder, equal to ``new`` bit for bit.

    Raises:
        PayloadError: The message is corrupt or too large, or was made from another version than ``old``. The
            error names the array. Nothing is returned then, and the contents of ``out`` are undefined.
        ArgumentError: ``max_bytes`` is not a number of at least 0, or an argument cannot be used.
    """
    max_bytes = wire.check_max_bytes(max_bytes)
    reader = MessageReader(message)
    if isinstance(old, Mapping):
        arrays = _arrays(old)
        if out is not None:
            require_places(out, arrays, MessageReader(message))
        return dict(decode_model(arrays, reader, max_bytes, out))
    new = decode_array(reader.payload(), read_array(old), max_bytes, out)
    reader.finish()
    return new


def _arrays(model: Mapping[str, object]) -> dict[str, NDArray[np.generic]]:
    require_names(model)
    return {name: read_array(value) for name, value in model.items()}
