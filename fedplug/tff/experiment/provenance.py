"""Records the distributions of a folder's runs, so that errors can name a missing one."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from fedplug.errors import PluginError, UnknownNameError
from fedplug.registry import provenance
from fedplug.stores.files import write_whole

__all__ = ["Provenance"]


class Provenance:
    """A JSON file with the records of every run, by run name."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def write(self, runs: Mapping[str, list[dict[str, str]]]) -> None:
        """Writes the records.

        Raises:
            StoreError: The file cannot be written.
        """
        write_whole(self._path, json.dumps(runs, indent=2) + "\n")

    @contextlib.contextmanager
    def naming_what_is_missing(self, run: str) -> Iterator[None]:
        """Adds installation advice to errors about a missing component of a run.

        Raises:
            PluginError: A component is missing. Replaces the original error.
        """
        try:
            yield
        except (PluginError, UnknownNameError) as error:
            hint = provenance.install_hint(self._read().get(run, []))
            if not hint:
                raise
            raise PluginError(f"{error}; {hint} ({self._path})") from error

    def _read(self) -> dict[str, Any]:
        try:
            found = json.loads(self._path.read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError):
            return {}
        return found if isinstance(found, dict) else {}
