"""The index coder of `RandomK`, which sends the seed of the indices."""

from __future__ import annotations

from typing import Any, ClassVar

import fedplug.ops as ops
from fedplug.encoders.arguments import check_seed
from fedplug.encoders.stages import IndexCoder
from fedplug.ops.types import Array, Scalar
from fedplug.registry.specs import EXECUTIONS, Capabilities

__all__ = ["Seeded"]

_CODE_BYTES = 8


class Seeded(IndexCoder):
    """Sends the seed and round from which `RandomK` draws its indices, instead of the indices: 8 bytes.

    >>> import fedplug, numpy as np
    >>> payload, _ = fedplug.codec("randomk(0.01, seed=1)").encode(np.ones(10_000, np.float32))
    >>> len(payload)
    451

    It writes only indices that were drawn from them.
    """

    name: ClassVar[str] = "seeded"
    wire_id: ClassVar[str] = "seeded/1"

    def __init__(self, seed: int = 0) -> None:
        """Makes the coder. Raises ConfigError unless ``seed`` is 0 to 2^31 - 1."""
        check_seed("seeded", seed)
        self._seed = seed

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(
            lossless=True, needs_seed=True, fixed_size=True, decode_copies=0, executes_on=EXECUTIONS
        )

    def get_config(self) -> dict[str, Any]:
        return {"seed": self._seed}

    def encode(self, indices: Array, size: int, round_num: Scalar) -> Array:
        """Refuses indices that were not drawn from this seed and round."""
        seed = ops.round_seed(self._seed, round_num)
        expected = ops.draw_indices(seed, ops.size(indices), size)
        with ops.require(ops.all(indices == expected), f"indices were not drawn by {self!r}"):
            return ops.to_bytes(ops.astype(ops.stack([self._seed, round_num]), "int32"))

    def decode(self, code: Array, count: Array | int, size: int) -> Array:
        """Draws the indices again. Refuses another length and negative numbers."""
        code = ops.of_length(code, _CODE_BYTES, "the seed and round of indices")
        words = ops.from_bytes(code, "int32")
        with ops.require(ops.all(words >= 0), "the seed or round of indices is not valid"):
            return ops.draw_indices(ops.round_seed(words[0], ops.identity(words[1])), count, size)
