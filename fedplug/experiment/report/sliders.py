"""The section on time to accuracy: the sliders, and the table that ``page.js`` fills from `links`."""

from __future__ import annotations

from collections.abc import Sequence

from fedplug.experiment.report.folder import Experiment
from fedplug.experiment.report.links import SPEEDS
from fedplug.experiment.report.markup import Markup, data_table, element, join, notice, parts_legend

__all__ = ["time_to_accuracy"]

_FIRST_UP, _FIRST_DOWN = 10, 100
"""The initial positions of the sliders in megabits per second: a home, a phone."""

_MODEL = (
    "Time of a round = seconds of compute + one client's uplink bytes / uplink speed + its downlink bytes / "
    "downlink speed. Bytes and seconds are measured; clients work in parallel, and the mean of their bytes "
    "stands for each. Seconds are those of this experiment's machine, which trained all clients of a round. "
    "Start-up, the time of the first round beyond the median of the others, is shown separately and not "
    "counted. Latency and the overhead of a transport are not counted either."
)
_NO_SCRIPT = "A script in this page computes these numbers; it does not run in this browser."
_HEADS = ("run", "", "total", "compute", "uplink", "downlink", "rounds", "start-up", "against uncompressed")


def time_to_accuracy(experiments: Sequence[Experiment], measured: bool) -> Markup:
    """Renders the section without its numbers.

    Args:
        experiments: The experiments to compare.
        measured: Whether a run reached any target.
    """
    if not measured:
        return notice("No run has an accuracy that grows with training, so none can be reached.")
    untold = [e.label for e in experiments if not e.more_is_better]
    return join(
        [
            element("p", _MODEL, class_="caption"),
            *(
                [notice(f"Left out, because lower values of their metric are better: {', '.join(untold)}.")]
                if untold
                else []
            ),
            element(
                "form",
                _slider("up", "Uplink", SPEEDS.index(_FIRST_UP), len(SPEEDS) - 1, speeds=True),
                _slider("down", "Downlink", SPEEDS.index(_FIRST_DOWN), len(SPEEDS) - 1, speeds=True),
                _slider("target", "Target", 0, 0),
                _compute(),
                class_="controls",
            ),
            element("p", "", id="verdict", aria_live="polite"),
            parts_legend(("compute", "uplink", "downlink")),
            data_table("Time to accuracy by run", _HEADS, (), left=(0, 1, 8), body="times-body"),
            element("p", _NO_SCRIPT, id="no-script", class_="notice"),
        ]
    )


def _slider(name: str, label: str, value: int, most: int, *, speeds: bool = False) -> Markup:
    marks = [element("span", mark) for mark in ("1", "10", "100", "1000")] if speeds else []
    return element(
        "div",
        element("label", label, " ", element("output", "", id=f"{name}-value", for_=name), for_=name),
        element("input", type="range", id=name, min=0, max=most, value=value, step=1),
        element("div", *marks, class_="marks", aria_hidden="true"),
    )


def _compute() -> Markup:
    choices = {
        "measured": "as measured",
        "shared": "divided by the clients of a round",
        "none": "not counted",
    }
    options = [element("option", text, value=value) for value, text in choices.items()]
    return element(
        "div", element("label", "Compute", for_="compute"), element("select", *options, id="compute")
    )
