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

import contextlib
import json
import posixpath
import re
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

    @property
    def last(self) -> int:
        """The number of the newest step. 0 if there is none."""
        return self.steps[-1].number if self.steps else 0

    def step(self, number: int) -> Step:
        """Returns a step, or raises PayloadError if the list does not have it."""
        for step in self.steps:
            if step.number == number:
                return step
        numbers = f"{self.steps[0].number} to {self.last}" if self.steps else "none"
        raise PayloadError(f"the trainer's list has no step {number}; it has {numbers}")

    def path(self, held: str | None, end: Step) -> list[File]:
        """Returns the messages that lead to a step in the fewest bytes.

        Args:
            held: The version that the server has. None if it has none.
            end: The step.

        Raises:
            PayloadError: Nothing leads there.
        """
        paths, changes, needed = [], list[File](), end.version
        for step in reversed(self.steps[: self.steps.index(end) + 1]):
            if step.version != needed:  # the trainer could not write the step between
                break
            if step.version == held:
                paths.append(changes)
                break
            if step.snapshot is not None:
                paths.append([step.snapshot, *changes])
            if step.change is None:
                break
            changes, needed = [step.change, *changes], step.base
            if needed == held:
                paths.append(changes)
                break
        if not paths:
            raise PayloadError(
                f"nothing leads from version {held} to step {end.number}: a snapshot is missing"
            )
        return min(paths, key=lambda path: sum(file.bytes for file in path))


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
    """Writes the versions of one part of the model. Files of old steps are removed.

    Attributes:
        number: The number of the step to write. `Publisher` counts, so that all ranks count alike.
    """

    def __init__(self, url: str, part: int, parts: int, keep: int) -> None:
        """Continues an earlier trainer's steps at this address, if all of its ranks wrote them.

        Args:
            url: The address.
            part: The number of this part.
            parts: The number of parts.
            keep: The number of snapshots whose steps stay.
        """
        self._files, self._root = fsspec.core.url_to_fs(url)
        self._files.makedirs(self._root, exist_ok=True)
        self._part, self._parts, self._keep = part, parts, keep
        reader = ChannelReader(url)
        earlier = [reader.manifest(each) for each in range(parts)]
        self.number = min(0 if each is None else each.last for each in earlier)
        own = earlier[part]
        self._steps = [] if own is None else [step for step in own.steps if step.number <= self.number]
        if own is not None and own.last > self.number:  # or it would make a whole with a new step of others
            self._write_list(own.layout)

    def write(
        self,
        version: str,
        base: str | None,
        change: bytes | None,
        snapshot: bytes | None,
        layout: Layout | None,
    ) -> None:
        """Writes a step: its messages, then the list, then removes files that the list no longer names."""
        files = [
            None if data is None else self._message(f"{self._part}-{self.number}-{kind}", data)
            for kind, data in (("change", change), ("snapshot", snapshot))
        ]
        before = self._steps
        self._steps = [*before, Step(self.number, version, base, *files)]
        whole = [place for place, each in enumerate(self._steps) if each.snapshot is not None]
        if len(whole) > self._keep:
            self._steps = self._steps[whole[-self._keep] :]
        self._write_list(layout)
        kept = {file.name for each in self._steps for file in (each.change, each.snapshot) if file}
        for old in before:
            for file in (old.change, old.snapshot):
                if file is not None and file.name not in kept:
                    self._remove(file.name)

    def _message(self, name: str, data: bytes) -> File:
        try:
            self._files.pipe_file(posixpath.join(self._root, name), data)
        except BaseException:  # a full disk, for example, which a part of the file would keep full
            self._remove(name)
            raise
        return File(name, len(data))

    def _remove(self, name: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            self._files.rm_file(posixpath.join(self._root, name))

    def _write_list(self, layout: Layout | None) -> None:
        """Replaces the list in one step, which object stores always do."""
        text = {"format": FORMAT, "parts": self._parts, "layout": layout, "steps": self._steps}
        data = json.dumps(text, default=vars).encode()
        path = posixpath.join(self._root, f"part-{self._part}.json")
        if "file" not in self._files.protocol:
            self._files.pipe_file(path, data)
            return
        self._files.pipe_file(path + ".part", data)
        self._files.mv(path + ".part", path)


def _parsed(text: Any) -> Manifest:
    if text["format"] != FORMAT:
        raise ValueError(f"it has format {text['format']}, and this fedplug-vllm reads format {FORMAT}")
    if int(text["parts"]) < 1:
        raise ValueError(f"it says that the model has {text['parts']} parts")
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
    if not re.fullmatch(r"\d+-\d+-(change|snapshot)", name):
        raise ValueError(f"{name!r} is not a name of a file beside the list")
    return File(name, int(text["bytes"]))
