"""Finds the shards on the machines of a cluster, and assigns them to nodes."""

from __future__ import annotations

import secrets
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

__all__ = ["Found", "Machine", "assign", "find_shards", "on_node"]


class Found(NamedTuple):
    """The findings of a node: the name of its machine, and the shards of a store on its disk."""

    host: str
    shards: list[str]


class Machine(NamedTuple):
    """A shard, and the node on which its actor runs."""

    shard: str
    node: str
    host: str


def find_shards(folder: str, store: str) -> dict[str, Found]:
    """Asks every node of the cluster for its shards of a store. Returns the answers by node id."""
    nodes = [node["NodeID"] for node in ray.nodes() if node["Alive"]]
    look = ray.remote(_look)
    found = [look.options(**on_node(node)).remote(folder, store) for node in nodes]
    return dict(zip(nodes, ray.get(found), strict=True))


def assign(found: Mapping[str, Found], store: str) -> list[Machine]:
    """Assigns every shard to a node that sees it, and a new shard to every node that got none.

    Nodes of one machine see the same shards and share them.
    """
    machines: list[Machine] = []
    load = dict.fromkeys(found, 0)
    for shard in sorted({shard for part in found.values() for shard in part.shards}):
        node = min((n for n in sorted(found) if shard in found[n].shards), key=load.__getitem__)
        load[node] += 1
        machines.append(Machine(shard, node, found[node].host))
    for node in sorted(found):
        if not load[node]:
            machines.append(Machine(f"{store}-{secrets.token_hex(4)}", node, found[node].host))
    return machines


def on_node(node: str) -> dict[str, Any]:
    """Returns the options of a task or actor that must run on a node and uses almost no CPU."""
    return {"num_cpus": 0, "scheduling_strategy": NodeAffinitySchedulingStrategy(node, soft=False)}


def _look(folder: str, store: str) -> Found:
    return Found(socket.gethostname(), sorted(path.name for path in Path(folder).glob(f"{store}-*")))
