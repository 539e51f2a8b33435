"""A driver that commits rounds to a sharded store, while shards, workers and at last itself are killed.

Usage: store_driver.py ADDRESS FOLDER SEED ROUNDS KILLS. Checks that the store is at one of ROUNDS (such as
"3 4"), whole. Then kills a random process KILLS - 1 times, and checks again after each; in between, rounds
are committed and gone back from, and shards drained, which the next opening undoes. Shards and the driver die
at a random moment, or at a file operation of a phase; to some drivers the disks of the shards are slow.
Prints the rounds at which the store may be, and writes a line to FOLDER.kills at every kill. Needs
`sharded_committer` on its path.
"""

import contextlib
import functools
import os
import random
import signal
import sys
import threading
from pathlib import Path

import deaths
import ray
import sharded_committer
import slow_disk
from deaths import die_at
from fedplug_ray.shards.references import fetch, stage
from fedplug_ray.shards.store import RayStore
from sharded_committer import KEEP_ROUNDS, check, cohort_of, next_stamp, state_of

from fedplug.errors import StoreError

DELAY = 0.15  # seconds until a kill at a random moment, at most
OF_SHARDS = ("prepare", "compaction", "move", "staging", "going back")
OF_A_DRIVER = ("commit", "compaction", "going back")
LONGEST = 8  # rounds and moves until a process that has not come to its phase is killed all the same


@ray.remote
def work(references, stamp, marker):
    """Does a worker's part of a round: reads the states, stores the next ones, and returns their names."""
    fetch(references)
    if marker is not None:
        with contextlib.suppress(FileExistsError):
            Path(marker).touch(exist_ok=False)
            os.kill(os.getpid(), signal.SIGKILL)
    return stage(references, [state_of(stamp)] * len(references))


class Log:
    """A file with a line for every kill."""

    def __init__(self, path):
        self.path = path
        self.slow = ""

    def tell(self, what, when):
        with self.path.open("a") as file:
            file.write(f"{what}: {when}{self.slow}\n")

    def lines(self):
        return len(self.path.read_text().splitlines()) if self.path.exists() else 0


class Training:
    """Goes on with a process of a store, whatever is killed, and knows the rounds at which it may be."""

    def __init__(self, store, possible, rng, log):
        self.store = store
        self.process = store.open_process("p", {})
        self.rng = rng
        self.log = log
        self.say(check(self.process, possible))

    def say(self, *possible):
        self.possible = possible
        print(*possible, flush=True)

    def check(self):
        self.say(check(self.process, self.possible))

    def next_round(self, marker=None):
        """Commits a round; with a marker, one of its workers is killed once."""
        number = 0 if self.process.last_round is None else self.process.last_round + 1
        stamps = next_stamp(self.process)
        cohort = cohort_of(number)
        references = self.process.references(cohort, state_of(0))
        half = len(cohort) // 2
        parts = [(references[:half], None), (references[half:], marker)]
        staged = ray.get([work.remote(part, stamps[-1], its_marker) for part, its_marker in parts])
        names = [name for part in staged for name in part]
        self.say(number - 1, number)
        self.process.commit(
            number,
            client_states=dict(zip(cohort, names, strict=True)),
            server_state=state_of(stamps[-1]),
            metadata=stamps,
        )
        self.say(number)

    def go_back(self):
        """Goes back to one of the kept rounds."""
        number = self.rng.choice(self.process.kept_rounds())
        self.say(self.process.last_round, number)
        self.process.rewind(number)
        self.say(number)

    def attempt(self, step, *arguments):
        """A round or a move, which may end with an error when something was killed."""
        try:
            step(*arguments)
        except (StoreError, ray.exceptions.RayError) as error:
            print("failed", " ".join(str(error).split())[:200], flush=True)

    def until_killed(self, kill_it, moves=0.2, rewinds=0.2):
        """Goes on until something was killed; before it takes too long, that is done here."""
        before, left = self.log.lines(), LONGEST
        while self.log.lines() == before:
            if self.rng.random() < moves:
                self.attempt(self.store.drain, {self.rng.choice(sorted(self.store.machines))})
            elif self.process.last_round is not None and self.rng.random() < rewinds:
                self.attempt(self.go_back)
            else:
                self.attempt(self.next_round)
            left -= 1
            if left <= 0:
                kill_it()

    def kill_worker(self, marker):
        self.attempt(self.next_round, marker)
        if marker.exists():
            self.log.tell("a worker", "between reading and staging")

    def kill_shards(self):
        """Kills mostly one shard. A shard that is to die is not waited for once more."""
        phase = self.rng.choice(OF_SHARDS)
        shards = sorted(self.process.placed().versions)
        for shard in self.rng.sample(shards, min(len(shards), self.rng.choice([1, 1, 1, 2]))):
            actor = self.store.fleet._actors[shard]
            if self.rng.random() < 0.4:
                kill_soon(pid_of(actor), "a shard", self.log, self.rng)
            else:
                tell = functools.partial(self.log.tell, "a shard")
                doom = functools.partial(die_at, self.rng.randrange(1, 6), during=phase, tell=tell)
                ray.get(actor.__ray_call__.remote(lambda self, doom: doom(), doom))
        moves, rewinds = (0.6 if phase == "move" else 0.2), (0.6 if phase == "going back" else 0.2)
        self.until_killed(lambda: kill(pid_of(actor), "a shard", "between rounds", self.log), moves, rewinds)

    def kill_driver(self):
        if self.rng.random() < 0.5:
            kill_soon(os.getpid(), "the driver", self.log, self.rng)
        else:
            tell = functools.partial(self.log.tell, "the driver")
            die_at(self.rng.randrange(1, 6), during=self.rng.choice(OF_A_DRIVER), tell=tell)
        while True:  # it may be a shard that dies, of those that were not waited for
            self.until_killed(lambda: kill(os.getpid(), "the driver", "between rounds", self.log))


def pid_of(actor):
    return ray.get(actor.__ray_call__.remote(lambda self: os.getpid()))


def kill(pid, what, when, log):
    with contextlib.suppress(ProcessLookupError):  # it died meanwhile, and was counted then
        os.kill(pid, 0)
        log.tell(what, when)
        os.kill(pid, signal.SIGKILL)


def kill_soon(pid, what, log, rng):
    threading.Timer(rng.uniform(0, DELAY), kill, (pid, what, "a random moment", log)).start()


def opened(folder, rng):
    return RayStore(Path(folder), replicas=rng.choice([0, 1]), keep_rounds=KEEP_ROUNDS)


def main(address, folder, seed, possible, kills):
    ray.init(address=address, log_to_driver=False, logging_level="error")
    for module in (sharded_committer, deaths):
        ray.cloudpickle.register_pickle_by_value(module)
    rng, log = random.Random(seed), Log(Path(f"{folder}.kills"))
    if rng.random() < 0.2:  # perhaps while it opens the store
        die_at(rng.randrange(1, 40), tell=functools.partial(log.tell, "the driver"))
    with contextlib.ExitStack() as slow, opened(folder, rng) as store:
        training = Training(store, possible, rng, log)
        if rng.random() < 0.3 and slow_disk.usable():
            log.slow = " on slow disks"
            for actor in store.fleet._actors.values():
                slow.enter_context(slow_disk.slowed_down(pid_of(actor)))
        for number in range(kills - 1):
            if rng.random() < 0.25:
                training.kill_worker(Path(f"{folder}-{seed}-{number}"))
            else:
                training.kill_shards()
            training.check()
        training.kill_driver()


if __name__ == "__main__":
    main(*sys.argv[1:4], [int(number) for number in sys.argv[4].split()], int(sys.argv[5]))
