"""What follows when machines come and go: states move to their new homes, or it is said whose are lost.

A move is a transaction like a round: the new homes prepare copies, the index decides which shards there are,
and then the old homes delete what they need no longer.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from fedplug.errors import StoreError
from fedplug.stores.sharded.placement import Placement
from fedplug.stores.sharded.process import ShardedProcess

__all__ = ["arrive", "move"]

_NAMED = 5  # clients, in an error


def arrive(process: ShardedProcess, replicas: int, lost: str) -> None:
    """What opening a process begins with: settles what a crash left, and moves states to where they belong.

    Args:
        process: Just opened.
        replicas: How many further copies of a state there are to be.
        lost: What to do with clients whose states are on no shard that can be reached: ``"fail"``, or
            ``"restart"``: forget them, so that they begin anew.

    Raises:
        StoreError: States are lost, and ``lost`` is ``"fail"``; nothing is changed then but what a crash had
            left. Or a shard or the index refuses.
    """
    record = process.record
    there = set(process.fleet.places)
    process.settle(set(record.versions) & there)
    if not record.versions:
        _set_replicas(process, replicas)
        return
    if missing := set(record.versions) - there:
        _without(process, missing, lost)
    if set(record.versions) != there or record.replicas != replicas:
        move(process, there, replicas)
    elif record.untidy:
        process.tidy()


def move(process: ShardedProcess, shards: Iterable[str], replicas: int) -> None:
    """Moves the states to where they belong when there are these shards.

    Args:
        process: Settled.
        shards: All that there are to be; those that are not named keep nothing.
        replicas: How many further copies of a state there are to be.

    Raises:
        StoreError: A shard or the index refuses; everything is where it was then.
    """
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
    process.transact(moved, states, [], process.index.read_server() or {})
    process.tidy()


def _without(process: ShardedProcess, missing: set[str], lost: str) -> None:
    """Looks which clients are lost with shards that cannot be reached."""
    record = process.record
    clients = [
        client_id
        for client_id in process.client_ids()
        if missing.issuperset(record.placement.homes(client_id))
    ]
    if clients and lost == "fail":
        places = ", ".join(record.places[shard] for shard in sorted(missing))
        more = f" and {len(clients) - _NAMED} more" if len(clients) > _NAMED else ""
        raise StoreError(
            f"process {process.process_id!r}: the states of {len(clients)} clients cannot be reached: "
            f"{', '.join(map(repr, clients[:_NAMED]))}{more}; they are in {places}, and no other machine has "
            "a copy; bring these folders back, or open the store with lost=restart to let them begin anew"
        )
    process.index.drop_clients(clients)


def _set_replicas(process: ShardedProcess, replicas: int) -> None:
    """Of a process that has no state yet."""
    record = dataclasses.replace(process.record, replicas=replicas)
    if record != process.record:
        process.transact(record, {}, [], {})
