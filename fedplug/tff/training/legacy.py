"""Opens what a store keeps of a training that release 0.1 began: stages were encoders of their own there."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from fedplug import api
from fedplug.errors import FedplugError, StoreMismatchError
from fedplug.stores.base import ProcessState, StateStore
from fedplug.stores.rules import check_signature

__all__ = ["open_process"]


def open_process(store: StateStore, process_id: str, signature: Mapping[str, Any]) -> ProcessState:
    """`StateStore.open_process`, which also takes a signature of 0.1 that means the same.

    Raises:
        StoreMismatchError: The store holds another model or encoder under this process id, or a training
            with an encoded broadcast that an earlier release began.
    """
    try:
        return store.open_process(process_id, signature)
    except StoreMismatchError:
        kept = store.open_process(process_id)
        if kept.signature.get("broadcast_encoder") and "snapshot" not in kept.signature["broadcast_encoder"]:
            raise StoreMismatchError(
                f"the store holds process {process_id!r} as an earlier release began it, with a broadcast "
                "whose clients have another model than this release would take them to have; finish it with "
                "that release, or begin again under another process id"
            ) from None
        renamed = _renamed(kept.signature, signature)
        if renamed == kept.signature:
            raise
        check_signature("the store", process_id, json.dumps(renamed), signature)
        return kept


def _renamed(kept: Mapping[str, Any], asked: Mapping[str, Any]) -> dict[str, Any]:
    """A signature of 0.1 as this release writes it."""
    encoders = [key for key in ("encoder", "broadcast_encoder") if kept.get(key) and asked.get(key)]
    return {**kept, **{key: _renamed_encoder(kept[key], asked[key]) for key in encoders}}


def _renamed_encoder(kept: Mapping[str, Any], asked: Mapping[str, Any]) -> dict[str, Any]:
    try:
        encoder = api.encoder({"name": kept["encoder"], "config": kept["config"]})
    except FedplugError:  # not installed, for instance: what the store says of it is the better message
        return dict(kept)
    read = {**kept, "encoder": encoder.name, "config": json.loads(json.dumps(encoder.get_config()))}
    # An encoder decides its wire ids; they are its present ones where those of 0.1 went with the old names.
    if read != kept or any(wire_id.startswith("sparse+") for wire_id in kept["wire_ids"]):
        read["wire_ids"] = asked["wire_ids"]
    return read
