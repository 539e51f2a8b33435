"""The numbers of `fedplug.ops.wide_symbols`, shared with its form for tensors, which writes equal bytes."""

from __future__ import annotations

__all__ = ["BYTE_BITS", "COST_UNIT", "HEAD_BYTES", "NO_BYTE", "PLACE_BITS", "RAREST", "SAMPLE_BITS"]

BYTE_BITS = 8

HEAD_BYTES = 7

NO_BYTE = 255
"""The byte of a symbol whose place is among ``places``; also the number of places that have a byte."""

SAMPLE_BITS = 18
"""The encoder looks at 2^18 to 2^19 symbols, evenly spaced; at all if there are fewer."""

RAREST = 2**15
"""Places rarer than 1 in this number of sampled symbols get no byte."""

PLACE_BITS = 16

COST_UNIT = 2**16
"""The cost of one bit. Costs are whole numbers, so that sums do not depend on their order."""
