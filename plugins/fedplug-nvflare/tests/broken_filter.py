"""A filter after the encoder of one site that damages its payloads in the first round."""

from __future__ import annotations

from nvflare.apis.dxo import DXO, DataKind
from nvflare.apis.dxo_filter import DXOFilter
from nvflare.apis.fl_constant import FLContextKey
from nvflare.apis.fl_context import FLContext
from nvflare.apis.shareable import Shareable
from nvflare.app_common.app_constant import AppConstants


class BrokenFilter(DXOFilter):
    """Flips a bit of every payload of round 0, as an untrusted network or site might."""

    def __init__(self) -> None:
        super().__init__([DataKind.WEIGHT_DIFF], [DataKind.WEIGHT_DIFF])
        self.round = 0

    def handle_event(self, event_type: str, fl_ctx: FLContext) -> None:
        if task := fl_ctx.get_prop(FLContextKey.TASK_DATA):
            self.round = task.get_header(AppConstants.CURRENT_ROUND, 0)

    def process_dxo(self, dxo: DXO, shareable: Shareable, fl_ctx: FLContext) -> DXO | None:
        if self.round:
            return None
        broken = {
            name: payload[:-9] + bytes([payload[-9] ^ 4]) + payload[-8:] for name, payload in dxo.data.items()
        }
        return DXO(DataKind.WEIGHT_DIFF, broken, dict(dxo.meta))
