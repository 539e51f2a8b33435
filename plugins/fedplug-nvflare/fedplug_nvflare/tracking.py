"""Sends byte counts to NVFlare's experiment tracking."""

from __future__ import annotations

from nvflare.apis.analytix import AnalyticsDataType
from nvflare.apis.fl_component import FLComponent
from nvflare.apis.fl_context import FLContext
from nvflare.apis.utils.analytix_utils import create_analytic_dxo, send_analytic_dxo

__all__ = ["track_bytes"]


def track_bytes(component: FLComponent, direction: str, sent: int, round_num: int, fl_ctx: FLContext) -> None:
    """Sends the bytes of a round as the scalar ``fedplug/uplink_bytes`` or ``fedplug/downlink_bytes``.

    Args:
        component: The component that sends.
        direction: "uplink" or "downlink".
        sent: Number of bytes.
        round_num: Number of the round.
        fl_ctx: The context of the component.
    """
    name = f"fedplug/{direction}_bytes"
    scalar = create_analytic_dxo(name, sent, AnalyticsDataType.SCALAR, global_step=round_num)
    send_analytic_dxo(component, scalar, fl_ctx)
