"""The form of a compressed update in NVFlare's terms.

It is a DXO of kind WEIGHT_DIFF whose data are payloads, ``{tensor name: bytes}``, marked in the meta. The
shareable around it names the payloads by a receipt. The server's task to the same client repeats the receipt
after the payloads were accepted.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from nvflare.apis.dxo import DXO, DataKind, MetaKey
from nvflare.apis.fl_constant import FLMetaKey

__all__ = [
    "ACCEPTED",
    "RECEIPT",
    "SEND_DIFFERENCES",
    "SERVED",
    "compressed",
    "finite_numbers",
    "is_compressed",
    "num_steps",
    "replaced",
]

RECEIPT = "fedplug_receipt"
"""The header of a result that names its payloads."""

ACCEPTED = "fedplug_accepted"
"""The header of a task with the receipt of this client's last accepted payloads."""

SERVED = "fedplug_served"
"""The header of a task from a server that reads payloads: a text that is unique to the run of a job."""

SEND_DIFFERENCES = (
    "fedplug compresses differences: give the recipe params_transfer_type=TransferType.DIFF, or send "
    "FLModel(params_type=ParamsType.DIFF)"
)
"""The remedy for a result with full weights."""

_ALGORITHM = "fedplug"
"""The value under NVFlare's key for processed data, so that its aggregators do not mix the two kinds."""


def is_compressed(meta: Mapping[str, Any] | None) -> bool:
    """Returns whether the meta of a DXO, or of an FLModel, marks the data as payloads.

    Raises:
        ValueError: The data were processed by something else, for example encrypted.
    """
    algorithm = (meta or {}).get(MetaKey.PROCESSED_ALGORITHM)
    if algorithm not in (None, _ALGORITHM):
        raise ValueError(f"it was processed by {algorithm!r}, which fedplug cannot aggregate")
    return algorithm == _ALGORITHM


def compressed(dxo: DXO, payloads: Mapping[str, bytes]) -> DXO:
    """Returns a DXO of payloads with the meta of ``dxo``, which is unchanged: others may hold its data."""
    return DXO(DataKind.WEIGHT_DIFF, dict(payloads), {**dxo.meta, MetaKey.PROCESSED_ALGORITHM: _ALGORITHM})


def replaced(dxo: DXO, arrays: Mapping[str, Any], *without: str) -> DXO:
    """Returns a DXO of arrays with the meta of a compressed one, except the keys ``without``."""
    dropped = {MetaKey.PROCESSED_ALGORITHM, *without}
    return DXO(DataKind.WEIGHT_DIFF, dict(arrays), {k: v for k, v in dxo.meta.items() if k not in dropped})


def num_steps(meta: Mapping[str, Any]) -> float:
    """Returns a client's claimed weight as FedAvg reads it; 1 if it is not a positive number."""
    said = meta.get(FLMetaKey.NUM_STEPS_CURRENT_ROUND)
    try:
        weight = 1.0 if said is None or isinstance(said, bool) else float(said)
    except (TypeError, ValueError, OverflowError):
        return 1.0
    return weight if math.isfinite(weight) and weight > 0 else 1.0


def finite_numbers(metrics: Any) -> dict[str, float]:
    """Returns the metrics that are finite numbers, whose mean cannot fail."""
    numbers = {}
    for name, value in metrics.items() if isinstance(metrics, Mapping) else ():
        try:
            number = math.nan if isinstance(value, str | bytes) else float(value)
        except Exception:  # untrusted metrics may be of any class
            continue
        if isinstance(name, str) and math.isfinite(number):
            numbers[name] = number
    return numbers
