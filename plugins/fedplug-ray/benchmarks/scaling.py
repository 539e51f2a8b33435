"""Measures rounds on 1 and 2 workers of this machine, and simulates larger clusters from the costs.

    python plugins/fedplug-ray/benchmarks/scaling.py        # a quarter of an hour

It writes results/scaling.md and scaling.svg. In the simulation the driver hands out one slice after the
other as workers become free; or it hands out blocks of slices to coordinators, which do the same.
"""

from __future__ import annotations

import argparse
import heapq
import os
import statistics
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from costs import SLICE, Costs, measure, measure_costs

from fedplug import kernels
from fedplug.diagnostics.environment import processor

RESULTS = Path(__file__).parent / "results" / "scaling.md"
CLIENTS = (10_000, 100_000, 1_000_000)
WORKERS = (10, 30, 100, 300, 1_000)
FAN_IN, SHARE, ALONE, MANY = 8, 32, 64, 4096  # as in fedplug_ray/runtime
LONGER = 17e-3  # seconds of a client, as of one with more data or a larger model


class Round(NamedTuple):
    """The duration of a simulated round in seconds, and the busy shares of the driver and the workers."""

    seconds: float
    driver: float
    workers: float


class _Hands:
    """Workers that get tasks one at a time; the worker that has been free longest gets the next."""

    def __init__(self, workers: int, cost: float) -> None:
        self.free = [0.0] * workers
        self.at = 0.0
        self._cost = cost

    def give(self, duration: float, known: float = 0.0) -> float:
        """Hands out a task that exists from the time `known` on; returns the time at which it ends."""
        self.at = max(self.at, known, heapq.heappop(self.free)) + self._cost
        heapq.heappush(self.free, self.at + duration)
        return self.at + duration


