"""Rounds for the tests of a store. Every value is the number of its round."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from fedplug.stores.base import Tensors

__all__ = ["round_of", "state_of"]


def state_of(number: int, size: int = 100) -> Tensors:
    """Returns a state with one float32 tensor ``"w"``, ``[values]``, filled with the round's number."""
    return {"w": np.full(size, number, np.float32)}


def round_of(number: int, client_ids: Iterable[str], size: int = 100) -> dict[str, Any]:
    """Returns the arguments of `ProcessState.commit` except the round's number, with `state_of` for all."""
    return {
        "client_states": {client_id: state_of(number, size) for client_id in client_ids},
        "server_state": state_of(number, size),
        "metadata": {"round": number},
    }
