"""Registers the backend ``fedplug`` with both factories of vLLM. vLLM calls it in each of its processes."""

from __future__ import annotations

import contextlib

__all__ = ["register"]

BACKEND = "fedplug"


def register() -> None:
    """Registers the backend. A second call changes nothing."""
    from vllm.distributed.weight_transfer import (  # slow, and vLLM reads this module's names at start
        WeightTransferEngineFactory,
        WeightTransferTrainerFactory,
    )

    with contextlib.suppress(ValueError):  # it is registered
        WeightTransferEngineFactory.register_engine(BACKEND, "fedplug_vllm.server", "FedplugEngine")
    with contextlib.suppress(ValueError):
        WeightTransferTrainerFactory.register_engine(BACKEND, "fedplug_vllm.trainer", "FedplugTrainerEngine")
