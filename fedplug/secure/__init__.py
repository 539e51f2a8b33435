"""Compressed updates under secure aggregation: integers on a support that all clients of a round share.

docs/secure-aggregation.md explains what it is for, and what the server learns.
"""

from __future__ import annotations

from fedplug.secure.masked_sum import MaskedMean, MaskedSum
from fedplug.secure.ring import pack, unpack

__all__ = ["MaskedMean", "MaskedSum", "pack", "unpack"]
