"""Commits rounds to a sharded store, with machines that come and go, and dies at a random file operation.

Usage: sharded_committer.py FOLDER SEED COUNT. Of COUNT children, one after the other, each opens the store
that the one before left, checks that it is one whole round, goes on, and is killed. Prints a line for each:
its number, and the last round that it said. Ends with an error when a child finds anything else.
"""

import os
import random
import sys
import traceback
from pathlib import Path

import numpy as np
from deaths import die_at

from fedplug.stores.sharded.local import LocalStore

CLIENTS = [f"client {i}" for i in range(12)]
SHARDS = ["a", "b", "c", "d"]


def cohort_of(number):
    return random.Random(number).sample(CLIENTS, 5)


def state_of(number):
    return {"w": np.full(2_000, number, np.int64)}


def check(process, said):
    """All of one round: every client has the state of the last of its rounds."""
    number = process.last_round
    assert number is None or number in (said, said + 1), f"round {number} after {said} was said to be there"
    if number is None:
        assert said == -1
        return -1
    process.verify()
    assert process.metadata == number
    assert set(process.read_server()["w"]) == {number}
    states = process.read_clients(process.client_ids())
    expected = {client: n for n in range(number + 1) for client in cohort_of(n)}
    assert {client: set(state["w"]) for client, state in states.items()} == {
        client: {n} for client, n in expected.items()
    }
    return number


def child(folder, said, rng):
    with LocalStore(folder, SHARDS, replicas=1) as store:
        number = check(store.open_process("p", {}), said)
    print(number, flush=True)
    die_at(rng.randrange(1, 120))
    while True:
        shards = rng.sample(SHARDS, rng.choice([3, 4, 4]))
        with LocalStore(folder, shards, replicas=1) as store:
            process = store.open_process("p", {})
            for _ in range(rng.randrange(3)):
                number = -1 if process.last_round is None else process.last_round
                process.commit(
                    number + 1,
                    client_states=dict.fromkeys(cohort_of(number + 1), state_of(number + 1)),
                    server_state=state_of(number + 1),
                    metadata=number + 1,
                )
                print(number + 1, flush=True)


def main(folder, seed, count):
    said = -1
    for attempt in range(count):
        reading, writing = os.pipe()
        if not (pid := os.fork()):
            os.dup2(writing, 1)
            try:
                child(Path(folder), said, random.Random(f"{seed} {attempt}"))
            except BaseException:
                traceback.print_exc()
            os._exit(1)
        os.close(writing)
        with os.fdopen(reading) as output:
            lines = output.read().split()
        _, status = os.waitpid(pid, 0)
        if not os.WIFSIGNALED(status):
            sys.exit(f"child {attempt} was not killed, but ended with {status}; it said {lines}")
        said = int(lines[-1])
        print(attempt, said, flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
