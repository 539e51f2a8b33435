"""The connection of this process to a Ray cluster, which a store and a runtime may need in either order."""

from __future__ import annotations

import os

import ray

from fedplug.errors import ConfigError

__all__ = ["connect"]


def connect(address: str | None = None) -> bool:
    """Connects this process to a cluster if it is not yet; returns whether it was not.

    Args:
        address: As in `ray.init`. None: the cluster it is connected to, or else what `ray.init()` finds or
            starts.

    Raises:
        ConfigError: There is an address, and a connection already.
    """
    if ray.is_initialized():
        if address is not None:
            raise ConfigError(
                f"this process is connected to a Ray cluster already; leave out address={address!r} to use it"
            )
        return False
    # Without it Ray warns about a change to come in how it hides GPUs, and then makes it.
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    # A task that fails has several results; of all but one Ray would print that nobody looked at the error.
    os.environ.setdefault("RAY_IGNORE_UNHANDLED_ERRORS", "1")
    ray.init(address=address, include_dashboard=False, log_to_driver=False)
    return True
