"""The environments of a folder's runs: one entry for each machine and version that ran the command."""

from __future__ import annotations

import datetime
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fedplug.stores.files import write_whole

__all__ = ["record_environment"]

_SINCE = "since"


def record_environment(path: Path, environment: Mapping[str, Any]) -> None:
    """Appends the environment to the file, unless it equals the last entry.

    Args:
        path: The file, a JSON array of objects in the order of their use, created if missing.
        environment: JSON values by name. The current time is added as ``since``.

    Raises:
        StoreError: The file cannot be written.
    """
    entries = _read(path)
    if entries and {k: v for k, v in entries[-1].items() if k != _SINCE} == dict(environment):
        return
    now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    write_whole(path, json.dumps([*entries, {_SINCE: now, **environment}], indent=2) + "\n")


def _read(path: Path) -> list[dict[str, Any]]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return []  # a new folder
    return [entry for entry in found if isinstance(entry, dict)] if isinstance(found, list) else []
