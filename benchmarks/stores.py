"""Measures the embedded store by the number of clients, and with large states.

``python -m benchmarks.stores FOLDER`` writes benchmarks/results/stores.md. FOLDER holds the stores, on the
disk to measure, and they are deleted afterwards. ``--clients``, ``--large`` and ``--state-mb`` scale the
measurement.

For each store the page shows opening it, reading and committing a round of at most 1,000 clients, its space
as a multiple of the current states, and the memory growth of the process over the rounds. Every store is
measured in a new process. For comparison, in turn, the same bytes are written to one new file with fsync and
read again: from the system's cache as the store does, or from the disk if the states exceed memory.
"""

from __future__ import annotations

import argparse
import itertools
import os
import random
import shutil
import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import date
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.memory import elsewhere, resident
from benchmarks.tables import table
from fedplug.diagnostics.environment import processor

RESULTS = Path(__file__).parent / "results" / "stores.md"
COHORT = 1000
SMALL = 256  # float32 values: 1 kB
AT_ONCE = 40_000_000  # bytes of states read in one call


class Clients(Mapping[str, dict[str, np.ndarray[Any, Any]]]):
    """States that are created on access, so that a round needs the memory of one."""

    def __init__(self, numbers: list[int], values: int, fill: int) -> None:
        self._names = {name(number): None for number in numbers}
        self._state = {"residual": np.full(values, fill, np.float32)}

    def __getitem__(self, client: str) -> dict[str, np.ndarray[Any, Any]]:
        return self._state

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def name(number: int) -> str:
    return f"client {number:07d}"


def read(process: Any, numbers: list[int], values: int) -> None:
    at_once = max(1, AT_ONCE // (values * 4))
    for begin in range(0, len(numbers), at_once):
        process.read_clients(map(name, numbers[begin : begin + at_once]))


def seconds(action: Callable[[], object]) -> float:
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def fill(folder: Path, clients: int, values: int, cohort: int) -> None:
    from fedplug.stores.sqlite import SqliteStore

    server = {"weights": np.zeros(1000, np.float32)}
    with SqliteStore(folder) as store:
        process = store.open_process("p", {})
        for number, begin in enumerate(range(0, clients, cohort)):
            part = Clients(list(range(begin, min(clients, begin + cohort))), values, 0)
            process.commit(number, client_states=part, server_state=server)


def write_file(path: Path, megabytes: int) -> None:
    block = np.random.default_rng(0).bytes(1 << 20)
    with path.open("wb") as file:
        for _ in range(megabytes):
            file.write(block)
        file.flush()
        os.fsync(file.fileno())


def drop_from_cache(paths: Iterable[Path]) -> None:
    """Evicts files from the cache, so that the next read comes from the disk."""
    for path in paths:
        with path.open("rb") as file:
            os.fdatasync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def read_file(path: Path) -> None:
    with path.open("rb") as file:
        while file.read(1 << 20):
            pass


def measure(
    folder: Path, clients: int, values: int, cohort: int, cold: bool, rounds: int
) -> dict[str, float]:
    """Measures one store; medians over the rounds."""
    from fedplug.stores.sqlite import SqliteStore

    chosen = random.Random(0)
    opening = statistics.median(seconds(lambda: SqliteStore(folder).close()) for _ in range(3))
    times: dict[str, list[float]] = {what: [] for what in ("read", "commit", "write file", "read file")}
    server = {"weights": np.zeros(1000, np.float32)}
    megabytes = max(1, cohort * values * 4 >> 20)
    with SqliteStore(folder) as store:
        process = store.open_process("p")
        before = resident()
        for _ in range(rounds):
            numbers = chosen.sample(range(clients), cohort)
            if cold:
                drop_from_cache(folder.glob("*.sqlite3"))
            times["read"].append(seconds(lambda: read(process, numbers, values)))  # noqa: B023
            last = process.last_round
            assert last is not None
            states = Clients(numbers, values, last)
            times["commit"].append(
                seconds(lambda: process.commit(last + 1, client_states=states, server_state=server))  # noqa: B023
            )
            file = folder.with_name("file")
            times["write file"].append(seconds(lambda: write_file(file, megabytes)))  # noqa: B023
            if cold:
                drop_from_cache([file])
            times["read file"].append(seconds(lambda: read_file(file)))  # noqa: B023
            file.unlink()
        after = resident()
    used = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    found = {what: statistics.median(taken) for what, taken in times.items()}
    return {
        **found,
        "open": opening,
        "space": used / (clients * values * 4),
        "memory": (after - before) / 2**20,
        "MB": cohort * values * 4 / 1e6,
    }


class Case(NamedTuple):
    """A store to measure: clients, values per state, clients per round, whether reads are from the disk."""

    clients: int
    values: int
    cohort: int
    cold: bool

    def row(self, folder: Path, rounds: int) -> list[str]:
        """Measures the store and formats its row of the table."""
        place = folder / f"{self.clients} of {self.values}"
        try:
            elsewhere(fill, place, self.clients, self.values, max(self.cohort, self.clients // 100))
            found = elsewhere(measure, place, *self, rounds)
        finally:
            shutil.rmtree(place)
        ratio = (found["write file"] + found["read file"]) / (found["read"] + found["commit"])
        return [
            f"{self.clients:,}",
            f"{self.values * 4 / 1e6:g}",
            f"{self.cohort:,}",
            f"{found['open'] * 1e3:.0f} ms",
            f"{found['read'] * 1e3:,.0f} ms",
            f"{found['commit'] * 1e3:,.0f} ms",
            f"{2 * found['MB'] / (found['read'] + found['commit']):,.0f} MB/s",
            f"{100 * ratio:.0f} %",
            f"{found['space']:.2f}",
            f"{found['memory']:+.0f} MiB",
        ]


HEAD = ["clients", "MB a state", "in a round", "open", "read", "commit", "read and commit"]
HEAD += ["of the disk's speed", "space / states", "memory"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--clients", type=int, nargs="*", default=[1_000, 10_000, 100_000, 1_000_000])
    parser.add_argument("--large", type=int, default=1000, help="clients with a large state")
    parser.add_argument("--state-mb", type=int, default=40)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    cases = [Case(clients, SMALL, min(COHORT, clients), False) for clients in arguments.clients]
    if arguments.large:
        cases.append(Case(arguments.large, arguments.state_mb * 250_000, max(1, arguments.large // 10), True))
    rows = (case.row(arguments.folder, arguments.rounds) for case in cases)
    about = f"on {date.today()}: {processor()}, one thread, medians of {arguments.rounds} rounds."
    head = f"# Client-state stores\n\nWritten by `python -m benchmarks.stores` {about}\n\n"
    RESULTS.write_text(head + table(itertools.chain([HEAD], rows), texts=()))


if __name__ == "__main__":
    main()
