"""Keeps flwr off the network, and gives each test nodes of its own."""

from __future__ import annotations

import logging
import os

# Before flwr is imported: it reports its use, and looks for newer releases.
os.environ["FLWR_TELEMETRY_ENABLED"] = "0"
os.environ["FLWR_DISABLE_UPDATE_CHECK"] = "1"

from collections.abc import Iterator
from pathlib import Path

import pytest
from flwr.supercore.task_identity import TaskIdentity
from local_flower import RUN, Nodes


@pytest.fixture
def nodes(tmp_path: Path) -> Nodes:
    """None yet; what they keep is under the test's own folder."""
    return Nodes(tmp_path / "states")


@pytest.fixture(autouse=True)
def _this_process_is_a_server_app() -> None:
    """Of a run, as flwr-serverapp makes it: messages take the sender from it."""
    TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = RUN, 1, 1


@pytest.fixture
def log() -> Iterator[list[str]]:
    """What fedplug wrote into Flower's log; it grows as it does."""
    lines: list[str] = []

    class Lines(logging.Handler):
        def emit(self, entry: logging.LogRecord) -> None:
            lines.append(entry.getMessage())

    handler = Lines()
    logger = logging.getLogger("flwr.fedplug")
    logger.addHandler(handler)
    yield lines
    logger.removeHandler(handler)
