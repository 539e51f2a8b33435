"""Compressed updates under secure aggregation: integers on a support that all clients of a round share.

docs/secure-aggregation.md explains its purpose, and the server's knowledge.
"""

from __future__ import annotations

from fedplug.secure.masked_sum import MaskedMean, MaskedSum
from fedplug.secure.ring import pack, unpack

__all__ = ["MaskedMean", "MaskedSum", "pack", "unpack"]
