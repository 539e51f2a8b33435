"""The section on results: the tables of `fedplug run` in HTML."""

from __future__ import annotations

import math
from collections.abc import Sequence

from fedplug.experiment.report.folder import Experiment
from fedplug.experiment.report.markup import Markup, data_table, element, join, notice
from fedplug.experiment.report.tables import Cells, summarize, summary_cells, target_cells
from fedplug.experiment.report.targets import reach

__all__ = ["results"]


def results(experiments: Sequence[Experiment]) -> Markup:
    """Renders the section; missing data are explained in their place."""
    parts: list[Markup] = []
    for experiment in experiments:
        if len(experiments) > 1:
            parts.append(element("h3", experiment.label))
        dense = math.nan if experiment.dense_bytes is None else experiment.dense_bytes
        summaries = [summarize(run.name, run.repeats, dense) for run in experiment.runs]
        parts.append(_table(f"Results of {experiment.label}", summary_cells(summaries)))
        if experiment.target:
            reached = [reach(run.name, run.repeats, experiment.target) for run in experiment.runs]
            cells = target_cells(experiment.target, reached)
            parts.append(_table(f"What {experiment.label} needed for its target", cells))
        parts += [notice(text) for text in _missing(experiment)]
    return join(parts)


def _table(caption: str, cells: Cells) -> Markup:
    return data_table(caption, cells.heads, cells.rows, cells.units)


def _missing(experiment: Experiment) -> list[str]:
    told = [
        (not experiment.metric, "The rows have no test_accuracy: nothing was measured on a test set."),
        (
            experiment.dense_bytes is None,
            "No ratio to dense: there is no model.json. The same fedplug run adds it without training.",
        ),
        (
            not experiment.target,
            "Set target_accuracy in the configuration to see what each run needs for an accuracy.",
        ),
    ]
    return [text for missing, text in told if missing]
