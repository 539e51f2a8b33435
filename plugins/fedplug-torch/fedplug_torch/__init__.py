"""fedplug for PyTorch: tensors to bytes and back, a hook for DDP, outer steps of local SGD and DiLoCo.

`codec` alone needs no ``torch.distributed``. Read in this order: `tensors`, `codec`, `exchange`, then `ddp`
or `outer`.
"""

from __future__ import annotations

from fedplug_torch.codec import Codec, decode, decode_model, encode
from fedplug_torch.ddp import FedplugState, fedplug_hook
from fedplug_torch.exchange import RankError
from fedplug_torch.outer import OuterStep

__all__ = [
    "Codec",
    "FedplugState",
    "OuterStep",
    "RankError",
    "decode",
    "decode_model",
    "encode",
    "fedplug_hook",
]
