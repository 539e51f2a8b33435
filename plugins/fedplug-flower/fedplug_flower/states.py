"""The location of a client's state on a node: its residual, and the model it received.

Each node has a store per training, ``STATE_DIR/run-RUN/TRAINING/partition-PARTITION.node-NODE``. Nodes do
not share a store: a store has one user at a time, but Flower runs messages in several processes. Delete the
folder of a run to delete its states.
"""

from __future__ import annotations

import glob
import logging
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote

from flwr.app import Context

__all__ = ["NODE_CONFIG_KEY", "state_url"]

NODE_CONFIG_KEY = "fedplug-state-dir"
"""The key in ``flower-supernode --node-config`` for the folder of this node's states."""

_log = logging.getLogger("flwr.fedplug")


def state_url(context: Context, training: str, gone: Sequence[str], state_dir: str | Path | None) -> str:
    """Returns the URL of the store of this node's client.

    Flower gives a SuperNode without a key a new node id at every start. Such a node takes over the state of a
    node with the same ``partition-id`` on this machine, if the server says that this node is gone.

    Args:
        context: The node's context. Its configuration takes precedence over ``state_dir``.
        training: The id of the training.
        gone: Ids of nodes that are no longer connected.
        state_dir: The folder of all states. None means the folder ``fedplug`` in Flower's own, which is
            ``$FLWR_HOME`` or ``~/.flwr``.
    """
    root = Path(str(context.node_config.get(NODE_CONFIG_KEY) or state_dir or _default_dir()))
    folder = root.expanduser().absolute() / f"run-{context.run_id}" / training
    partition = context.node_config.get("partition-id")
    prefix = "" if partition is None else f"partition-{quote(str(partition), safe='')}."
    mine = folder / f"{prefix}node-{context.node_id}"
    if prefix and not mine.exists():
        _take_over(folder, prefix, mine, gone)
    return f"sqlite:///{mine}"


def _take_over(folder: Path, prefix: str, mine: Path, gone: Sequence[str]) -> None:
    for node in reversed(gone):
        with suppress(OSError):  # the state is on another machine, or another node took it first
            (folder / f"{prefix}node-{quote(node, safe='')}").rename(mine)
            return
    if others := [found.name for found in folder.glob(f"{glob.escape(prefix)}node-*")]:
        _log.warning(
            "fedplug: %s is on the same machine as %s; each has a residual of its own, and a partition-id of "
            "its own would let it find the residual after a restart",
            mine.name,
            ", ".join(sorted(others)),
        )


def _default_dir() -> Path:
    home = os.environ.get("FLWR_HOME")
    return (Path(home) if home else Path.home() / ".flwr") / "fedplug"
