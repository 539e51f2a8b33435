"""Compares other engines for one machine, LMDB and Redis, with the embedded store.

``python -m benchmarks.store_engines FOLDER`` prints a table. It needs ``lmdb``, ``redis`` and a
``redis-server``; fedplug needs none of them. LMDB and Redis run without a store around them: each round is
one transaction that is on the disk when it returns (LMDB's default; Redis's ``appendonly yes`` and
``appendfsync always``). There are no checksums, earlier rounds or locks, so a store based on them cannot be
faster.

The table shows the creation, a round of 1,000 clients (or 20 of 10 MB) read and committed, reopening, and the
space and memory. Times are wall clock, with the processor time of this process in parentheses.
"""

from __future__ import annotations

import argparse
import random
import shutil
import subprocess
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from fedplug.stores import blob

COHORT = 1000
LARGE_COHORT = 20
SMALL, LARGE = 256, 2_500_000  # float32 values: 1 kB, 10 MB


class Engine(ABC):
    """An engine; its constructor opens it, and creates it if it is missing."""

    @abstractmethod
    def read(self, clients: Iterable[str]) -> None:
        """Reads the clients' states as arrays."""

    @abstractmethod
    def commit(self, clients: Iterable[str], state: Mapping[str, np.ndarray[Any, Any]]) -> None:
        """Replaces the clients' states in one transaction."""

    @abstractmethod
    def close(self) -> None:
        """Closes the engine."""


class Sqlite(Engine):
    """The embedded store, with checksums and named rounds."""

    def __init__(self, folder: Path) -> None:
        from fedplug.stores.sqlite import SqliteStore

        self._store = SqliteStore(folder)
        self._process = self._store.open_process("p", {})

    def read(self, clients: Iterable[str]) -> None:
        for client in clients:
            self._process.read_clients([client])

    def commit(self, clients: Iterable[str], state: Mapping[str, np.ndarray[Any, Any]]) -> None:
        last = self._process.last_round
        self._process.commit(
            0 if last is None else last + 1, client_states=dict.fromkeys(clients, state), server_state={}
        )

    def close(self) -> None:
        self._store.close()


class Lmdb(Engine):
    def __init__(self, folder: Path) -> None:
        import lmdb

        self._database = lmdb.open(str(folder), map_size=1 << 36)

    def read(self, clients: Iterable[str]) -> None:
        with self._database.begin() as transaction:
            for client in clients:
                blob.decode(transaction.get(client.encode()))

    def commit(self, clients: Iterable[str], state: Mapping[str, np.ndarray[Any, Any]]) -> None:
        with self._database.begin(write=True) as transaction:
            for client in clients:
                transaction.put(client.encode(), blob.encode(state, client))

    def close(self) -> None:
        self._database.close()


class Redis(Engine):
    def __init__(self, folder: Path) -> None:
        import redis

        folder.mkdir(exist_ok=True)
        socket = tempfile.mktemp(prefix="fedplug-redis-")
        options = {"port": 0, "unixsocket": socket, "dir": folder, "save": "", "appendonly": "yes"}
        options["appendfsync"] = "always"
        command = [text for name, value in options.items() for text in (f"--{name}", str(value))]
        self._server = subprocess.Popen(["redis-server", *command], stdout=subprocess.DEVNULL)
        self._database = redis.Redis(unix_socket_path=socket, socket_timeout=300)
        while True:  # the server answers after it has loaded the data
            try:
                self._database.ping()
                return
            except redis.RedisError:
                time.sleep(0.005)

    def read(self, clients: Iterable[str]) -> None:
        for client in clients:
            blob.decode(self._database.get(client))

    def commit(self, clients: Iterable[str], state: Mapping[str, np.ndarray[Any, Any]]) -> None:
        with self._database.pipeline(transaction=True) as pipeline:
            for client in clients:
                pipeline.set(client, blob.encode(state, client))
            pipeline.execute()

    def close(self) -> None:
        self._database.shutdown(nosave=True)
        self._server.wait()

    def resident_mib(self) -> float:
        return int(self._database.info("memory")["used_memory_rss"]) / 2**20


ENGINES = {"sqlite": Sqlite, "lmdb": Lmdb, "redis": Redis}


def timed(action: Callable[[], Any]) -> tuple[str, Any]:
    """Returns a cell of the table, and the result of the action."""
    wall, processor = time.perf_counter(), time.process_time()
    result = action()
    wall, processor = time.perf_counter() - wall, time.process_time() - processor
    return f"{wall * 1e3:,.0f} ({processor * 1e3:,.0f}) ms", result


def batches(clients: int, size: int) -> Iterator[list[str]]:
    for begin in range(0, clients, size):
        yield [name(number) for number in range(begin, min(clients, begin + size))]


def name(number: int) -> str:
    return f"client {number:07d}"


def row(kind: str, folder: Path, clients: int, values: int, cohort: int) -> str:
    state = {"residual": np.zeros(values, np.float32)}
    place = folder / f"{kind} {clients} of {values}"
    chosen = [name(number) for number in random.Random(0).sample(range(clients), cohort)]

    def fill() -> None:
        engine = ENGINES[kind](place)
        for batch in batches(clients, max(cohort, clients // 100)):
            engine.commit(batch, state)
        engine.close()

    filling, _ = timed(fill)
    opening, engine = timed(lambda: ENGINES[kind](place))
    reading, _ = timed(lambda: engine.read(chosen))
    committing, _ = timed(lambda: engine.commit(chosen, state))
    memory = f"{engine.resident_mib():,.0f} MiB" if isinstance(engine, Redis) else "-"
    engine.close()
    space = sum(path.stat().st_blocks * 512 for path in place.rglob("*") if path.is_file())
    shutil.rmtree(place)
    cells = [kind, f"{clients:,}", f"{values * 4 / 1e6:g}", filling, opening, reading, committing]
    return f"| {' | '.join([*cells, f'{space / (clients * values * 4):.2f}', memory])} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--clients", type=int, nargs="*", default=[1_000, 10_000, 100_000, 1_000_000])
    parser.add_argument("--large", type=int, default=100, help="clients with a state of 10 MB")
    parser.add_argument("--engines", nargs="*", choices=ENGINES, default=list(ENGINES))
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    cases = [(clients, SMALL, min(COHORT, clients)) for clients in arguments.clients]
    if arguments.large:
        cases.append((arguments.large, LARGE, min(LARGE_COHORT, arguments.large)))
    head = ("engine", "clients", "MB a state", "make", "open", "read", "commit", "space / states", "memory")
    print(f"| {' | '.join(head)} |\n|" + " ---: |" * len(head))
    for case in cases:
        for kind in arguments.engines:
            print(row(kind, arguments.folder, *case), flush=True)


if __name__ == "__main__":
    main()
