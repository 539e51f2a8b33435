"""A lossless encoder of whole models: the bytes of floats by planes, each entropy-coded."""

from __future__ import annotations

from typing import Any, ClassVar

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

import fedplug.kernels as kernels
import fedplug.ops as ops
from fedplug.encoders.base import Encoder, Payload, State
from fedplug.errors import PayloadError
from fedplug.ops.types import Array, Scalar, Spec
from fedplug.registry.specs import Capabilities

__all__ = ["Planes"]


class Planes(Encoder):
    """Sends every element exactly, in fewer bytes than `Identity`: about 10.5 bits for a bfloat16 weight.

    >>> import fedplug, numpy as np
    >>> x = np.random.default_rng(0).normal(0, 0.02, 100_000).astype(np.float16)
    >>> payload, _ = fedplug.codec("planes").encode(x)
    >>> len(payload), bool((fedplug.decode(payload) == x).all())
    (168537, True)

    The exponents of weights have few frequent values, and their other bits are nearly random. So each byte of
    the elements is a plane with an entropy code of its own, and the highest one has the exponent alone. The
    numbers of a wider dtype that fit a narrower one take hardly more bytes than in that dtype.

    Source: Hershcovitch et al., "ZipNN: Lossless Compression for AI Models", 2024 (arXiv 2411.05239).

    Wire form "planes/1" (docs/wire-format.md): the code of a whole array in `fedplug.diff`.

    Takes float16, bfloat16, float32 and float64, as NumPy arrays only.
    """

    name: ClassVar[str] = "planes"
    wire_id: ClassVar[str] = "planes/1"

    @property
    def capabilities(self) -> Capabilities:
        """Lossless."""
        return Capabilities(
            unbiased=True,
            lossless=True,
            bounded_sensitivity=True,
            sends_every_entry=True,
            decode_copies=1,
            executes_on=("numpy",),
        )

    def get_config(self) -> dict[str, object]:
        return {}

    def encode(self, x: Array, state: State, round_num: Scalar) -> tuple[Payload, State]:
        """Returns the payload ``{"values": x}``, with the shape of ``x``."""
        del round_num
        return {"values": ops.require_finite(x, "the update")}, state

    def decode(self, payload: Payload, spec: Spec) -> Array:
        """Returns the values unchanged."""
        return ops.ensure_shape(payload["values"], spec.shape)

    def to_wire(self, payload: Payload, spec: Spec) -> Array:
        """Returns the code of the planes."""
        data = ops.to_bytes(payload["values"])
        return kernels.encode_difference(None, data, *_layout(spec))

    def from_wire(self, body: Array, spec: Spec) -> Payload:
        """Refuses another code than one of the whole tensor, and values that are not finite."""
        values: NDArray[np.generic] = kernels.empty((ops.num_elements(spec),), np.dtype(spec.dtype))
        kernels.decode_difference(np.asarray(body), None, values.view(np.uint8), *_layout(spec))
        if not kernels.all_finite(values):
            raise PayloadError("a planes payload has a NaN or an infinity")
        return {"values": ops.reshape(values, spec.shape)}


def _layout(spec: Spec) -> tuple[int, int]:
    """Returns the bytes of an element, and its bits below the exponent."""
    info: Any = ml_dtypes.finfo(spec.dtype)  # type: ignore[no-untyped-call]
    return int(spec.dtype.itemsize), int(info.nmant)
