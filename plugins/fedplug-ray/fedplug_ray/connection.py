"""The connection of this process to a Ray cluster, which a store or a runtime may open first."""

from __future__ import annotations

import os

import ray

from fedplug.errors import ConfigError

__all__ = ["connect"]


def connect(address: str | None = None) -> bool:
    """Connects this process to a cluster unless it is connected. Returns whether it connected.

    Args:
        address: The address for `ray.init`. None uses the existing connection, or else the cluster that
            `ray.init()` finds or starts.

    Raises:
        ConfigError: An address is given, but this process is already connected, or Ray cannot connect, which
            it tries for minutes.
    """
    if ray.is_initialized():
        if address is not None:
            raise ConfigError(
                f"this process is already connected to a Ray cluster; leave out address={address!r} to use it"
            )
        return False
    # Otherwise Ray warns that it will change how it hides GPUs. The setting makes that change now.
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    # A failed task has several results. Ray would print an unhandled error for all but one.
    os.environ.setdefault("RAY_IGNORE_UNHANDLED_ERRORS", "1")
    try:
        ray.init(address=address, include_dashboard=False, log_to_driver=False)
    except ConnectionError as error:
        cluster, reason = address or "the cluster of this machine", str(error) or "no answer"
        raise ConfigError(
            f"Ray cannot connect to {cluster} ({reason}). Start it; "
            "if it has ended, run `ray stop --force` and delete ray_current_cluster in Ray's folder, /tmp/ray"
        ) from error
    return True
