"""A driver that commits rounds to a sharded store, while shards, workers and at last itself are killed.

Usage: store_driver.py ADDRESS FOLDER SEED SAID KILLS. Checks that the store is at round SAID or the next
one, whole; then kills a random process KILLS - 1 times, and checks again after each; in between, rounds are
committed, and shards drained, which the next opening undoes. Prints the last round at every commit and
"killed WHAT" at every kill. Needs `sharded_committer` on its path.
"""

import contextlib
import os
import random
import signal
import sys
import threading
import time
from pathlib import Path

import ray
import sharded_committer
from sharded_committer import check, cohort_of, state_of

from fedplug.errors import StoreError
from fedplug.stores.ray.references import fetch, stage
from fedplug.stores.ray.store import RayStore

DELAY = 0.15  # seconds between two kills, at most


@ray.remote
def work(references, number, marker):
    """What a worker does of a round: reads the states, leaves the next ones; returns their names."""
    fetch(references)
    if marker is not None:
        with contextlib.suppress(FileExistsError):
            Path(marker).touch(exist_ok=False)
            os.kill(os.getpid(), signal.SIGKILL)
    return stage(references, [state_of(number)] * len(references))


def next_round(process, marker=None):
    """Commits a round; with a marker, one of its workers is killed once. Returns its number."""
    number = 0 if process.last_round is None else process.last_round + 1
    cohort = process.arranged(cohort_of(number))
    references = process.references(cohort, state_of(0))
    half = len(cohort) // 2
    parts = [(references[:half], None), (references[half:], marker)]
    staged = ray.get([work.remote(part, number, its_marker) for part, its_marker in parts])
    names = [name for part in staged for name in part]
    process.commit(
        number,
        client_states=dict(zip(cohort, names, strict=True)),
        server_state=state_of(number),
        metadata=number,
    )
    print(number, flush=True)
    return number


def pid_of(actor):
    return ray.get(actor.__ray_call__.remote(lambda self: os.getpid()))


def kill_soon(what, pid, rng):
    """Kills a process soon; the event that is returned says when."""
    done = threading.Event()

    def kill():
        print("killed", what, flush=True)
        os.kill(pid, signal.SIGKILL)
        done.set()

    threading.Timer(rng.uniform(0, DELAY), kill).start()
    return done


def go_on(store, process, said, rng, done):
    """Commits rounds and drains shards until something was killed, which errors may tell."""
    while not done.is_set():
        try:
            if rng.random() < 0.2:
                store.drain({rng.choice(sorted(store.machines))})
            else:
                said = next_round(process)
        except (StoreError, ray.exceptions.RayError) as error:
            print("failed", " ".join(str(error).split())[:200], flush=True)
    return said


def main(address, folder, seed, said, kills):
    ray.init(address=address, log_to_driver=False, logging_level="error")
    ray.cloudpickle.register_pickle_by_value(sharded_committer)
    rng = random.Random(seed)
    with RayStore(Path(folder), replicas=rng.choice([0, 1])) as store:
        process = store.open_process("p", {})
        said = check(process, said)
        print(said, flush=True)
        for kill in range(kills - 1):
            if rng.random() < 0.25:
                said = next_round(process, f"{folder}-{seed}-{kill}")
                print("killed a worker", flush=True)
            else:
                shard = rng.choice(sorted(store.machines))
                pid = pid_of(store.fleet._actors[shard])
                said = go_on(store, process, said, rng, kill_soon("a shard", pid, rng))
            said = check(process, said)
        go_on(store, process, said, rng, kill_soon("the driver", os.getpid(), rng))
        time.sleep(60)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], *map(int, sys.argv[4:]))
