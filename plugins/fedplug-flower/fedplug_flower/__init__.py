"""fedplug for Flower: updates travel as compressed payloads, with error feedback that survives a restart.

`CompressMod` goes into a ClientApp, `Compressed` around a strategy. Their modules, in the order in which an
update goes through them: ``mod`` and ``states`` on the client, ``records`` on the way, ``strategy`` and
``round_sum`` on the server; ``differences`` is the arithmetic of both.
"""

from fedplug_flower.mod import CompressMod
from fedplug_flower.strategy import Compressed

__all__ = ["CompressMod", "Compressed"]
