"""Rounds for the tests of a store, and a program that commits them until it is killed.

Run as ``python -m fedplug.testing.rounds MODULE:CLASS CONFIG``, with the JSON of a store's `get_config`. It
prints the number of each round when the round is committed.
"""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence

import numpy as np

from fedplug.stores.base import ProcessState, StateStore, Tensors
from fedplug.testing import expect

__all__ = ["check_whole", "commit_next", "commit_until_killed", "round_of", "state_of"]

_CLIENTS = 6
_VALUES = 50_000  # of a state: 400 kB


def state_of(number: int, size: int = 100) -> Tensors:
    """Returns a state with one float32 tensor ``"w"``, ``[values]``, filled with the round's number."""
    return {"w": np.full(size, number, np.float32)}


def round_of(number: int, client_ids: Iterable[str], size: int = 100) -> dict[str, object]:
    """Returns the arguments of `ProcessState.commit` except the round's number, with `state_of` for all."""
    return {
        "client_states": {client_id: state_of(number, size) for client_id in client_ids},
        "server_state": state_of(number, size),
        "metadata": {"round": number},
    }


def commit_next(process: ProcessState, values: int = _VALUES) -> int:
    """Commits a round for the next two of six clients. All values are the number of the round."""
    number = 0 if process.last_round is None else process.last_round + 1
    state, cohort = {"w": np.full(values, number, np.int64)}, _cohort(number)
    process.commit(
        number, client_states=dict.fromkeys(cohort, state), server_state=state, metadata={"cohort": cohort}
    )
    return number


def check_whole(process: ProcessState, last_said: int) -> None:
    """Raises unless the store has the complete confirmed round, or the complete next one."""
    number = process.last_round
    expect.that(
        number in (last_said, last_said + 1), f"round {last_said} was committed, and it is at round {number}"
    )
    assert number is not None
    process.verify()
    found = process.metadata
    expect.that(found == {"cohort": _cohort(number)}, f"round {number} has the metadata {found}")
    _check_state("the server", process.read_server() or {}, number)
    clients = process.client_ids()
    expect.that(len(clients) == min(_CLIENTS, number + 2), f"at round {number} there are {clients}")
    for client, state in process.read_clients(clients).items():
        _check_state(client, state, max(n for n in range(number + 1) if client in _cohort(n)))


def commit_until_killed(
    store: type[StateStore], config: dict[str, object], seconds: float, by: Sequence[str] = ()
) -> int:
    """Starts the program, kills it after its first commit, and returns the last round that it printed.

    Args:
        store: The class of the store.
        config: The configuration from the store's `get_config`.
        seconds: The time between the first commit and the kill.
        by: A command prefix that executes the rest, such as ``["nice"]``.
    """
    name = f"{store.__module__}:{store.__qualname__}"
    command = [*by, sys.executable, "-m", __name__, name, json.dumps(config)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout is not None
        said = [program.stdout.readline()]
        time.sleep(seconds)
        program.kill()
        said += program.stdout
    expect.that(bool(said[0]), "what get_config() returns does not open the store in another process")
    return int(said[-1])


def _cohort(number: int) -> list[str]:
    return [f"client {(number + place) % _CLIENTS}" for place in (0, 1)]


def _check_state(whose: str, state: Tensors, number: int) -> None:
    found = set(state["w"].tolist()) if state.keys() == {"w"} else state.keys()
    expect.that(found == {number}, f"{whose} has {found}, and was last committed in round {number}")


def _main(name: str, config: str) -> None:
    module, _, found = name.partition(":")
    process = getattr(importlib.import_module(module), found)(**json.loads(config)).open_process("p", {})
    while True:
        print(commit_next(process), flush=True)


if __name__ == "__main__":
    _main(*sys.argv[1:])
