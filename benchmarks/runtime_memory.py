"""Measures resident memory over many rounds of federated averaging, and over many clients of one round.

``python -m benchmarks.runtime_memory`` writes benchmarks/results/runtime_memory.png with both runtimes over
the rounds, and prints the growth after the warm-up. It then prints the peak of a round by the number of
clients, each of which sends 10 MB, in the in-process runtime. Every measurement has a new process, and every
round has new data sets, as in an experiment.
"""

from __future__ import annotations

import argparse
import os
import statistics
from pathlib import Path
from typing import Any

from benchmarks.memory import elsewhere, resident
from fedplug import pictures

RESULTS = Path(__file__).parent / "results" / "runtime_memory.png"
CLIENTS = 10
WARM_UP = 50


def over_rounds(runtime: str, rounds: int) -> dict[str, list[float]]:
    """The resident memory after every round, by process."""
    from benchmarks.test_bench_runtime import ITERATOR, digits_like, fed_avg
    from fedplug.tff.runtime import use_runtime

    with use_runtime(runtime) as handle:
        process = fed_avg([64], 64, ITERATOR)
        state = process.initialize()
        worker = getattr(handle.context, "worker", None)
        watched = {runtime: os.getpid()} if worker is None else {"native: worker": worker.pid}
        if worker is not None:
            watched["native: this process"] = os.getpid()
        memory: dict[str, list[float]] = {name: [] for name in watched}
        for _ in range(rounds):
            output = process.next(state, digits_like(CLIENTS, 144))
            state = output.state
            for name, pid in watched.items():
                memory[name].append(resident(process=pid) / 2**20)
        assert output.metrics["client_work"]["train"]["loss"] < 0.1
    return memory


def peak_of_a_round(clients: int) -> float:
    """The peak resident memory of this process after one round of 10 MB updates."""
    from benchmarks.test_bench_runtime import ITERATOR, digits_like, fed_avg
    from fedplug.tff.runtime import use_runtime

    with use_runtime("inprocess"):
        process = fed_avg([2048, 1024], 128, ITERATOR, 0.01)
        output = process.next(process.initialize(), digits_like(clients, 16, 128))
        assert output.metrics["client_work"]["train"]["num_examples"] == clients * 16
    return resident("VmHWM") / 2**20


def growth(memory: list[float]) -> tuple[float, float]:
    """The medians of 20 rounds in MiB, directly after the warm-up and at the end."""
    return statistics.median(memory[WARM_UP : WARM_UP + 20]), statistics.median(memory[-20:])


def draw(memory: dict[str, list[float]]) -> None:
    def paint(figure: Any) -> None:
        axes = figure.subplots()
        for values, color in zip(memory.values(), pictures.COLORS, strict=False):
            axes.plot(range(1, len(values) + 1), values, color=color, linewidth=1)
        axes.set(xlabel="round", ylabel="resident memory, MiB", ylim=(0, None))
        colored = zip(memory.items(), pictures.COLORS, strict=False)
        pictures.label_lines(axes, [(name, len(v), v[-1], color) for (name, v), color in colored])

    RESULTS.parent.mkdir(exist_ok=True)
    pictures.save(RESULTS, 8, 4, paint)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=500)
    rounds = parser.parse_args().rounds
    memory: dict[str, list[float]] = {}
    for runtime in ("inprocess", "native"):
        memory |= elsewhere(over_rounds, runtime, rounds)
    draw(memory)
    for name, values in memory.items():
        before, after = growth(values)
        print(f"| {name} | {before:,.0f} | {after:,.0f} | {(after / before - 1) * 100:+.1f} % |", flush=True)
    for clients in (10, 100, 1000):
        print(f"| {clients:,} | {elsewhere(peak_of_a_round, clients):,.0f} |", flush=True)


if __name__ == "__main__":
    main()
