"""fedplug for PyTorch: tensors and models as bytes, hooks for DDP and FSDP, and outer steps (DiLoCo).

`codec` and `versions` need no ``torch.distributed``. Read in this order: `tensors`, `codec`, `exchange`, then
`ddp`, `fsdp` or `outer`.
"""

from __future__ import annotations

from fedplug_torch.codec import Codec, decode, decode_model, encode
from fedplug_torch.ddp import FedplugState, fedplug_hook
from fedplug_torch.exchange import RankError
from fedplug_torch.fixed import FixedSize
from fedplug_torch.fsdp import ReplicaHook
from fedplug_torch.outer import OuterStep
from fedplug_torch.rank_state import GatheredState
from fedplug_torch.versions import Broadcaster, Receiver

__all__ = [
    "Broadcaster",
    "Codec",
    "FedplugState",
    "FixedSize",
    "GatheredState",
    "OuterStep",
    "RankError",
    "Receiver",
    "ReplicaHook",
    "decode",
    "decode_model",
    "encode",
    "fedplug_hook",
]
