"""Where a node keeps the state of its client, residuals above all. Must not know what is in it.

A folder for each training and client: ``STATE_DIR/run-RUN/TRAINING/CLIENT``, each a store of its own, since a
store has one user at a time, while Flower runs each message of a node in whichever process is free. What a
training leaves behind is deleted with the folder of its run.
"""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import quote

from flwr.app import Context

__all__ = ["NODE_CONFIG_KEY", "client_name", "state_url"]

NODE_CONFIG_KEY = "fedplug-state-dir"
"""In ``flower-supernode --node-config``: where this node keeps states; whoever runs the node decides."""


def state_url(context: Context, training: str, state_dir: str | Path | None) -> str:
    """The URL of the store of this node's client.

    Args:
        context: Of the node; its configuration goes before ``state_dir``.
        training: A name of 16 hexadecimal digits.
        state_dir: None: the folder ``fedplug`` in Flower's own, which is ``$FLWR_HOME`` or ``~/.flwr``.
    """
    root = Path(str(context.node_config.get(NODE_CONFIG_KEY) or state_dir or _default_dir()))
    folder = root.expanduser().absolute() / f"run-{context.run_id}" / training
    return f"sqlite:///{folder / quote(client_name(context), safe='')}"


def client_name(context: Context) -> str:
    """Which client this is, also after a restart of its SuperNode.

    Flower gives a SuperNode without a key a new node id whenever it starts; ``partition-id`` in its
    configuration stays. That of an authenticated SuperNode stays, too.
    """
    partition = context.node_config.get("partition-id")
    return f"node-{context.node_id}" if partition is None else f"partition-{partition}"


def _default_dir() -> Path:
    home = os.environ.get("FLWR_HOME")
    return (Path(home) if home else Path.home() / ".flwr") / "fedplug"
