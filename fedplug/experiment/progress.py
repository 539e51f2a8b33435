"""The progress line: what the run has reached, what it has sent, and the time left.

On a terminal one line that is written anew; elsewhere, in a file or the log of a job, a line now and then.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from tqdm import tqdm

from fedplug.experiment.byte_units import byte_unit
from fedplug.experiment.metric import ACCURACY, in_words, shown_of

__all__ = ["Progress", "TrainingProgress", "size"]

_LINES = 20
"""How many lines there are about, where nothing can be written anew."""


class Progress:
    """Counts the rounds of all trainings, of one process or several."""

    def __init__(self, total: int, done: int, width: int) -> None:
        """Begins the line.

        Args:
            total: Rounds of all trainings.
            done: Rounds that were made earlier.
            width: Of the longest name of a training.
        """
        self._width, self._total, self._done = width, total, done
        terminal = sys.stderr.isatty()
        self._bar: Any = tqdm(
            total=total, initial=done, unit="round", dynamic_ncols=True, disable=not terminal
        )

    def training(self, name: str, sent: int) -> TrainingProgress:
        """The part of a training.

        Args:
            name: What it is called in the line.
            sent: Bytes that its clients have sent in earlier rounds.
        """
        return TrainingProgress(self, name, sent)

    def advance(self, name: str, reached: str) -> None:
        """A round of a training is finished."""
        self._done += 1
        self._bar.set_description(name.ljust(self._width), refresh=False)
        self._bar.set_postfix_str(reached, refresh=False)
        self._bar.update()
        if self._bar.disable and (
            self._done % max(1, self._total // _LINES) == 0 or self._done == self._total
        ):
            print(f"{self._done}/{self._total} rounds; {name}: {reached}", file=sys.stderr, flush=True)

    def close(self) -> None:
        """Leaves the line as it is."""
        self._bar.close()


class TrainingProgress:
    """What one training reports, see `Progress.training`."""

    def __init__(self, progress: Progress, name: str, sent: int) -> None:
        self._progress = progress
        self._name = name
        self._sent = sent
        self._reached = ""

    def show(self, row: Mapping[str, Any]) -> None:
        """Takes what a round has reached from its row."""
        self._sent += row["uplink_bytes"]
        key = shown_of(row) or ACCURACY
        number = "not finite" if row[key] is None else f"{row[key]:.3f}"
        self._reached = f"{in_words(key)} {number}, {size(self._sent)} up"

    def advance(self) -> None:
        """A round is finished."""
        self._progress.advance(self._name, self._reached)


def size(count: int) -> str:
    """Bytes in a unit in which they are read at once: ``"812 B"``, ``"42.9 MB"``."""
    scale, unit = byte_unit(count)
    return f"{count / scale:.0f} B" if unit == "B" else f"{count / scale:.1f} {unit}"
