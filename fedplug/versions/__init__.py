"""Versions of a model as messages: the server's `Broadcaster` and the client's `Receiver`.

docs/sending-models.md has the guarantees, docs/wire-format.md the bytes.
"""

from __future__ import annotations

from fedplug.versions.broadcaster import LOSSLESS, Broadcaster
from fedplug.versions.receiver import Receiver

__all__ = ["LOSSLESS", "Broadcaster", "Receiver"]
