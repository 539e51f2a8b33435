"""A trainer's messages as files, at any address that fsspec opens: a folder, an object store, HTTP.

Each rank of the trainer that holds a part of the model writes its own files. ``part-0.json`` lists the steps
that can still be read, and is replaced last, so a reader sees a step whole or not at all::

    part-0.json    {"format": 1, "parts": 2, "layout": {...} | null, "steps": [STEP, ...]}
    STEP           {"number": 7, "version": "5f..", "base": "c0..", "change": FILE, "snapshot": FILE | null}
    FILE           {"name": "0-7-change", "bytes": 12345}

A change leads from the version ``base`` to ``version``, and a snapshot leads there from anywhere. ``layout``
gives the row at which each array of a part begins in the whole array, and the shape of the whole array.
"""

from __future__ import annotations

import json
import posixpath
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import fsspec

from fedplug.errors import PayloadError

__all__ = ["ChannelReader", "ChannelWriter", "Layout", "Manifest", "Step"]

FORMAT = 1

Layout = Mapping[str, tuple[int, tuple[int, ...]]]
"""By name: the first row of a part's array in the whole array, and the shape of the whole array."""


@dataclass(frozen=True)
class File:
    """A message: the name of its file, and its size."""

    name: str
    bytes: int


@dataclass(frozen=True)
class Step:
    """A version of a part of the model, and the messages that lead to it."""

    number: int
    version: str
    base: str | None
    change: File | None
    snapshot: File | None


@dataclass(frozen=True)
class Manifest:
    """The steps of a part that can be read, oldest first."""

    parts: int
    layout: Layout | None
    steps: tuple[Step, ...]

    def path(self, held: str | None, number: int) -> tuple[str, list[File]]:
        """Returns the version of a step, and the messages that lead to it in the fewest bytes.

        Args:
            held: The version that the server has. None if it has none.
            number: The number of the step.

        Raises:
            PayloadError: The files of the step are gone, or it was never written.
        """
        until = [step for step in self.steps if step.number <= number]
        if not until or until[-1].number != number:
            raise PayloadError(f"the trainer's list has no step {number}; it has {self._numbers()}")
        paths, changes = [], list[File]()
        for step in reversed(until):
            if step.version == held:
                paths.append(changes)
                break
            if step.snapshot is not None:
                paths.append([step.snapshot, *changes])
            if step.change is None:
                break
            changes = [step.change, *changes]
            if step.base == held:
                paths.append(changes)
                break
        if not paths:
            raise PayloadError(f"nothing leads from version {held} to step {number}: a snapshot is missing")
        return until[-1].version, min(paths, key=lambda path: sum(file.bytes for file in path))

    def _numbers(self) -> str:
        return f"{self.steps[0].number} to {self.steps[-1].number}" if self.steps else "none"


class ChannelReader:
    """Reads the files that the ranks of a trainer wrote."""

    def __init__(self, url: str) -> None:
        """Opens the address, for example ``s3://bucket/run``, ``http://trainer:8000`` or a folder."""
        self._files, self._root = fsspec.core.url_to_fs(url)

    def manifest(self, part: int) -> Manifest | None:
        """Returns the list of a part. None before its first step.

        Raises:
            PayloadError: It is no such list, or one of another version of fedplug-vllm.
        """
        name = f"part-{part}.json"
        try:
            text = self._files.cat_file(posixpath.join(self._root, name))
        except FileNotFoundError:
            return None
        try:
            return _parsed(json.loads(text))
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise PayloadError(f"{name} is not the list of a trainer's versions: {error}") from error

    def read(self, file: File, max_bytes: float) -> bytes:
        """Returns a message, whose content is not checked.

        Raises:
            PayloadError: The file is too large, or has another size than the list says.
        """
        if file.bytes > max_bytes:
            raise PayloadError(f"{file.name} has {file.bytes:,} bytes, more than the {max_bytes:,} allowed")
        try:
            data: bytes = self._files.cat_file(posixpath.join(self._root, file.name))
        except FileNotFoundError as error:
            raise PayloadError(f"{file.name} is in the trainer's list, and not there") from error
        if len(data) != file.bytes:
            raise PayloadError(f"{file.name} has {len(data):,} bytes, and the list says {file.bytes:,}")
        return data


class ChannelWriter:
    """Writes the versions of one part of the model. Files of old steps are removed."""

    def __init__(self, url: str, part: int, parts: int, keep: int) -> None:
        """Continues the numbers of an earlier trainer at this address.

        Args:
            url: The address.
            part: The number of this part.
            parts: The number of parts.
            keep: The number of snapshots whose steps stay.
        """
        self._files, self._root = fsspec.core.url_to_fs(url)
        self._files.makedirs(self._root, exist_ok=True)
        self._part, self._parts, self._keep = part, parts, keep
        earlier = ChannelReader(url).manifest(part)
        self._steps = [] if earlier is None else list(earlier.steps)

    def write(
        self,
        version: str,
        base: str | None,
        change: bytes | None,
        snapshot: bytes | None,
        layout: Layout | None,
    ) -> Step:
        """Writes a step: its messages, then the list, then removes files that the list no longer names."""
        number = self._steps[-1].number + 1 if self._steps else 1
        files = [
            None if data is None else self._message(f"{self._part}-{number}-{kind}", data)
            for kind, data in (("change", change), ("snapshot", snapshot))
        ]
        step = Step(number, version, base, *files)
        before, self._steps = self._steps, [*self._steps, step]
        whole = [place for place, each in enumerate(self._steps) if each.snapshot is not None]
        if len(whole) > self._keep:
            self._steps = self._steps[whole[-self._keep] :]
        text = {"format": FORMAT, "parts": self._parts, "layout": layout, "steps": self._steps}
        self._replace(f"part-{self._part}.json", json.dumps(text, default=vars).encode())
        kept = {file.name for each in self._steps for file in (each.change, each.snapshot) if file}
        for old in before:
            for file in (old.change, old.snapshot):
                if file is not None and file.name not in kept:
                    self._files.rm_file(posixpath.join(self._root, file.name))
        return step

    def _message(self, name: str, data: bytes) -> File:
        self._files.pipe_file(posixpath.join(self._root, name), data)
        return File(name, len(data))

    def _replace(self, name: str, data: bytes) -> None:
        """Replaces a file in one step, which object stores always do."""
        path = posixpath.join(self._root, name)
        if "file" not in self._files.protocol:
            self._files.pipe_file(path, data)
            return
        self._files.pipe_file(path + ".part", data)
        self._files.mv(path + ".part", path)


def _parsed(text: Any) -> Manifest:
    if text["format"] != FORMAT:
        raise ValueError(f"it has format {text['format']}, and this fedplug-vllm reads format {FORMAT}")
    layout = text["layout"]
    if layout is not None:
        layout = {name: (int(row), tuple(map(int, shape))) for name, (row, shape) in layout.items()}
    steps = tuple(
        Step(
            int(step["number"]),
            str(step["version"]),
            step["base"],
            _file(step["change"]),
            _file(step["snapshot"]),
        )
        for step in text["steps"]
    )
    return Manifest(int(text["parts"]), layout, steps)


def _file(text: Any) -> File | None:
    if text is None:
        return None
    name = str(text["name"])
    if posixpath.basename(name) != name:
        raise ValueError(f"{name!r} is not a name of a file beside the list")
    return File(name, int(text["bytes"]))
