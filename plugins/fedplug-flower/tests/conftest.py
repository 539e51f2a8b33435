"""Fixtures with nodes for each test. Disables the network access of flwr."""

from __future__ import annotations

import logging
import os

# Set before flwr is imported: it reports its use and looks for newer releases.
os.environ["FLWR_TELEMETRY_ENABLED"] = "0"
os.environ["FLWR_DISABLE_UPDATE_CHECK"] = "1"

from collections.abc import Iterator
from pathlib import Path

import pytest
from flwr.supercore.task_identity import TaskIdentity
from local_flower import RUN, Nodes


@pytest.fixture
def nodes(tmp_path: Path) -> Nodes:
    """Returns an empty set of nodes that store their states in the test's folder."""
    return Nodes(tmp_path / "states")


@pytest.fixture(autouse=True)
def _this_process_is_a_server_app() -> None:
    """Sets the run of this process, as flwr-serverapp does: messages take the sender from it."""
    TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = RUN, 1, 1


@pytest.fixture
def log() -> Iterator[list[str]]:
    """Collects the lines that fedplug writes to Flower's log."""
    lines: list[str] = []

    class Lines(logging.Handler):
        def emit(self, entry: logging.LogRecord) -> None:
            lines.append(entry.getMessage())

    handler = Lines()
    logger = logging.getLogger("flwr.fedplug")
    logger.addHandler(handler)
    yield lines
    logger.removeHandler(handler)
