"""The execution context of the "ray" runtime: it connects to a cluster, starts workers and runs computations.

Computations that cannot be spread over workers run in this process.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import ray
import tensorflow_federated as tff

from fedplug.errors import ConfigError
from fedplug.tff.runtime.graphs.devices import RuntimeDevice
from fedplug.tff.runtime.inprocess.clients import ClientPool
from fedplug.tff.runtime.inprocess.context import (
    InProcessAsyncContext,
    InProcessSyncContext,
    create_round_threads,
)
from fedplug.tff.runtime.inprocess.executor import InProcessExecutorFactory, Program
from fedplug.tff.runtime.inprocess.invocation import Invocation
from fedplug.tff.runtime.inprocess.planner import computation_name, plan
from fedplug.tff.runtime.inprocess.values import materialize
from fedplug_ray.connection import connect
from fedplug_ray.runtime.building_blocks import Block
from fedplug_ray.runtime.client_values import (
    hand_out_handles,
    here,
    holds_staged,
    set_apart,
    take_in,
    to_arrays,
)
from fedplug_ray.runtime.coordinator import Coordinator
from fedplug_ray.runtime.dispatch import Limits, Workers
from fedplug_ray.runtime.rounds import Cluster
from fedplug_ray.runtime.slices import FAN_IN
from fedplug_ray.runtime.stages import Staged, cut
from fedplug_ray.runtime.worker import start_worker

__all__ = ["RayContext", "create_ray_execution_context", "start_coordinators"]

# With clients of 17 ms, a driver keeps about 80 workers busy, and a coordinator about 50: docs/scaling.md.
_ALONE = 64
_SHARE = 32


def create_ray_execution_context(
    *,
    address: str | None = None,
    workers: int | None = None,
    coordinators: int | None = None,
    clients_at_a_time: int = 1,
    clients_per_slice: int = 8,
    client_results: str = "values",
    retries: int = 3,
    slice_timeout: float = 600.0,
    on_lost: str = "fail",
    start_timeout: float = 120.0,
    worker_setup: Callable[[], Any] | None = None,
    default_num_clients: int = 0,
) -> RayContext:
    """Returns a context that runs clients on the workers of a Ray cluster; custom ops work.

    Results depend on the clients, their order and `clients_per_slice`. They do not depend on workers,
    coordinators, timing or recovered faults. Rounds take turns; each uses all workers.

    Args:
        address: The cluster's address, as in `ray.init`. None: the cluster that this process is connected
            to, or else the one that `ray.init()` finds or starts.
        workers: Number of workers. None: as many as the cluster has processors for.
        coordinators: Number of processes between this one and the workers; each serves a share of the
            workers. None: one for every 32 workers if there are more than 64, else 0.
        clients_at_a_time: Number of clients that a worker runs at a time, each on one processor.
        clients_per_slice: Number of clients in a slice, which a worker adds up into one accumulator.
        client_results: How results with one value per client are returned: `"values"`, or `"handles"` for
            lists of `ClientHandle`, which leave the values in the cluster.
        retries: Number of further tries for a slice after its worker died or took too long.
        slice_timeout: Seconds that a worker may take for a slice.
        on_lost: The action after the last try. `"fail"`: the computation raises an error. `"skip"`: it
            continues as if the slice's clients had not taken part.
        start_timeout: Seconds that a worker may take to start.
        worker_setup: A function that every worker calls when it starts, for instance to load custom ops.
        default_num_clients: Number of clients of a computation whose arguments do not determine it.

    Raises:
        ConfigError: An option has an invalid value.
    """
    _check_choice("client_results", client_results, ["handles", "values"])
    _check_choice("on_lost", on_lost, ["fail", "skip"])
    _check_at_least(1, clients_at_a_time=clients_at_a_time, clients_per_slice=clients_per_slice)
    _check_at_least(1, workers=1 if workers is None else workers)
    _check_at_least(0, retries=retries, coordinators=0 if coordinators is None else coordinators)
    connected = connect(address)
    if workers is None:
        workers = max(1, int(ray.cluster_resources().get("CPU", 1)) // clients_at_a_time)
    if coordinators is None:
        coordinators = -(-workers // _SHARE) if workers > _ALONE else 0
    if coordinators > workers:
        raise ConfigError(f"{coordinators} coordinators are too many for {workers} workers")
    limits = Limits(start_timeout=start_timeout, task_timeout=slice_timeout, retries=retries)
    starts = [functools.partial(start_worker, clients_at_a_time, worker_setup)] * workers
    pool = start_coordinators(starts, coordinators, limits) if coordinators else Workers(starts, limits)
    cluster = Cluster(pool, clients_per_slice, skip_lost=on_lost == "skip", coordinated=coordinators > 0)
    return RayContext(cluster, client_results, default_num_clients, connected)


def start_coordinators(starts: Sequence[Callable[[], Any]], coordinators: int, limits: Limits) -> Workers:
    """Starts coordinators and divides the workers among them; their shares differ by at most one.

    Args:
        starts: Functions that each make the actor of one worker.
        coordinators: Number of coordinators; at most the number of workers.
        limits: Time and retry limits of the workers.
    """
    shares = [starts[first::coordinators] for first in range(coordinators)]
    # A coordinator gives up a worker after the times in `limits`, and a block may wait for several workers.
    own = Limits(
        start_timeout=limits.start_timeout,
        task_timeout=4 * (limits.retries + 1) * (limits.start_timeout + limits.task_timeout),
        retries=limits.retries,
        silence=limits.start_timeout,
    )
    # Enough slices that a worker finds the next one when it has finished.
    capacity = len(shares[0]) + FAN_IN**2
    actor = ray.remote(Coordinator).options(num_cpus=0, max_restarts=0, max_concurrency=capacity + 4)
    return Workers([functools.partial(actor.remote, share, limits) for share in shares], own, capacity)


class _AsyncContext(InProcessAsyncContext):
    """Hides clients' values in the cluster from TFF."""

    async def invoke(self, comp: Any, arg: Any) -> Any:
        return await super().invoke(comp, set_apart(arg))


