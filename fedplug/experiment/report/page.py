"""The page ``report.html``: one file from the folders of experiments, which needs no network.

Equal folders give equal bytes. The modules beside this one render the sections; ``page.css`` has the style,
``page.js`` the script.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from pathlib import Path
from string import Template

from fedplug.experiment.files import write_whole
from fedplug.experiment.report import svg
from fedplug.experiment.report.clients import by_client
from fedplug.experiment.report.curves import against_bytes
from fedplug.experiment.report.folder import Experiment, read_experiments
from fedplug.experiment.report.links import times
from fedplug.experiment.report.markup import Markup, element, join, notice, script_data
from fedplug.experiment.report.origin import origin
from fedplug.experiment.report.picture import require_matplotlib
from fedplug.experiment.report.results import results
from fedplug.experiment.report.sliders import time_to_accuracy
from fedplug.experiment.report.tensors import by_tensor

__all__ = ["render", "write_report"]


def write_report(folders: Sequence[Path], out: Path) -> None:
    """Writes a page about experiments, with comparisons if there are several; they may still be running.

    Args:
        folders: Folders from `fedplug run`.
        out: The file, which is replaced atomically.

    Raises:
        ConfigError: There is no folder, or a folder is missing, has no metrics or is named twice.
        MissingDependencyError: Matplotlib is not installed.
        StoreError: A file of a folder is damaged, or the page cannot be written.
    """
    require_matplotlib("the report")
    write_whole(out, render(read_experiments(folders)))


def render(experiments: Sequence[Experiment]) -> str:
    """Renders the page as text."""
    data = times(experiments)
    sections = [
        ("results", "Results", results(experiments)),
        ("accuracy", "Accuracy against bytes", _accuracy(experiments)),
        ("time", "Time to accuracy", time_to_accuracy(experiments, bool(data["targets"]))),
        ("tensors", "Tensors", by_tensor(experiments)),
        ("clients", "Clients", by_client(experiments)),
        ("provenance", "Provenance", origin(experiments)),
    ]
    style, script = _file("page.css"), _file("page.js")
    return Template(_file("page.html")).substitute(
        policy=_policy(style, script),
        title=join([", ".join(experiment.label for experiment in experiments)]),
        style=style,
        summary=join([element("p", _summary(experiment, experiments)) for experiment in experiments]),
        links=join([element("a", title, href=f"#{key}") for key, title, _ in sections]),
        sections=join(
            [
                element(
                    "section",
                    element("h2", title, id=f"{key}-head"),
                    content,
                    id=key,
                    aria_labelledby=f"{key}-head",
                )
                for key, title, content in sections
            ]
        ),
        data=script_data("times", data),
        script=script,
    )


def _file(name: str) -> str:
    return Path(__file__).with_name(name).read_text(encoding="utf-8").strip()


def _policy(style: str, script: str) -> str:
    """Returns a Content-Security-Policy that allows only this style, this script and embedded pictures."""
    return (
        f"default-src 'none'; img-src data:; style-src '{_digest(style)}'; script-src '{_digest(script)}'; "
        "base-uri 'none'; form-action 'none'"
    )


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _summary(experiment: Experiment, experiments: Sequence[Experiment]) -> str:
    """Returns the size of the experiment in a line."""
    rounds = max(len(rows) for run in experiment.runs for rows in run.repeats)
    seeds = max(len(run.seeds) for run in experiment.runs)
    clients = max(row["clients"] for run in experiment.runs for rows in run.repeats for row in rows)
    facts = [
        _count(len(experiment.runs), "run"),
        _count(rounds, "round"),
        f"{_count(clients, 'client')} a round",
        _count(seeds, "seed"),
    ]
    if pending := _pending(experiment):
        facts.append(pending)
    before = f"{experiment.label}: " if len(experiments) > 1 else ""
    return before + ", ".join(facts)


def _pending(experiment: Experiment) -> str:
    """Returns what is unfinished or not begun; empty if nothing."""
    begun = [
        run.name
        for run in experiment.runs
        if experiment.rounds and min(map(len, run.repeats)) < experiment.rounds
    ]
    parts = [
        *([f"unfinished, of {experiment.rounds:,} rounds: {', '.join(begun)}"] if begun else []),
        *([f"not begun: {', '.join(experiment.waiting)}"] if experiment.waiting else []),
    ]
    return "; ".join(parts)


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}" + ("" if number == 1 else "s")


def _accuracy(experiments: Sequence[Experiment]) -> Markup:
    metrics = list(dict.fromkeys(experiment.metric for experiment in experiments if experiment.metric))
    every = svg.lines()
    lined = [(experiment, {name: next(every) for name in experiment.names}) for experiment in experiments]
    parts: list[Markup] = []
    for number, metric in enumerate(metrics):
        shown = [(experiment, line) for experiment, line in lined if experiment.metric == metric]
        runs = [run for experiment, _ in shown for run in experiment.runs]
        lines = [line[run.name] for experiment, line in shown for run in experiment.runs]
        targets = sorted({experiment.target for experiment, _ in shown if experiment.target})
        name, words = f"against{number or ''}", metric.replace("_", " ")
        parts.append(against_bytes(name, runs, lines, words, targets))
    return join(parts or [notice("The rows have no test_accuracy, so there is nothing to draw.")])
