"""How far one driver reaches: measures rounds on 1 and 2 workers here, and simulates clusters from the costs.

``python -m benchmarks.ray_scaling`` writes benchmarks/results/scaling.md and scaling.svg, in about five
minutes. The simulation knows costs only, not the runtime: the driver hands out one slice after the other, as
workers become free.
"""

from __future__ import annotations

import argparse
import heapq
import os
import platform
import statistics
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.ray_costs import SLICE, Costs, measure, measure_costs

RESULTS = Path(__file__).parent / "results" / "scaling.md"
CLIENTS = (10_000, 100_000, 1_000_000)
WORKERS = (10, 30, 100, 300, 1_000)
FAN_IN = 8


def simulate(costs: Costs, clients: int, workers: int) -> tuple[float, float]:
    """Returns the seconds of a round, and the share of them that the driver is busy.

    Tasks are slices with the times of clients drawn from those measured, and one merge after every eighth
    slice; a worker begins one when the driver, which does one thing at a time, has handed it out.
    """
    rng = np.random.default_rng([clients, workers])
    slices = -(-clients // SLICE)
    seconds = rng.choice(costs.client, (slices, SLICE)).sum(axis=1)
    merges = iter(rng.choice(costs.merge, slices))
    driver = costs.driver_round
    free = [0.0] * workers

    def hand_out(duration: float) -> None:
        nonlocal driver
        driver = max(driver, heapq.heappop(free)) + costs.driver_slice
        heapq.heappush(free, driver + duration)

    tasks = slices
    for number in range(slices):
        hand_out(seconds[number])
        if number % FAN_IN == FAN_IN - 1:
            hand_out(next(merges))
            tasks += 1
    # The last merges wait for one another: one for every level of the tree.
    levels = int(np.ceil(np.log(max(slices, 2)) / np.log(FAN_IN)))
    total = max(free) + levels * (statistics.mean(costs.merge) + costs.driver_slice)
    return total, (costs.driver_round + tasks * costs.driver_slice) / total


def table(header: list[str], rows: list[list[str]]) -> list[str]:
    lines = [header, ["---", *["---:"] * (len(header) - 1)], *rows]
    return ["| " + " | ".join(line) + " |" for line in lines] + [""]


def number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def page(costs: Costs, measured: dict[tuple[int, int], float], simulated: dict[Any, Any], load: float) -> str:
    client, merge = statistics.mean(costs.client), statistics.mean(costs.merge)
    cores = len(os.sched_getaffinity(0))
    lines = [
        "# Scaling",
        "",
        f"Written by `python -m benchmarks.ray_scaling` on {date.today()}: {platform.machine()},",
        f"{cores} cores, load average {load:.1f} when it began. Federated averaging of 38,410 parameters,",
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
                ["driver, per client", f"{number(costs.driver_slice / SLICE * 1e6)} us"],
                ["through the driver, per round", f"{number(costs.round_bytes / 1e3)} kB"],
                ["through the driver, per client", f"{number(costs.slice_bytes / SLICE)} bytes"],
            ],
        ),
        "The driver's are processor times of its process, Ray's threads included. Through it go, once a",
        "round, the model and one accumulator, and for each client what its data is made from. Ray's own",
        "messages, about references to states for instance, are not counted.",
        "",
        "## Simulated",
        "",
        "![Clients per second over workers](scaling.svg)",
        "",
        "Seconds of a round (share of them that the driver is busy):",
        "",
        *table(
            ["workers", *(f"{clients:,} clients" for clients in CLIENTS)],
            [
                [f"{w:,}", *(f"{number(s)} ({busy:.0%})" for s, busy in (simulated[c, w] for c in CLIENTS))]
                for w in WORKERS
            ],
        ),
        f"One driver hands out {number(1 / costs.driver_slice)} slices a second, "
        f"{number(SLICE / costs.driver_slice)} clients.",
        f"With clients of {number(client * 1e3)} ms it is saturated by about "
        f"{client * SLICE / costs.driver_slice:.0f} workers;",
        "with clients, or slices, that take ten times as long, by ten times as many. The simulation has no",
        "network: bytes per second through the driver are the last two costs times what it hands out.",
    ]
    return "\n".join(lines) + "\n"


def draw(simulated: dict[Any, Any]) -> None:
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "fedplug"
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(6, 4), layout="constrained")
    for clients in CLIENTS:
        rates = [clients / simulated[clients, workers][0] for workers in WORKERS]
        axes.plot(WORKERS, rates, marker="o", label=f"{clients:,} clients a round")
    axes.set(xscale="log", yscale="log", xlabel="workers (simulated)", ylabel="clients per second")
    axes.grid(True, which="both", alpha=0.3)
    axes.legend()
    figure.savefig(RESULTS.with_suffix(".svg"), metadata={"Date": None})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--clients", type=int, nargs=2, default=[64, 256], metavar=("FEW", "MANY"))
    arguments = parser.parse_args()
    few, many = arguments.clients

    import ray

    load = os.getloadavg()[0]
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    ray.init(address="local", num_cpus=3, include_dashboard=False, log_to_driver=False)
    measured = {
        (workers, clients): measure(workers, clients, arguments.rounds)
        for workers in (1, 2)
        for clients in (few, many)
    }
    costs = measure_costs(few, arguments.rounds)
    ray.shutdown()
    simulated = {(c, w): simulate(costs, c, w) for c in CLIENTS for w in WORKERS}
    RESULTS.write_text(page(costs, measured, simulated, load))
    draw(simulated)
    print(RESULTS.read_text())


if __name__ == "__main__":
    main()
