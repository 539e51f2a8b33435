"""Last filters of sites that spoil their updates in a round."""

from __future__ import annotations

from nvflare.apis.dxo import DXO, DataKind, from_shareable
from nvflare.apis.dxo_filter import DXOFilter
from nvflare.apis.filter import Filter
from nvflare.apis.fl_component import FLComponent
from nvflare.apis.fl_constant import FLContextKey
from nvflare.apis.fl_context import FLContext
from nvflare.apis.shareable import Shareable
from nvflare.app_common.app_constant import AppConstants


class _KnowsTheRound(FLComponent):
    """A component that knows the round of its task."""

    round = 0

    def handle_event(self, event_type: str, fl_ctx: FLContext) -> None:
        if task := fl_ctx.get_prop(FLContextKey.TASK_DATA):
            self.round = task.get_header(AppConstants.CURRENT_ROUND, 0)


class BrokenFilter(_KnowsTheRound, Filter):
    """Flips a bit of every payload of round 0, as an untrusted network or site might."""

    def process(self, shareable: Shareable, fl_ctx: FLContext) -> Shareable:
        if self.round:
            return shareable
        dxo = from_shareable(shareable)
        broken = {
            name: payload[:-9] + bytes([payload[-9] ^ 4]) + payload[-8:] for name, payload in dxo.data.items()
        }
        return DXO(DataKind.WEIGHT_DIFF, broken, dict(dxo.meta)).update_shareable(shareable)


class LostUpdate(_KnowsTheRound, DXOFilter):
    """Raises in round 1 at site-3, so that NVFlare sends an error instead of the update."""

    def __init__(self) -> None:
        DXOFilter.__init__(self, [DataKind.WEIGHTS], [DataKind.WEIGHTS])

    def process_dxo(self, dxo: DXO, shareable: Shareable, fl_ctx: FLContext) -> DXO | None:
        if self.round == 1 and fl_ctx.get_identity_name() == "site-3":
            raise ConnectionError("the update of round 1 is lost")
        return None