class RayContext(InProcessSyncContext):
    """Runs computations on a cluster.

    Args:
        cluster: The cluster.
        client_results: `"values"` or `"handles"`.
        default_num_clients: Number of clients of a computation whose arguments do not determine it.
        connected: Whether `close` ends the connection to the cluster.

    Attributes:
        takes_references: See `Runtime`; False with coordinators, which do not know where states are.
    """

    takes_candidates = True

    def __init__(
        self, cluster: Cluster, client_results: str, default_num_clients: int, connected: bool
    ) -> None:
        self._cluster = cluster
        self._connected = connected
        self.takes_references = not cluster.coordinated
        rounds = create_round_threads(RuntimeDevice())
        hand_out = hand_out_handles if client_results == "handles" else _hand_out_values
        factory = InProcessExecutorFactory(
            ClientPool(), rounds, default_num_clients, take_in=take_in, hand_out=hand_out
        )
        super().__init__(_AsyncContext(factory, rounds, self._compile, to_arrays))

    def close(self) -> None:
        """Ends the workers, and the connection to the cluster if this context made it."""
        self._cluster.workers.close()
        super().close()
        if self._connected:
            ray.shutdown()

    def _compile(self, computation: tff.framework.ConcreteComputation) -> Program:
        compiled = tff.backends.native.desugar_and_transform_to_native(computation).to_building_block()
        staged = cut(compiled)
        make = self._whole(compiled, computation.type_signature) if staged is None else self._spread(staged)
        return Program(computation.type_signature, computation_name(computation), make)

    def _spread(self, staged: Staged) -> Callable[[dict[str, Any], Invocation], Any]:
        return lambda names, invocation: functools.partial(self._cluster.run, staged)

    def _whole(
        self, block: Block, signature: tff.FunctionType
    ) -> Callable[[dict[str, Any], Invocation], Any]:
        whole = plan(block)

        def make(names: dict[str, Any], invocation: Invocation) -> Any:
            function = whole.run(names, invocation)
            if not callable(function):
                return function
            return lambda argument, invocation: function(here(argument, signature.parameter), invocation)

        return make


def _hand_out_values(value: Any, type_spec: tff.Type, num_clients: int) -> Any:
    if holds_staged(value):
        return hand_out_handles(value, type_spec, num_clients)
    return materialize(here(value, type_spec), type_spec, num_clients)


def _check_at_least(least: int, **numbers: int) -> None:
    for name, number in numbers.items():
        if number < least:
            raise ConfigError(f"{name} must be at least {least}, found {number!r}")


def _check_choice(name: str, value: str, choices: list[str]) -> None:
    if value not in choices:
        raise ConfigError(f"{name} must be one of {', '.join(map(repr, choices))}, found {value!r}")
