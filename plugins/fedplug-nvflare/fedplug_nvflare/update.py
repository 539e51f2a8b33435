"""The form of compressed updates and models in NVFlare's terms.

An update is a DXO of kind WEIGHT_DIFF whose data are payloads, ``{tensor name: bytes}``, marked in the meta.
It is no message of `fedplug.wire.message`, because NVFlare's own filters select and remove tensors by name.
The shareable around it names the payloads by a receipt. The server's task to the same client repeats the
receipt after the payloads were accepted.

A model is a DXO of kind WEIGHTS with the message of a `fedplug.Broadcaster`, marked in the same way. A client
reports the version that it holds with each request for a task.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from nvflare.apis.dxo import DXO, DataKind, MetaKey
from nvflare.apis.fl_constant import FLMetaKey
from nvflare.app_common.abstract.fl_model import FLModel

from fedplug.codecs.no_update import no_update
from fedplug_nvflare.weight_filter import leaves

__all__ = [
    "ACCEPTED",
    "RECEIPT",
    "REFUSED",
    "SEND_DIFFERENCES",
    "SERVED",
    "VERSION",
    "compressed",
    "compressed_model",
    "finite_numbers",
    "is_compressed",
    "mean_of",
    "message_of",
    "none_accepted",
    "num_steps",
    "replaced",
]

RECEIPT = "fedplug_receipt"
"""The header of a result that names its payloads."""

ACCEPTED = "fedplug_accepted"
"""The header of a task with the receipt of this client's last accepted payloads."""

SERVED = "fedplug_served"
"""The header of a task from a server that reads payloads: a text that is unique to the run of a job."""

REFUSED = "fedplug_refused"
"""The header of a task from a server with fedplug whose workflow it cannot follow, with the reason."""

VERSION = "fedplug_version"
"""The public property of a client's contexts with the version of its model. Empty if it has none."""

SEND_DIFFERENCES = (
    "fedplug compresses differences: give the recipe params_transfer_type=TransferType.DIFF, or send "
    "FLModel(params_type=ParamsType.DIFF)"
)
"""The remedy for a result with full weights."""

_ALGORITHM = "fedplug"
"""The value under NVFlare's key for processed data, so that its aggregators do not mix the two kinds."""

_MESSAGE, _IS_TORCH = "message", "is_torch"
"""The names of a model's message, and of whether its arrays were torch tensors."""


def is_compressed(meta: Mapping[str, object] | None) -> bool:
    """Returns whether the meta of a DXO, or of an FLModel, marks the data as payloads.

    Raises:
        ValueError: The data were processed by something else, for example encrypted.
    """
    algorithm = (meta or {}).get(MetaKey.PROCESSED_ALGORITHM)
    if algorithm not in (None, _ALGORITHM):
        raise ValueError(f"it was processed by {algorithm!r}, which fedplug cannot read")
    return algorithm == _ALGORITHM


def compressed(dxo: DXO, payloads: Mapping[str, bytes]) -> DXO:
    """Returns a DXO of payloads with the meta of ``dxo``, which is unchanged: others may hold its data."""
    return DXO(DataKind.WEIGHT_DIFF, dict(payloads), {**dxo.meta, MetaKey.PROCESSED_ALGORITHM: _ALGORITHM})


def replaced(dxo: DXO, arrays: Mapping[str, object], *without: str) -> DXO:
    """Returns a DXO of arrays with the meta of a compressed one, except the keys ``without``."""
    dropped = {MetaKey.PROCESSED_ALGORITHM, *without}
    return DXO(DataKind.WEIGHT_DIFF, dict(arrays), {k: v for k, v in dxo.meta.items() if k not in dropped})


def compressed_model(dxo: DXO, message: bytes, is_torch: bool) -> DXO:
    """Returns a DXO of a model's message with the meta of ``dxo``, which is unchanged."""
    meta = {key: value for key, value in dxo.meta.items() if key != MetaKey.FILTER_HISTORY}  # a shared list
    return DXO(
        DataKind.WEIGHTS,
        {_MESSAGE: message, _IS_TORCH: is_torch},
        {**meta, MetaKey.PROCESSED_ALGORITHM: _ALGORITHM},
    )


def message_of(dxo: DXO) -> tuple[bytes, bool] | None:
    """Returns a model's message, and whether its arrays were torch tensors. None for plain weights.

    Raises:
        ValueError: The DXO is marked as a message, and has none.
    """
    if dxo.data_kind != DataKind.WEIGHTS or dxo.meta.get(MetaKey.PROCESSED_ALGORITHM) != _ALGORITHM:
        return None
    message = dxo.data.get(_MESSAGE)
    if not isinstance(message, bytes):
        raise ValueError(f"the task's model is not the message of a FedplugBroadcaster, but {type(message)}")
    return message, bool(dxo.data.get(_IS_TORCH))


def mean_of(result: object) -> Mapping[str, object] | None:
    """Returns the arrays of a round's result, an FLModel of FedAvg or a DXO of ScatterAndGather.

    They are empty for a refused round, and None if the result is something else.
    """
    if isinstance(result, FLModel):
        return result.params or {}
    found = leaves(result)
    return found[0].data if len(found) == 1 else None


def none_accepted(refused: Mapping[str, str]) -> str:
    """Returns why a round has no update.

    Args:
        refused: The reasons by client. Clients whose result was an error or empty are not among them.
    """
    reasons = [(repr(client), reason) for client, reason in refused.items()]
    return no_update(reasons, "no client sent one, and their logs say why")


def num_steps(meta: Mapping[str, object]) -> float:
    """Returns a client's claimed weight as FedAvg reads it; 1 if it is not a positive number."""
    said = meta.get(FLMetaKey.NUM_STEPS_CURRENT_ROUND)
    try:
        weight = 1.0 if said is None or isinstance(said, bool) else float(said)
    except (TypeError, ValueError, OverflowError):
        return 1.0
    return weight if math.isfinite(weight) and weight > 0 else 1.0


def finite_numbers(metrics: object) -> dict[str, float]:
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
