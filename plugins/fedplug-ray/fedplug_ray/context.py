"""The context of the runtime "ray": the in-process runtime, with the work of clients on a cluster."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable

import ray

from fedplug.errors import ConfigError
from fedplug.tff.runtime.graphs.devices import RuntimeDevice
from fedplug.tff.runtime.inprocess.context import (
    InProcessAsyncContext,
    InProcessSyncContext,
    create_round_threads,
)
from fedplug.tff.runtime.inprocess.executor import InProcessExecutorFactory
from fedplug_ray.pool import WorkerPool
from fedplug_ray.worker import start_worker
from fedplug_ray.workers import Limits, Workers

__all__ = ["RayContext", "create_ray_execution_context"]


def create_ray_execution_context(
    *,
    address: str | None = None,
    workers: int | None = None,
    retries: int = 3,
    client_timeout: float = 600.0,
    start_timeout: float = 120.0,
    worker_setup: Callable[[], object] | None = None,
    default_num_clients: int = 0,
) -> RayContext:
    """Returns a context that runs clients on the workers of a Ray cluster. Custom ops work.

    Results are those of the in-process runtime. They do not depend on workers, timing or recovered faults.

    Args:
        address: The cluster's address, as in `ray.init`. None: the cluster that this process is connected
            to, or else the one that `ray.init()` finds or starts.
        workers: Number of workers, each for one client at a time. None: as many as the cluster has
            processors.
        retries: Number of further tries for a client after its worker died or took too long.
        client_timeout: Seconds that a worker may take for a client.
        start_timeout: Seconds that a worker may take to start.
        worker_setup: A function that every worker calls when it starts, for instance to load custom ops.
        default_num_clients: Number of clients of a computation whose arguments do not determine it.

    Raises:
        ConfigError: An option has an invalid value.
    """
    _check_at_least(1, workers=1 if workers is None else workers)
    _check_at_least(0, retries=retries)
    connected = _connect(address)
    if workers is None:
        workers = max(1, int(ray.cluster_resources().get("CPU", 1)))
    limits = Limits(start_timeout=start_timeout, task_timeout=client_timeout, retries=retries)
    starts = [functools.partial(start_worker, worker_setup)] * workers
    return RayContext(Workers(starts, limits), workers, default_num_clients, connected)


def _connect(address: str | None = None) -> bool:
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


class RayContext(InProcessSyncContext):
    """Runs computations in this process, and the work of their clients on a cluster.

    Args:
        workers: The workers.
        width: Number of workers.
        default_num_clients: Number of clients of a computation whose arguments do not determine it.
        connected: Whether `close` ends the connection to the cluster.
    """

    def __init__(self, workers: Workers, width: int, default_num_clients: int, connected: bool) -> None:
        self._connected = connected
        self._workers = workers
        device = RuntimeDevice()
        rounds = create_round_threads(device)
        factory = InProcessExecutorFactory(WorkerPool(workers, width), rounds, default_num_clients, device)
        super().__init__(InProcessAsyncContext(factory, rounds))

    def close(self) -> None:
        """Ends the workers, and the connection to the cluster if this context made it."""
        self._workers.close()
        super().close()
        if self._connected:
            ray.shutdown()


def _check_at_least(least: int, **numbers: int) -> None:
    for name, number in numbers.items():
        if number < least:
            raise ConfigError(f"{name} must be at least {least}, found {number!r}")
