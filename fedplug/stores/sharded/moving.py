"""Moves states when machines are added or lost, and reports lost states.

A move is a transaction like a round: the new homes prepare copies, the index decides which shards exist, and
then the old homes delete the states they no longer need.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence

from fedplug.errors import StoreError
from fedplug.stores.sharded.placement import Placement
from fedplug.stores.sharded.process import ShardedProcess
from fedplug.stores.sharded.record import Record

__all__ = ["arrive", "move", "not_reached", "only_on"]

_NAMED = 5  # clients to list in an error


def arrive(process: ShardedProcess, replicas: int, lost: str) -> None:
    """Prepares a process that was just opened: recovers from a crash, and moves states to their homes.

    Args:
        process: The process.
        replicas: Number of additional copies of each state.
        lost: The action for clients whose states are on no reachable shard: ``"fail"`` raises an error, and
            ``"restart"`` removes them, so that they start afresh.

    Raises:
        StoreError: States are lost and ``lost`` is ``"fail"``. Then only crash recovery has changed anything.
            Or a shard or the index raises an error.
    """
    record = process.record
    there = set(process.fleet.places)
    process.settle()
    if not record.versions:
        _set_replicas(process, replicas)
        return
    missing = set(record.versions) - there
    forgotten = bool(missing) and _forget_lost(process, missing, lost)
    if set(record.versions) != there or record.replicas != replicas:
        # Earlier rounds used the lost states, so they cannot be kept.
        move(process, there, replicas, record.round if forgotten else None)
    elif record.untidy:
        process.tidy()


def move(process: ShardedProcess, shards: Iterable[str], replicas: int, oldest: int | None = None) -> None:
    """Moves the states of the last round to their homes among the given shards.

    States of earlier kept rounds stay in place.

    Args:
        process: The process.
        shards: All shards from now on. Other shards keep nothing.
        replicas: Number of additional copies of each state.
        oldest: The oldest round to keep from now on. All kept rounds if None.

    Raises:
        StoreError: A shard or the index raises an error. The states are then where they were.
    """
    process.resolve()
    record = process.record
    old = record.placement
    new = Placement(frozenset(shards), old.partitions, replicas)
    there = set(process.fleet.places)
    missing: dict[str, dict[str, list[str]]] = {shard: {} for shard in new.shards}
    for client_id in process.client_ids():
        having = [shard for shard in old.homes(client_id) if shard in there]
        for shard in set(new.homes(client_id)) - set(having):
            missing[shard].setdefault(having[0], []).append(client_id)
    fleet = process.fleet
    copied = fleet.call(
        "copy_from",
        {
            shard: (
                process.process_id,
                [(fleet.reader(source), record.versions[source], ids) for source, ids in sources.items()],
            )
            for shard, sources in missing.items()
            if sources
        },
    )
    states = {
        shard: copied.get(shard, {}) for shard in new.shards if shard in copied or shard not in old.shards
    }
    kept = {shard: version for shard, version in record.versions.items() if shard in new.shards}
    moved = dataclasses.replace(record, versions=kept, replicas=replicas, untidy=True)
    process.transact(moved, states, [], process.index.read_server() or {}, oldest)
    process.tidy()


def only_on(shards: set[str], record: Record, client_ids: Iterable[str]) -> list[str]:
    """Returns the clients whose states are only on these shards."""
    placement = record.placement
    return [client_id for client_id in client_ids if shards.issuperset(placement.homes(client_id))]


def not_reached(record: Record, clients: Sequence[str], missing: Iterable[str]) -> str:
    """Returns a message that names the unreachable states and the missing shards that have them."""
    places = ", ".join(record.places[shard] for shard in sorted(missing))
    more = f" and {len(clients) - _NAMED} more" if len(clients) > _NAMED else ""
    return (
        f"the states of {len(clients)} clients cannot be reached: {', '.join(map(repr, clients[:_NAMED]))}"
        f"{more}; they are in {places}, and no other machine has a copy"
    )


def _forget_lost(process: ShardedProcess, missing: set[str], lost: str) -> bool:
    """Handles clients that are lost with missing shards. Returns whether any were removed."""
    record = process.record
    clients = only_on(missing, record, process.client_ids())
    if clients and lost == "fail":
        raise StoreError(
            f"process {process.process_id!r}: {not_reached(record, clients, missing)}; bring these folders "
            "back, or open the store with lost=restart to let them begin anew"
        )
    process.index.drop_clients(clients)
    return bool(clients)


def _set_replicas(process: ShardedProcess, replicas: int) -> None:
    """Records the number of replicas of a process that has no state yet."""
    record = dataclasses.replace(process.record, replicas=replicas)
    if record != process.record:
        process.transact(record, {}, [], {})
