"""The progress line: the accuracy of the run, the bytes sent, and the time left.

A terminal shows one line that is redrawn; a file or a job's log gets a line from time to time.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping

from tqdm import tqdm

from fedplug.tff.experiment.display import ACCURACY, Json, in_words, shown_of, size

__all__ = ["Progress", "TrainingProgress"]

_LINES = 20
"""The approximate number of lines if the output is not a terminal."""


class Progress:
    """Counts the rounds of all trainings, in one process or several."""

    def __init__(self, total: int, done: int, width: int) -> None:
        """Starts the line.

        Args:
            total: Number of rounds of all trainings.
            done: Number of rounds that were finished earlier.
            width: Width of the longest name of a training.
        """
        self._width, self._total, self._done = width, total, done
        terminal = sys.stderr.isatty()
        self._bar = tqdm(total=total, initial=done, unit="round", dynamic_ncols=True, disable=not terminal)

    def training(self, name: str, sent: int) -> TrainingProgress:
        """Returns the part of one training.

        Args:
            name: The name of the training in the line.
            sent: Bytes that its clients have sent in earlier rounds.
        """
        return TrainingProgress(self, name, sent)

    def advance(self, name: str, reached: str) -> None:
        """Counts a finished round of a training."""
        self._done += 1
        self._bar.set_description(name.ljust(self._width), refresh=False)
        self._bar.set_postfix_str(reached, refresh=False)
        self._bar.update()
        if self._bar.disable and (
            self._done % max(1, self._total // _LINES) == 0 or self._done == self._total
        ):
            print(f"{self._done}/{self._total} rounds; {name}: {reached}", file=sys.stderr, flush=True)

    def close(self) -> None:
        """Ends the line."""
        self._bar.close()


class TrainingProgress:
    """The progress of one training, see `Progress.training`."""

    def __init__(self, progress: Progress, name: str, sent: int) -> None:
        self._progress = progress
        self._name = name
        self._sent = sent
        self._reached = ""

    def show(self, row: Mapping[str, Json]) -> None:
        """Updates the displayed values from a round's row."""
        self._sent += row["uplink_bytes"]
        key = shown_of(row) or ACCURACY
        number = "not finite" if row[key] is None else f"{row[key]:.3f}"
        self._reached = f"{in_words(key)} {number}, {size(self._sent)} up"

    def advance(self) -> None:
        """Counts a finished round."""
        self._progress.advance(self._name, self._reached)
