"""Formats the JSON of a benchmark run as tables and two pictures.

``python benchmarks/report.py RUN.json [STEM]`` writes STEM.md, STEM_floor.svg and STEM_speedup.svg. STEM is
``benchmarks/results/cpu`` by default. Cases that did not run are omitted. Every ratio is that of two medians
from one process. This script runs no case: it reads the ``extra_info`` of the cases.
"""

from __future__ import annotations

import itertools
import json
import os
import sys
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from fedplug import pictures

OURS = ["kernel", "op"]
PEERS = ["TensorFlow composite", "NumPy argpartition", "torch.topk"]
ABOUT_TOPK = (
    "The floor is `residual += delta` in NumPy, on one thread. The kernel updates the residual in place;",
    "the op, as Python holds its arguments, writes a new one. It is all that a `tf.function` does here,",
    "whose call is in the figures.",
)
ABOUT_SCATTER = (
    "Bytes once: NumPy reads the entries, and reads and writes as many cache lines as they name, on one",
    "thread. Thin payloads are bound by these bytes, not by the number of entries.",
    "",
)
NOT_RUN = "not run"
Medians = dict[tuple[Any, ...], dict[str, float]]


def medians(run: dict[str, Any], topic: str, *keys: str) -> Medians:
    """The seconds by case and way, ``{(value of each key, ...): {way: median}}``, in the order of the run."""
    found: Medians = {}
    for benchmark in run["benchmarks"]:
        info = benchmark["extra_info"]
        if info.get("topic") == topic:
            case = tuple(info[key] for key in keys)
            found.setdefault(case, {})[info["way"]] = benchmark["stats"]["median"]
    return found


def table(header: Iterable[str], rows: Iterable[Iterable[str]]) -> list[str]:
    """Formats rows in Markdown, without the columns of ways that did not run."""
    columns = [column for column in zip(header, *rows, strict=True) if set(column[1:]) != {NOT_RUN}]
    first, *others = zip(*columns, strict=True)
    lines = [first, ["---"] * len(first), *others]
    return ["| " + " | ".join(line) + " |" for line in lines] + [""]


def ratio(ways: dict[str, float], above: str, below: str) -> str:
    if above not in ways or below not in ways:
        return NOT_RUN
    return f"{ways[above] / ways[below]:.3g}"


def milliseconds(ways: dict[str, float], way: str) -> str:
    return f"{ways[way] * 1e3:.3g}" if way in ways else NOT_RUN


def topk_table(run: dict[str, Any]) -> list[str]:
    header = ["n", "k / n", "floor, ms", *(f"{way}, x floor" for way in OURS)]
    header += [f"speed-up over {way}" for way in PEERS]
    rows = [
        [f"{n:.0e}", str(share), milliseconds(ways, "floor")]
        + [ratio(ways, way, "floor") for way in OURS]
        + [ratio(ways, way, "kernel") for way in PEERS]
        for (n, share), ways in medians(run, "topk", "n", "share").items()
    ]
    return table(header, rows)


def data_table(run: dict[str, Any]) -> list[str]:
    header = ["data", "k / n", "floor, ms", "kernel, x floor"]
    rows = [
        [fill, str(share), milliseconds(ways, "floor"), ratio(ways, "kernel", "floor")]
        for (fill, share), ways in medians(run, "data", "fill", "share").items()
    ]
    return table(header, rows)


def model_table(run: dict[str, Any]) -> list[str]:
    lists = ["list, one k", "list, a k each", "tensors apart, one k", "tensors apart, a k each"]
    header = ["model", "parameters", "tensors", "flat, ms", *(f"{way}, x flat" for way in lists)]
    rows = [
        [model, str(n), str(tensors), milliseconds(ways, "flat")]
        + [ratio(ways, way, "flat") for way in lists]
        for (model, n, tensors), ways in medians(run, "model", "model", "n", "tensors").items()
    ]
    return table(header, rows)


def scatter_table(run: dict[str, Any]) -> list[str]:
    cases = medians(run, "scatter", "n", "count", "share", "entries")
    ours = ["bytes once", "kernel", "zeros and kernel", "zeros and op"]
    peers = list(dict.fromkeys(way for ways in cases.values() for way in ways if way not in ours))
    header = ["n", "payloads", "k / n", "bytes once, ms", "kernel, ms", "entries / s", "kernel, x bytes once"]
    header += ["zeros and op, x zeros and kernel"]
    header += [f"{way}, x kernel" for way in peers]
    rows = [
        [f"{n:.0e}", str(count), str(share), milliseconds(ways, "bytes once"), milliseconds(ways, "kernel")]
        + [f"{entries / ways['kernel']:.2e}", ratio(ways, "kernel", "bytes once")]
        + [ratio(ways, "zeros and op", "zeros and kernel")]
        + [ratio(ways, way, "kernel") for way in peers]
        for (n, count, share, entries), ways in cases.items()
    ]
    return table(header, rows)