def simulate(costs: Costs, clients: int, workers: int, coordinators: int = 0) -> Round:
    """Simulates a round.

    The tasks are slices, whose clients' times are drawn from the measured ones, and one merge after every
    eighth slice. A worker begins a task when it gets it. A coordinator gets a block of slices while it has
    fewer than its capacity.
    """
    rng = np.random.default_rng([clients, workers])
    slices = -(-clients // SLICE)
    seconds = rng.choice(costs.client, (slices, SLICE)).sum(axis=1)
    merges = rng.choice(costs.merge, slices)
    levels = int(np.ceil(np.log(max(slices, 2)) / np.log(FAN_IN)))
    before = costs.driver_round + clients * costs.values_client * (coordinators > 0)
    blocks = [
        [*seconds[first : first + FAN_IN], merges[first // FAN_IN]] for first in range(0, slices, FAN_IN)
    ]
    if coordinators:
        size = 64 if slices > MANY else 8
        together = size // FAN_IN
        blocks = [
            [task for block in blocks[i : i + together] for task in block]
            for i in range(0, len(blocks), together)
        ]
        cost = size * costs.block_slice[size]
        end, driver = _through_coordinators(costs, blocks, workers, coordinators, before, cost)
        step = cost + costs.coordinator_slice
    else:
        hands = _Hands(workers, costs.driver_slice)
        hands.at = before
        end = max(hands.give(task) for block in blocks for task in block)
        driver = before + sum(map(len, blocks)) * costs.driver_slice
        step = costs.driver_slice
    # The last merges run one after the other, one for each level of the tree.
    total = end + levels * (statistics.mean(costs.merge) + step)
    return Round(total, driver / total, sum(map(sum, blocks)) / workers / total)


def _through_coordinators(
    costs: Costs, blocks: list[list[float]], workers: int, coordinators: int, at: float, cost: float
) -> tuple[float, float]:
    """Returns the time at which the last block ends, and how long the driver was busy until then."""
    hands = [
        _Hands(len(range(i, workers, coordinators)), costs.coordinator_slice) for i in range(coordinators)
    ]
    under_way: list[list[float]] = [[] for _ in hands]
    busy, end, size = at, 0.0, len(blocks[0])
    for number, block in enumerate(blocks):
        # Every eighth block, one merge combines the results of eight blocks.
        tasks = block if number % FAN_IN else [*block, block[-1]]
        cost_here = cost * (1 if number % FAN_IN else 2)

        def accepts(i: int) -> tuple[float, int]:
            full = len(under_way[i]) * size >= len(hands[i].free) + 64
            return under_way[i][0] if full else 0.0, len(under_way[i])

        chosen = min(range(coordinators), key=accepts)
        at = max(at, accepts(chosen)[0]) + cost_here
        busy += cost_here
        while under_way[chosen] and under_way[chosen][0] <= at:
            heapq.heappop(under_way[chosen])
        done = max([hands[chosen].give(task, at) for task in tasks])
        heapq.heappush(under_way[chosen], done)
        end = max(end, done)
    return end, busy


def table(header: list[str], rows: list[list[str]]) -> list[str]:
    """Returns the lines of a Markdown table, and an empty line."""
    lines = [header, ["---", *["---:"] * (len(header) - 1)], *rows]
    return ["| " + " | ".join(line) + " |" for line in lines] + [""]


def number(value: float) -> str:
    """Formats a number with three significant digits, or as a whole number from 100 on."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def simulate_all(costs: Costs) -> dict[Any, Round]:
    """Returns simulated rounds by (clients, workers, coordinators), with and without coordinators."""
    return {
        (clients, workers, count): simulate(costs, clients, workers, count)
        for clients in CLIENTS
        for workers in WORKERS
        for count in {0, -(-workers // SHARE) if workers > ALONE else 0}
    }


def page(
    costs: Costs,
    measured: dict[tuple[int, int], float],
    simulated: dict[Any, Round],
    longer: dict[Any, Round],
    load: float,
) -> str:
    """Returns the page of results."""
    client, merge = statistics.mean(costs.client), statistics.mean(costs.merge)
    cores = len(os.sched_getaffinity(0))
    lines = [
        "# Scaling",
        "",
        f"Written by `python plugins/fedplug-ray/benchmarks/scaling.py` on {date.today()}: {processor()},",
        f"{kernels.simd_level()}, {cores} cores, load average {load:.1f} when it began. Federated averaging "
        "of 38,410 parameters,",
        "45 examples a client, 1 % of every update sent, error feedback kept in the cluster, data made by",
        f"the workers, {SLICE} clients a slice.",
        "",
        "## Measured here",
        "",
        *table(
            ["clients a round", "1 worker, s", "2 workers, s", "speed-up", "clients/s, 2 workers"],
            [
                [str(n), number(one), number(two), f"{one / two:.2f}", number(n / two)]
                for n in sorted({clients for _, clients in measured})
                for one, two in [(measured[1, n], measured[2, n])]
            ],
        ),
        "Medians of rounds. The driver shares the cores with the workers.",
        "",
        "## Costs",
        "",
        *table(
            ["what", "cost"],
            [
                ["a client on a worker, transfer included (mean)", f"{number(client * 1e3)} ms"],
                ["a merge of up to eight accumulators (mean)", f"{number(merge * 1e3)} ms"],
                ["driver, per round", f"{number(costs.driver_round * 1e3)} ms"],
                ["driver without coordinators, per client", f"{number(costs.driver_slice / SLICE * 1e6)} us"],
                *(
                    [
                        f"driver with coordinators, per client in blocks of {size} slices, while they work",
                        f"{number(cost / SLICE * 1e6)} us",
                    ]
                    for size, cost in costs.block_slice.items()
                ),
                ["and before and after that", f"{number(costs.values_client * 1e6)} us"],
                ["coordinator, per client", f"{number(costs.coordinator_slice / SLICE * 1e6)} us"],
                ["through the driver, per round", f"{number(costs.round_bytes / 1e3)} kB"],
                ["through the driver, per client", f"{number(costs.slice_bytes / SLICE)} bytes"],
            ],
        ),
        "The costs of driver and coordinator are processor times of their processes, with Ray's threads, in",
        "rounds whose clients have almost no work. The model and one accumulator pass through the driver",
        "once per round, and the arguments of `on_worker` once per client. Ray's own messages, for instance",
        "about references to states, are not counted.",
        "",
        "## Simulated",
        "",
        "![Clients per second over workers](scaling.svg)",
        "",
        "Seconds of a round (busy shares of driver and workers), without coordinators:",
        "",
        *_rounds_table({key[:2]: each for key, each in simulated.items() if not key[2]}),
        f"With a coordinator for every {SHARE} workers:",
        "",
        *_rounds_table({key[:2]: each for key, each in simulated.items() if key[2]}),
        f"And if a client takes {number(LONGER * 1e3)} ms on a worker, with all other costs as measured:",
        "",
        *_rounds_table({key[:2]: each for key, each in longer.items() if key[2]}),
        f"A driver without coordinators hands out {number(1 / costs.driver_slice)} slices a second, "
        f"{number(SLICE / costs.driver_slice)} clients.",
        f"With clients of {number(client * 1e3)} ms, about {client * SLICE / costs.driver_slice:.0f} workers "
        "saturate it;",
        "with clients, or slices, that take ten times as long, ten times as many. There were two",
        "coordinators, with one worker each. The simulation has no network: the bytes per second through",
        "the driver are the last two costs times the clients per second.",
    ]
    return "\n".join(lines) + "\n"


def _rounds_table(simulated: dict[tuple[int, int], Round]) -> list[str]:
    workers = sorted({workers for _, workers in simulated})
    rows = [[simulated[clients, count] for clients in CLIENTS] for count in workers]
    return table(
        ["workers", *(f"{clients:,} clients" for clients in CLIENTS)],
        [
            [f"{count:,}", *(f"{number(r.seconds)} ({r.driver:.0%}, {r.workers:.0%})" for r in row)]
            for count, row in zip(workers, rows, strict=True)
        ],
    )


def draw(simulated: dict[Any, Any]) -> None:
    """Draws the simulated clients per second over the number of workers."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "fedplug"
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(6, 4), layout="constrained")
    for clients, color in zip(CLIENTS, ("C0", "C1", "C2"), strict=True):
        for coordinated, style in ((False, "--"), (True, "-")):
            workers = [key[1] for key in simulated if key[0] == clients and bool(key[2]) == coordinated]
            rates = [clients / simulated[clients, n, -(-n // SHARE) * coordinated].seconds for n in workers]
            label = f"{clients:,} clients a round" if coordinated else None
            axes.plot(workers, rates, style, marker="o", color=color, label=label)
    axes.set(
        xscale="log",
        yscale="log",
        xlabel="workers (simulated; dashed: without coordinators)",
        ylabel="clients per second",
    )
    axes.grid(True, which="both", alpha=0.3)
    axes.legend()
    figure.savefig(RESULTS.with_suffix(".svg"), metadata={"Date": None})


def main() -> None:
    """Measures, simulates and writes the page and the picture."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--clients", type=int, nargs=2, default=[64, 256], metavar=("FEW", "MANY"))
    arguments = parser.parse_args()
    few, many = arguments.clients

    import ray

    load = os.getloadavg()[0]
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    # Without this, `uv run` starts the workers in a copy of the tree, which is not built.
    os.environ.setdefault("RAY_ENABLE_UV_RUN_RUNTIME_ENV", "0")
    ray.init(address="local", num_cpus=3, include_dashboard=False, log_to_driver=False)
    measured = {
        (workers, clients): measure(workers, clients, arguments.rounds)
        for workers in (1, 2)
        for clients in (few, many)
    }
    costs = measure_costs(few, arguments.rounds)
    ray.shutdown()
    simulated = simulate_all(costs)
    times = np.array(costs.client)
    longer = simulate_all(replace(costs, client=list(times * (LONGER / times.mean()))))
    RESULTS.write_text(page(costs, measured, simulated, longer, load))
    draw(simulated)
    print(RESULTS.read_text())


if __name__ == "__main__":
    main()
