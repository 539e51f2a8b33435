"""Last filters of sites that spoil their updates in a round."""

from __future__ import annotations

from nvflare.apis.dxo import DXO, DataKind, from_shareable
from nvflare.apis.dxo_filter import DXOFilter
from nvflare.apis.filter import Filter
from nvflare.apis.fl_constant import FLContextKey
from nvflare.apis.fl_context import FLContext
from nvflare.apis.shareable import Shareable
from nvflare.app_common.app_constant import AppConstants


def _round(fl_ctx: FLContext) -> int:
    task = fl_ctx.get_prop(FLContextKey.TASK_DATA)
    return int(task.get_header(AppConstants.CURRENT_ROUND, 0))


class BrokenFilter(Filter):
    """Flips a bit of every payload of round 0, as an untrusted network or site might."""

    def process(self, shareable: Shareable, fl_ctx: FLContext) -> Shareable:
        if _round(fl_ctx):
            return shareable
        dxo = from_shareable(shareable)
        broken = {
            name: payload[:-9] + bytes([payload[-9] ^ 4]) + payload[-8:] for name, payload in dxo.data.items()
        }
        return DXO(DataKind.WEIGHT_DIFF, broken, dict(dxo.meta)).update_shareable(shareable)


class LostUpdate(DXOFilter):
    """Raises in round 1 at site-3, so that NVFlare sends an error instead of the update."""

    def __init__(self) -> None:
        super().__init__([DataKind.WEIGHTS], [DataKind.WEIGHTS])

    def process_dxo(self, dxo: DXO, shareable: Shareable, fl_ctx: FLContext) -> DXO | None:
        if _round(fl_ctx) == 1 and fl_ctx.get_identity_name() == "site-3":
            raise ConnectionError("the update of round 1 is lost")
        return None