def machine(run: dict[str, Any]) -> list[str]:
    info = run["machine_info"]
    kernels = info.get("fedplug", {})
    load = kernels.get("load", 0.0)
    cores = info["cpu"].get("count", os.cpu_count())
    busy = f"{load:.1f} when the run began" + (
        ": other work shared the machine, so the figures are worse than those of a quiet one"
        if load > 0.5
        else ""
    )
    return [
        f"- {run['datetime'][:10]}, {info['cpu'].get('brand_raw', info['machine'])}, {cores} cores",
        f"- {info['system']} {info['release']}, Python {info['python_version']}",
        f"- SIMD level {kernels.get('simd', '?')}, {kernels.get('threads', '?')} threads, "
        + ", ".join(f"{name} {version}" for name, version in kernels.get("peers", {}).items()),
        f"- load average {busy}",
        "",
    ]


def page(run: dict[str, Any], stem: str) -> str:
    lines = ["# CPU kernels", "", "Written by `make bench`; float32, medians, ratios within one process.", ""]
    lines += machine(run)
    lines += ["## Top-k with residual", "", *ABOUT_TOPK, ""]
    lines += topk_table(run)
    lines += [
        f"![Time over the floor]({stem}_floor.svg)",
        "",
        f"![Speed-up over peers]({stem}_speedup.svg)",
        "",
    ]
    for title, about, rows in (
        ("Awkward data, n = 1e7", (), data_table(run)),
        ("A model at once, k / n = 1 %", (), model_table(run)),
        ("Adding payloads into a sum", ABOUT_SCATTER, scatter_table(run)),
    ):
        if len(rows) > 3:  # more than the header
            lines += [f"## {title}", "", *about, *rows]
    return "\n".join(lines).rstrip() + "\n"


def draw(run: dict[str, Any], stem: Path) -> None:
    cases = medians(run, "topk", "n", "share")
    sizes, ticks = (sorted(set(values)) for values in zip(*cases, strict=True))

    def lines(axes: Any, above: str, below: str) -> list[tuple[str, float, float, str]]:
        from matplotlib.ticker import LogLocator, NullFormatter

        ends = []
        for n, color in zip(sizes, itertools.cycle(pictures.COLORS), strict=False):
            points = [(s, w) for (size, s), w in cases.items() if size == n and {above, below} <= w.keys()]
            if points:
                shares = [share for share, _ in points]
                values = [ways[above] / ways[below] for _, ways in points]
                axes.plot(shares, values, marker="o", color=color)
                ends.append((f"n = {n:,}", shares[-1], values[-1], color))
        axes.set(xscale="log", yscale="log", xlabel="k / n")
        axes.set_xticks(ticks, [f"{share:g}" for share in ticks])
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.yaxis.set_major_formatter("{x:g}x")
        axes.xaxis.set_minor_locator(LogLocator(subs=()))
        axes.yaxis.set_minor_formatter(NullFormatter())
        return ends

    def paint(figure: Any, panels: Sequence[tuple[str, str, str]], quantity: str, floor: bool) -> None:
        axes = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
        for one, (title, above, below) in zip(axes, panels, strict=True):
            ends = lines(one, above, below)
            one.set_title(title)
            if floor:
                one.axhline(1, color=pictures.INK, linewidth=0.8)
        axes[0].set_ylabel(quantity)
        pictures.label_lines(axes[-1], ends)

    floors = [("kernel", "kernel", "floor")]
    peers = [(peer, peer, "kernel") for peer in PEERS if any(peer in ways for ways in cases.values())]
    pictures.save(
        Path(f"{stem}_floor.svg"), 9, 4, partial(paint, panels=floors, quantity="time / floor", floor=True)
    )
    pictures.save(
        Path(f"{stem}_speedup.svg"),
        4.5 * len(peers),
        4,
        partial(paint, panels=peers, quantity="speed-up of the kernel", floor=False),
    )


def main(arguments: list[str]) -> None:
    run = json.loads(Path(arguments[0]).read_text())
    stem = Path(arguments[1]) if len(arguments) > 1 else Path(__file__).parent / "results" / "cpu"
    stem.parent.mkdir(parents=True, exist_ok=True)
    topics = {benchmark["extra_info"].get("topic") for benchmark in run["benchmarks"]}
    if "topk" in topics:
        stem.with_name(stem.name + ".md").write_text(page(run, stem.name))
        draw(run, stem)


if __name__ == "__main__":
    main(sys.argv[1:])
