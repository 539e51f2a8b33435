"""Reads the changed entries of an array, for a receiver that has the other entries."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedplug import kernels
from fedplug.codecs.wire_ids import WireIds, value_coder_of
from fedplug.encoders.pipeline.changes import CHANGES, ChangeCoder
from fedplug.errors import ArgumentError, ConfigError, PayloadError
from fedplug.ops.types import ArraySpec

__all__ = ["decode_changes", "is_of_changes"]


def is_of_changes(wire_id: str) -> bool:
    """Whether payloads with this wire id have the changed entries alone."""
    return wire_id.startswith(CHANGES)


def decode_changes(payload: Any, old: NDArray[Any], *, wire_ids: WireIds = None) -> NDArray[Any]:
    """Returns the new array.

    Args:
        payload: The untrusted payload, written by a `ChangeCoder`.
        old: The array that the receiver has.
        wire_ids: The expected wire ids of payloads of the whole array, as for `fedplug.decode`.

    Raises:
        PayloadError: The bytes are not the changed entries of an array with the shape and dtype of ``old``.
    """
    wire_id, dtype, shape, body = kernels.unframe(payload)
    whole = wire_id.removeprefix(CHANGES)
    if not is_of_changes(wire_id) or (wire_ids is not None and whole not in wire_ids):
        raise PayloadError(f"the payload has the wire id {wire_id!r}, which was not expected")
    if (dtype, shape) != (old.dtype.name, old.shape):
        raise PayloadError(
            f"the payload changes {dtype}{list(shape)}; the array is {old.dtype}{list(old.shape)}"
        )
    try:
        values = value_coder_of(whole, kernels.split_sparse_body(body, old.size)[2])
        coder = ChangeCoder(values, ArraySpec(old.shape, old.dtype))
        new: NDArray[Any] = coder.decode(np.frombuffer(payload, np.uint8), old)
    except (ArgumentError, ConfigError) as error:  # an impossible configuration is the payload's fault
        raise PayloadError(f"a payload with the wire id {wire_id!r} cannot be read: {error}") from error
    return new
