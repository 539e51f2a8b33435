"""Table and plot from rows of metrics."""

from __future__ import annotations

import math

from matplotlib.axes import Axes

from fedplug.experiment import report

ROWS = [
    {
        "run": "a",
        "round": i + 1,
        "test_accuracy": accuracy,
        "uplink_bytes": 200,
        "downlink_bytes": 6000,
        "clients": 3,
        "payloads": 2,
        "nonfinite_updates": 1,
        "seconds": None if i == 0 else 0.5,
    }
    for i, accuracy in enumerate([0.0] * 5 + [0.5] * 5 + [1.0] * 5)
]


def test_a_summary_averages_the_last_rounds_and_the_payloads_that_were_sent() -> None:
    summary = report.summarize(
        "a", [ROWS, [{**row, "test_accuracy": 0.25} for row in ROWS]], dense_bytes=1000
    )
    assert summary == report.Summary(
        "a",
        accuracy=0.5,  # of 0.75 and 0.25
        deviation=math.sqrt(2 * 0.25**2),
        uplink=100.0,
        ratio=10.0,
        downlink=2000.0,
        seconds=0.5,
        nonfinite=30,
    )


def test_the_table_has_a_line_per_run_and_aligned_columns() -> None:
    summaries = [report.summarize(name, [ROWS], 1000) for name in ("a", "a longer name")]
    lines = report.table(summaries).splitlines()
    assert len(lines) == 5
    assert lines[3].split() == ["a", "0.7500", "100", "10.0x", "2,000", "0.500", "15"]
    assert lines[3].index("0.7500") == lines[4].index("0.7500")


def test_the_table_says_how_far_the_seeds_differ() -> None:
    repeats = [ROWS, [{**row, "test_accuracy": 0.25} for row in ROWS]]
    assert "0.5000 ± 0.3536" in report.table([report.summarize("a", repeats, 1000)])


def test_the_plot_has_a_line_of_its_own_for_every_run(tmp_path, monkeypatch) -> None:
    drawn = []
    monkeypatch.setattr(Axes, "legend", lambda axes, **_: drawn.extend(axes.get_lines()))
    report.plot({f"run {i}": [ROWS, ROWS[:-1]] for i in range(20)}, tmp_path / "plot.png")
    bold = [line for line in drawn if not line.get_label().startswith("_")]
    assert [len(line.get_xdata()) for line in drawn] == [len(ROWS) - 1] * 3 * 20
    assert len({(line.get_color(), line.get_linestyle()) for line in bold}) == 20


def test_the_plot_is_a_png(tmp_path) -> None:
    report.plot({"a": [ROWS], "b": [ROWS]}, tmp_path / "plot.png")
    assert (tmp_path / "plot.png").read_bytes().startswith(b"\x89PNG")
