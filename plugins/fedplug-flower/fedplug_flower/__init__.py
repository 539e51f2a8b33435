"""fedplug for Flower: compressed updates, with error feedback that survives a restart.

`CompressMod` belongs into a ClientApp, and `Compressed` around a strategy. An update passes through these
modules: ``mod`` and ``states`` on the client, ``records`` for messages, ``strategy`` and ``round_sum`` on the
server. ``differences`` has the arithmetic of both sides.
"""

from fedplug_flower.mod import CompressMod
from fedplug_flower.strategy import Compressed

__all__ = ["CompressMod", "Compressed"]
