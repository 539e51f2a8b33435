"""fedplug for Flower: compressed updates, with error feedback that survives a restart.

`CompressMod` is a mod for a ClientApp, and `Compressed` wraps a strategy. An update passes through these
modules: ``mod`` and ``states`` on the client, ``records`` for messages, ``strategy`` and ``round_sum`` on the
server. Both sides use the arithmetic in ``differences``.
"""

from fedplug_flower.mod import CompressMod
from fedplug_flower.strategy import Compressed

__all__ = ["CompressMod", "Compressed"]
