"""How a compressed update looks in NVFlare's terms. Knows neither codecs nor events.

It is a DXO of kind WEIGHT_DIFF whose data are payloads, ``{tensor name: bytes}``, and whose meta says so. The
shareable around it names the payloads by a receipt, which the server's task to the same client repeats once
they were accepted.
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
"""The header of a task that names the payloads of this client which the server accepted last."""

SERVED = "fedplug_served"
"""The header of a task of a server that reads payloads: a text that no other run of a job has."""

SEND_DIFFERENCES = (
    "fedplug compresses differences: give the recipe params_transfer_type=TransferType.DIFF, or send "
    "FLModel(params_type=ParamsType.DIFF)"
)
"""What to do about a result of full weights."""

_ALGORITHM = "fedplug"
"""Under NVFlare's own key for what was done to the data, so that its aggregators do not mix the two kinds."""


def is_compressed(meta: Mapping[str, Any] | None) -> bool:
    """Whether the meta of a DXO, or of an FLModel, says that the data are payloads.

    Raises:
        ValueError: They were processed by something else: encrypted, say.
    """
    algorithm = (meta or {}).get(MetaKey.PROCESSED_ALGORITHM)
    if algorithm not in (None, _ALGORITHM):
        raise ValueError(f"it was processed by {algorithm!r}, which fedplug cannot aggregate")
    return algorithm == _ALGORITHM


def compressed(dxo: DXO, payloads: Mapping[str, bytes]) -> DXO:
    """A DXO of payloads with the meta of ``dxo``, which stays as it is: others may hold its data."""
    return DXO(DataKind.WEIGHT_DIFF, dict(payloads), {**dxo.meta, MetaKey.PROCESSED_ALGORITHM: _ALGORITHM})


def replaced(dxo: DXO, arrays: Mapping[str, Any], *without: str) -> DXO:
    """A DXO of arrays with the meta of a compressed one, but for the keys ``without``."""
    dropped = {MetaKey.PROCESSED_ALGORITHM, *without}
    return DXO(DataKind.WEIGHT_DIFF, dict(arrays), {k: v for k, v in dxo.meta.items() if k not in dropped})


def num_steps(meta: Mapping[str, Any]) -> float:
    """Returns the weight that a client claims, as FedAvg reads it: 1 for what is no positive number."""
    said = meta.get(FLMetaKey.NUM_STEPS_CURRENT_ROUND)
    try:
        weight = 1.0 if said is None or isinstance(said, bool) else float(said)
    except (TypeError, ValueError, OverflowError):
        return 1.0
    return weight if math.isfinite(weight) and weight > 0 else 1.0


def finite_numbers(metrics: Any) -> dict[str, float]:
    """Returns those metrics that are finite numbers: their mean cannot fail. Others may be anything."""
    numbers = {}
    for name, value in metrics.items() if isinstance(metrics, Mapping) else ():
        try:
            number = math.nan if isinstance(value, str | bytes) else float(value)
        except Exception:  # metrics are untrusted: of any class
            continue
        if isinstance(name, str) and math.isfinite(number):
            numbers[name] = number
    return numbers
