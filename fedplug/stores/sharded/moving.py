"""What follows when machines come and go: states move to their new homes, or it is said whose are lost.

A move is a transaction like a round: the new homes prepare copies, the index decides which shards there are,
and then the old homes delete what they need no longer.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence

from fedplug.errors import StoreError
from fedplug.stores.sharded.placement import Placement
from fedplug.stores.sharded.process import ShardedProcess
from fedplug.stores.sharded.record import Record

__all__ = ["arrive", "move", "not_reached", "only_on"]

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
    process.check_index()
    process.settle()
    if not record.versions:
        _set_replicas(process, replicas)
        return
    missing = set(record.versions) - there
    forgotten = bool(missing) and _forget_lost(process, missing, lost)
    if set(record.versions) != there or record.replicas != replicas:
        # Rounds before had states that are lost.
        move(process, there, replicas, record.round if forgotten else None)
    elif record.untidy:
        process.tidy()


def move(process: ShardedProcess, shards: Iterable[str], replicas: int, oldest: int | None = None) -> None:
    """Moves the states of the last round to where they belong when there are these shards.

    Those of rounds before stay where they are, as long as these rounds are kept.

    Args:
        process: Of which process.
        shards: All that there are to be; those that are not named keep nothing.
        replicas: How many further copies of a state there are to be.
        oldest: The oldest round that is kept from now on; None: all that are.

    Raises:
        StoreError: A shard or the index refuses; everything is where it was then.
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
    """Those of the clients whose states are on none but these shards."""
    placement = record.placement
    return [client_id for client_id in client_ids if shards.issuperset(placement.homes(client_id))]


def not_reached(record: Record, clients: Sequence[str], missing: Iterable[str]) -> str:
    """Says whose states cannot be reached, and which shards that are missing have them."""
    places = ", ".join(record.places[shard] for shard in sorted(missing))
    more = f" and {len(clients) - _NAMED} more" if len(clients) > _NAMED else ""
    return (
        f"the states of {len(clients)} clients cannot be reached: {', '.join(map(repr, clients[:_NAMED]))}"
        f"{more}; they are in {places}, and no other machine has a copy"
    )


def _forget_lost(process: ShardedProcess, missing: set[str], lost: str) -> bool:
    """Looks which clients are lost with missing shards; returns whether any were forgotten."""
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
    """Of a process that has no state yet."""
    record = dataclasses.replace(process.record, replicas=replicas)
    if record != process.record:
        process.transact(record, {}, [], {})
