"""The changed entries of a quantized tensor, as a payload for a receiver that has the other entries.

It is written from a payload of the whole tensor, so that both kinds of receivers have the same bits.
"""

from __future__ import annotations

import fedplug.ops as ops
import fedplug.wire as wire
from fedplug.encoders import containers
from fedplug.encoders.base import Encoder
from fedplug.encoders.coders import Rice
from fedplug.encoders.pipeline.pipeline import Pipeline
from fedplug.encoders.pipeline.value_coder import ValueCoder
from fedplug.ops.types import Array, ArraySpec, Spec

__all__ = ["CHANGES", "ChangeCoder", "change_coder"]

CHANGES = "changes/1+"
"""The beginning of the wire ids of changed entries. The wire id of the whole tensor's payload follows."""

_INDICES = Rice()


class ChangeCoder:
    """Writes and reads payloads of the changed entries of one tensor.

    Wire form ``"changes/1+"`` and the wire id of the whole tensor's payload (docs/wire-format.md): all bytes
    of the quantizer before the symbols, and the symbols of these entries.
    """

    def __init__(self, values: ValueCoder, spec: Spec) -> None:
        """Makes the coder. See `change_coder`.

        Args:
            values: The coder of the values of the whole tensor.
            spec: The spec of the tensor.
        """
        self._values = values
        self._spec = spec
        self._size = ops.num_elements(spec)
        self.wire_id = CHANGES + values.wire_id

    def encode(self, buffer: Array, changed: Array) -> Array:
        """Returns the container of the changed entries.

        Args:
            buffer: The container of the whole tensor.
            changed: Whether each entry is sent. Bool, of the tensor's shape.
        """
        body = containers.unframe(buffer, self._values.wire_id, self._spec)
        places = ops.nonzero(ops.reshape(changed, [-1]))
        code = self._values.part(body, places, self._size, self._spec.dtype)
        index_code = _INDICES.encode(places, self._size, 0)
        return containers.frame(ops.sparse_body(ops.size(places), index_code, code), self.wire_id, self._spec)

    def decode(self, buffer: Array, old: Array) -> Array:
        """Returns the old tensor with the entries that were sent.

        Args:
            buffer: The untrusted container from `encode`.
            old: The tensor that the receiver has.

        Raises:
            PayloadError, tf.errors.InvalidArgumentError: On NumPy arrays, or when the graph runs: `encode`
                writes no such bytes for this tensor.
        """
        body = containers.unframe(buffer, self.wire_id, self._spec)
        count, index_code, code = ops.split_sparse_body(body, self._size)
        places = _INDICES.decode(index_code, count, self._size)
        new = self._values.with_part(code, places, self._size, self._spec.dtype)
        ones = ops.astype(ops.zeros_like(places) + 1, "float32")
        changed = ops.scatter_decode(self._size, ones, places) > 0
        return ops.where(ops.reshape(changed, old.shape), ops.reshape(new, old.shape), old)


def change_coder(encoder: Encoder, spec: Spec) -> ChangeCoder | None:
    """Returns the coder for an encoder's payloads. None if entries cannot be sent one by one."""
    values = encoder.entry_coder if isinstance(encoder, Pipeline) else None
    if values is None or len(CHANGES + encoder.wire_id) > wire.MAX_WIRE_ID:
        return None
    if values.is_wide and not isinstance(spec, ArraySpec):
        return None
    return ChangeCoder(values, spec)
