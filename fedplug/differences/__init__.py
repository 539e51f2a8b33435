"""Exact differences between two versions of an array or of a model.

The new version comes back bit for bit. docs/sending-models.md has the guarantees, docs/wire-format.md the
bytes.
"""

from __future__ import annotations

from fedplug.differences.memory import DEFAULT_MAX_BYTES, diff, patch

__all__ = ["DEFAULT_MAX_BYTES", "diff", "patch"]
