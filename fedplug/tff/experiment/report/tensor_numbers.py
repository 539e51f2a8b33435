"""Reads the metrics of tensors from the rows of a run into arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from fedplug.tff.experiment.report.folder import Experiment, Run

__all__ = ["PARTS", "Split", "TensorNumbers", "tensor_numbers"]

PARTS = {"header_bytes": "header", "index_bytes": "indices", "value_bytes": "values"}
"""The parts of a payload, by the keys of the rows."""

_KEYS = ("uplink_bytes", *PARTS, "entropy_bytes", "nmse", "residual_ratio")
_LARGE = 1e300
Values = npt.NDArray[np.float64]


class Split(NamedTuple):
    """Bytes of one client and round.

    Attributes:
        parts: Bytes of header, indices and values.
        bound: The entropy bound of indices and values. NaN if unknown.
    """

    parts: tuple[float, float, float]
    bound: float

    @property
    def sent(self) -> float:
        """The sum of all parts."""
        return sum(self.parts)


class TensorNumbers(NamedTuple):
    """The metrics of a run's tensors.

    Attributes:
        run: The run.
        names: The names of the tensors, in the order of the model.
        numbers: Metrics ``[tensor, row]`` by key, with the rows of all seeds in sequence. NaN if unknown.
        payloads: Number of clients' payloads in each row.
        rounds: Position of each row among those of its seed.
    """

    run: Run
    names: list[str]
    numbers: Mapping[str, Values]
    payloads: Values
    rounds: npt.NDArray[np.intp]

    def largest(self, count: int) -> list[int]:
        """Returns the positions of the ``count`` tensors that sent most, in the order of the model."""
        sent = np.nansum(self.numbers["uplink_bytes"], axis=1)
        return sorted(np.argsort(-sent, kind="stable")[:count].tolist())

    def by_round(self, key: str) -> Values:
        """Returns a metric ``[tensor, round]`` as a mean of the seeds. Bytes per client. NaN if unknown."""
        shared = self.payloads if key == "uplink_bytes" else np.ones_like(self.payloads)
        values = self.numbers[key] / np.maximum(shared, 1)
        known = np.isfinite(values)
        shape = (len(self.names), int(self.rounds.max(initial=-1)) + 1)
        sums, counts = np.zeros(shape), np.zeros(shape)
        for seed in np.split(np.arange(len(self.rounds)), np.flatnonzero(self.rounds == 0)[1:]):
            sums[:, self.rounds[seed]] += np.where(known, values, 0)[:, seed]
            counts[:, self.rounds[seed]] += known[:, seed]
        return np.divide(sums, counts, out=np.full(shape, np.nan), where=counts > 0)

    def split(self, tensors: Sequence[int]) -> Split:
        """Returns the bytes of these tensors together, as a mean of the payloads of all known rounds."""
        rows = np.isfinite(self.numbers["uplink_bytes"]).any(axis=0)
        payloads = max(1.0, float(self.payloads[rows].sum()))
        of = {key: self.numbers[key][tensors][:, rows] for key in (*PARTS, "entropy_bytes")}
        header, index, value = (float(np.nansum(of[key])) / payloads for key in PARTS)
        return Split((header, index, value), float(of["entropy_bytes"].sum()) / payloads)


def tensor_numbers(experiment: Experiment, run: Run) -> TensorNumbers | None:
    """Reads the metrics of a run's tensors. Returns None if the rows have none."""
    rows = [row for repeat in run.repeats for row in repeat]
    tensors = [_object(row.get("tensors")) for row in rows]
    names = list(dict.fromkeys([*experiment.tensors, *(name for each in tensors for name in each)]))
    if not any(tensors):
        return None
    numbers = np.array(
        [
            [[_number(metrics.get(key)) for key in _KEYS] for metrics in _metrics(names, each)]
            for each in tensors
        ],
        np.float64,
    )
    return TensorNumbers(
        run=run,
        names=names,
        numbers={key: numbers[:, :, i].T for i, key in enumerate(_KEYS)},
        payloads=np.array([row["payloads"] for row in rows], np.float64),
        rounds=np.array([i for repeat in run.repeats for i in range(len(repeat))], np.intp),
    )


def _metrics(names: Sequence[str], tensors: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [_object(tensors.get(name)) for name in names]


def _object(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _number(value: Any) -> float:
    return value if isinstance(value, int | float) and -_LARGE < value < _LARGE else np.nan
