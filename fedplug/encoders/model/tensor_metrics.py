"""Measurements of each tensor of an update: bytes by use, entropy bound, error, residual.

They are measured on the buffers that are sent and on the client's next states. The sums over any number of
clients (`measure`) and the metrics (`summarize`) are vectors with one number per tensor, so that they fit a
TFF process. docs/observe.md explains the numbers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

import fedplug.ops as ops
from fedplug.encoders import containers
from fedplug.encoders.base import Encoder, State, body_parts
from fedplug.encoders.model.model_encoder import Buffers, ModelEncoder
from fedplug.ops.types import Array, Scalar, Spec

__all__ = ["SUMS", "by_name", "measure", "summarize"]

SUMS = {
    "uplink_bytes": "int64",
    "index_bytes": "int64",
    "value_bytes": "int64",
    "entropy_bytes": "float64",
    "squared_error": "float64",
    "squared_norm": "float64",
    "squared_residual": "float64",
    "squared_update": "float64",
}
"""The keys of the result of `measure`, with their dtypes. A NaN in a sum means that the number is unknown."""


def measure(
    encoder: ModelEncoder, xs: Sequence[Array], buffers: Buffers, next_states: Sequence[State]
) -> dict[str, Array]:
    """Measures an encoded update. Add the results of several updates key by key.

    Args:
        encoder: The encoder of the model.
        xs: The tensors that were encoded.
        buffers: The buffers from `ModelEncoder.encode`.
        next_states: The next states from `ModelEncoder.encode`.

    Returns:
        For each key of `SUMS` a vector with one number per tensor.
    """
    measured = [
        _measure_tensor(*each)
        for each in zip(encoder.encoders, encoder.specs, xs, buffers, next_states, strict=True)
    ]
    return {
        key: ops.stack([ops.astype(sums[key], dtype) for sums in measured]) for key, dtype in SUMS.items()
    }


def summarize(sums: Mapping[str, Array]) -> dict[str, Array]:
    """Returns the metrics of the sums: vectors with one number per tensor. NaN if it is unknown.

    They are ``uplink_bytes``, ``header_bytes``, ``index_bytes`` and ``value_bytes`` (int64),
    ``entropy_bytes``, ``nmse`` and ``residual_ratio`` (float64).
    """
    of_body = sums["index_bytes"] + sums["value_bytes"]
    return {
        "uplink_bytes": sums["uplink_bytes"],
        "header_bytes": sums["uplink_bytes"] - of_body,
        "index_bytes": sums["index_bytes"],
        "value_bytes": sums["value_bytes"],
        "entropy_bytes": sums["entropy_bytes"],
        "nmse": sums["squared_error"] / sums["squared_norm"],
        "residual_ratio": ops.sqrt(sums["squared_residual"] / sums["squared_update"]),
    }


def by_name(names: Sequence[str], metrics: Mapping[str, Array]) -> dict[str, dict[str, int | float | None]]:
    """Returns the metrics of `summarize` as JSON values by tensor. None if a value is unknown."""
    return {
        name: {key: _plain(vector[position]) for key, vector in metrics.items()}
        for position, name in enumerate(names)
    }


def _measure_tensor(
    encoder: Encoder, spec: Spec, x: Array, buffer: Array, next_state: State
) -> dict[str, Scalar]:
    body = containers.unframe(buffer, encoder.wire_id, spec)
    squares: tuple[Scalar, ...] = (math.nan,) * 4
    if ops.is_floating(spec.dtype):
        squares = _squares(encoder, spec, x, body, next_state)
    error, norm, residual, update = squares
    return {
        "uplink_bytes": ops.size(body) + containers.container_bytes(encoder.wire_id, spec),
        **body_parts(encoder, body, spec)._asdict(),
        "squared_error": error,
        "squared_norm": norm,
        "squared_residual": residual,
        "squared_update": update,
    }


def _squares(
    encoder: Encoder, spec: Spec, x: Array, body: Array, next_state: State
) -> tuple[Scalar, Scalar, Scalar, Scalar]:
    """Returns squared norms: of the error, of the target, of the residual (or NaN) and of ``x``.

    With a residual, the error is the residual, and the target is the residual plus the decoded
    tensor. So the state before, which may have been overwritten, is not needed.
    """
    update = ops.sum_of_squares(x)
    if encoder.capabilities.lossless:
        return 0.0, update, math.nan, update
    payload = encoder.from_wire(body, spec)
    x = ops.widened(x)  # as what is kept of it is
    one = ops.asarray(1, like=x)
    if encoder.capabilities.sends_differences:  # the receiver has the same memory
        return ops.sum_of_squares(x - next_state["memory"]), update, math.nan, update
    residual = next_state.get("residual")
    if residual is None:
        lost = encoder.accumulate(x, payload, -one, spec)
        return ops.sum_of_squares(lost), update, math.nan, update
    error = ops.sum_of_squares(residual)
    return error, ops.sum_of_squares(encoder.accumulate(residual, payload, one, spec)), error, update


def _plain(value: object) -> int | float | None:
    number: int | float = np.asarray(value).item()
    return number if math.isfinite(number) else None
