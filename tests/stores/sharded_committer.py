"""Commits rounds to a sharded store and goes back, while machines come and go, and dies at a file operation.

Usage: sharded_committer.py FOLDER SEED COUNT. Of COUNT children, one after the other, each opens the store
that the one before left, checks that it is one whole round, goes on, and is killed at a random operation.
Prints a line for each: its number, and the rounds at which the store may be. Ends with an error when a child
finds anything else.
"""

import os
import random
import sys
import traceback
from pathlib import Path

import numpy as np
from deaths import die_at
from local_store import LocalStore

CLIENTS = [f"client {i}" for i in range(12)]
SHARDS = ["a", "b", "c", "d"]
KEEP_ROUNDS = 3


def cohort_of(number):
    return random.Random(number).sample(CLIENTS, 5)


def state_of(stamp):
    return {"w": np.full(2_000, stamp, np.int64)}


def stamps_of(process):
    """Records the values of every round: a different number each time that a round is made."""
    return process.metadata or []


def next_stamp(process):
    return [*stamps_of(process), random.SystemRandom().randrange(1 << 40)]


def check(process, possible):
    """All of one of the rounds that are possible: every client has the state of the last of its rounds."""
    number = -1 if process.last_round is None else process.last_round
    assert number in possible, f"round {number}, and not one of {possible}"
    if number == -1:
        return number
    process.verify()
    stamps = stamps_of(process)
    assert len(stamps) == number + 1
    assert set(process.read_server()["w"]) == {stamps[number]}
    states = process.read_clients(process.client_ids())
    expected = {client: stamps[n] for n in range(number + 1) for client in cohort_of(n)}
    assert {client: set(state["w"]) for client, state in states.items()} == {
        client: {stamp} for client, stamp in expected.items()
    }
    return number


def say(*possible):
    print(*possible, flush=True)


def commit_next(process):
    number = -1 if process.last_round is None else process.last_round
    stamps = next_stamp(process)
    say(number, number + 1)
    process.commit(
        number + 1,
        client_states=dict.fromkeys(cohort_of(number + 1), state_of(stamps[-1])),
        server_state=state_of(stamps[-1]),
        metadata=stamps,
    )
    say(number + 1)


def go_back(process, number):
    say(process.last_round, number)
    process.rewind(number)
    say(number)
    check(process, [number])


def child(folder, possible, rng):
    with LocalStore(folder, SHARDS, replicas=1, keep_rounds=KEEP_ROUNDS) as store:
        say(check(store.open_process("p", {}), possible))
    die_at(rng.randrange(1, 120))
    while True:
        shards = rng.sample(SHARDS, rng.choice([3, 4, 4]))
        with LocalStore(folder, shards, replicas=1, keep_rounds=KEEP_ROUNDS) as store:
            process = store.open_process("p", {})
            for _ in range(rng.randrange(3)):
                if process.kept_rounds() and rng.random() < 0.3:
                    go_back(process, rng.choice(process.kept_rounds()))
                else:
                    commit_next(process)


def main(folder, seed, count):
    possible = [-1]
    for attempt in range(count):
        reading, writing = os.pipe()
        if not (pid := os.fork()):
            os.dup2(writing, 1)
            try:
                child(Path(folder), possible, random.Random(f"{seed} {attempt}"))
            except BaseException:
                traceback.print_exc()
            os._exit(1)
        os.close(writing)
        with os.fdopen(reading) as output:
            lines = output.read().splitlines()
        _, status = os.waitpid(pid, 0)
        if not os.WIFSIGNALED(status):
            sys.exit(f"child {attempt} was not killed, but ended with {status}; it said {lines}")
        possible = [int(number) for number in lines[-1].split()]
        say(attempt, *possible)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
