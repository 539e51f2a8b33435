"""The page ``report.html``: one file from the folders of experiments, without scripts and without a network.

Equal folders give equal bytes. The modules beside this one make the sections. ``page.html`` is the template
and ``page.css`` the style.
"""

from __future__ import annotations

import base64
import hashlib
import importlib.util
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from fedplug.errors import MissingDependencyError
from fedplug.pictures import require_matplotlib
from fedplug.stores.files import write_whole
from fedplug.tff.experiment.display import MISSING, printable
from fedplug.tff.experiment.report.blocks import Block
from fedplug.tff.experiment.report.curves import accuracy
from fedplug.tff.experiment.report.folder import Experiment, read_experiments
from fedplug.tff.experiment.report.origin import origin
from fedplug.tff.experiment.report.tables import results
from fedplug.tff.experiment.report.tensors import by_tensor
from fedplug.tff.experiment.report.times import time_to_accuracy

__all__ = ["render", "require_libraries", "write_report"]

_UNKNOWN = ("", "nan", "nanx", "nan ± nan")
"""The texts that tables use for missing numbers."""

_POLICY = "default-src 'none'; img-src data:; base-uri 'none'; form-action 'none'"
"""The Content-Security-Policy, which allows embedded pictures. The page's own style joins it."""


class Section(NamedTuple):
    """A section of the page."""

    key: str
    title: str
    blocks: Sequence[Block]


def require_libraries(needed_by: str = "the report") -> None:
    """Checks that Matplotlib and Jinja are installed.

    Raises:
        MissingDependencyError: One of them is not installed.
    """
    require_matplotlib(needed_by)
    if importlib.util.find_spec("jinja2") is None:
        raise MissingDependencyError(needed_by, "jinja2")


def write_report(folders: Sequence[Path], out: Path) -> None:
    """Writes a page about experiments, with comparisons if there are several. They may still be running.

    Args:
        folders: Folders from `fedplug run`.
        out: The file, which is replaced atomically.

    Raises:
        ConfigError: There is no folder, or a folder is missing, has no metrics or is named twice.
        MissingDependencyError: Matplotlib or Jinja is not installed.
        StoreError: A file of a folder is damaged, or the page cannot be written.
    """
    require_libraries()
    write_whole(out, render(read_experiments(folders)))


def render(experiments: Sequence[Experiment]) -> str:
    """Renders the page as text. Names and values come from files of any origin, so all are escaped."""
    from jinja2 import Environment, StrictUndefined
    from markupsafe import Markup

    environment = Environment(autoescape=True, undefined=StrictUndefined, finalize=_finalized)
    environment.tests["kind"] = lambda block, name: type(block).__name__ == name
    environment.filters["side"] = lambda texts, column: "text" if column in texts else "number"
    environment.filters["known"] = lambda text: MISSING if text in _UNKNOWN else text
    here, style = Path(__file__), Path(__file__).with_name("page.css").read_text(encoding="utf-8").strip()
    return environment.from_string(here.with_name("page.html").read_text(encoding="utf-8")).render(
        policy=f"{_POLICY}; style-src '{_digest(style)}'",
        title=", ".join(experiment.label for experiment in experiments),
        style=Markup(style),
        summary=[_summary(experiment, several=len(experiments) > 1) for experiment in experiments],
        sections=[
            Section("results", "Results", results(experiments)),
            Section("accuracy", "Accuracy against bytes", accuracy(experiments)),
            Section("time", "Time to accuracy", time_to_accuracy(experiments)),
            Section("tensors", "Tensors", by_tensor(experiments)),
            Section("provenance", "Provenance", origin(experiments)),
        ],
    )


def _finalized(value: object) -> object:
    """Replaces the characters of a plain text that HTML cannot represent."""
    return printable(value) if type(value) is str else value


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _summary(experiment: Experiment, *, several: bool) -> str:
    """Returns the size of the experiment in a line."""
    repeats = [rows for run in experiment.runs for rows in run.repeats]
    facts = [
        _count(len(experiment.runs), "run"),
        _count(max(map(len, repeats)), "round"),
        f"{_count(max(row['clients'] for rows in repeats for row in rows), 'client')} a round",
        _count(max(len(run.seeds) for run in experiment.runs), "seed"),
    ]
    if pending := "; ".join(_pending(experiment)):
        facts.append(pending)
    return (f"{experiment.label}: " if several else "") + ", ".join(facts)


def _pending(experiment: Experiment) -> Iterable[str]:
    """Yields the runs that are unfinished, and those that have not begun."""
    rounds = experiment.rounds
    begun = [run.name for run in experiment.runs if rounds and min(map(len, run.repeats)) < rounds]
    if begun:
        yield f"unfinished, of {rounds:,} rounds: {', '.join(begun)}"
    if experiment.waiting:
        yield f"not begun: {', '.join(experiment.waiting)}"


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}" + ("" if number == 1 else "s")
