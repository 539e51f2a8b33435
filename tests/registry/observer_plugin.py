"""A plugin that observes rounds, as docs/plugins.md shows it; the tests install it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fedplug.registry.hookspecs import hookimpl

seen: list[tuple[int, int]] = []


@hookimpl
def fedplug_round_finished(round_num: int, metrics: Mapping[str, Any]) -> None:
    """Writes down what every round sent."""
    seen.append((round_num, metrics["aggregator"]["uplink_bytes"]))
