"""Runs experiments: checks and builds everything first, then trains, in one process or several.

With several processes, workers compute. This process alone has the stores, logs and progress line, which
workers access over a pipe, see `_remote`. A store therefore has only one user, and folders do not depend on
the number of jobs. A worker may be stopped at any time, because rounds are committed atomically. It ends
itself when this process is gone.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import multiprocessing
import os
import signal
import traceback
from collections.abc import Callable, Mapping, Sequence
from multiprocessing import util
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import NamedTuple

import fedplug
from fedplug.errors import ConfigError, FedplugError, WorkerError
from fedplug.stores.base import ProcessState, StateStore
from fedplug.tff.experiment import runner
from fedplug.tff.experiment.progress import Progress, TrainingProgress
from fedplug.tff.experiment.records import MetricsLog
from fedplug.tff.experiment.runner import Built, Experiment, Folder, Plan, TrainingId
from fedplug.tff.runtime.graphs.devices import hide_gpus
from fedplug.tff.structures import Structure

__all__ = ["Jobs", "run_experiments"]


def run_experiments(plans: Sequence[Plan], jobs: int = 1) -> None:
    """Runs or resumes experiments, one training at a time or several in parallel, and writes the reports.

    Results do not depend on the number of jobs: trainings share nothing, and this process is the only user of
    stores and logs.

    Args:
        plans: The plans, with a folder each.
        jobs: Number of trainings to run in parallel. Above 1, each runs in a worker process.

    Raises:
        FedplugError: An error of `Experiment` or `Folder`. Everything is checked before anything is written.
    """
    paths = [plan.folder.resolve() for plan in plans]
    for i, path in enumerate(paths):
        if path in paths[:i]:
            raise ConfigError(f"two configurations have the name {path.name!r}; rename one of them")
    experiments = [Experiment(plan) for plan in plans]
    fingerprints = [experiment.fingerprints() for experiment in experiments]  # once, not in each worker
    jobs = min(jobs, sum(len(plan.trainings) for plan in plans))
    with contextlib.ExitStack() as stack:
        workers = stack.enter_context(Jobs(plans, jobs)) if jobs > 1 else None
        built = workers.build() if workers else [_build(experiment) for experiment in experiments]
        folders = [
            stack.enter_context(contextlib.closing(Folder(*arguments)))
            for arguments in zip(plans, built, fingerprints, strict=True)
        ]
        progress, lines = _progress(plans, folders)
        with contextlib.closing(progress):
            if workers:
                workers.train(folders, lines)
            else:
                for experiment, folder, of_plan in zip(experiments, folders, lines, strict=True):
                    _train(experiment, folder, of_plan)
        for plan in plans:
            runner.write_results(plan.folder)


def _train(experiment: Experiment, folder: Folder, lines: Mapping[TrainingId, TrainingProgress]) -> None:
    with fedplug.use_runtime(experiment.plan.config.runtime):
        for training, line in lines.items():
            experiment.train(training, folder.store, folder.log, line)


def _build(experiment: Experiment) -> dict[str, Built]:
    with fedplug.use_runtime(experiment.plan.config.runtime):
        return {name: Built.of(experiment.process(name)) for name in experiment.plan.runs}


def _progress(
    plans: Sequence[Plan], folders: Sequence[Folder]
) -> tuple[Progress, list[dict[TrainingId, TrainingProgress]]]:
    """Returns the progress line, and the part of every training in it."""
    total = sum(plan.config.rounds * len(plan.trainings) for plan in plans)
    done = sum(
        min(rounds, plan.config.rounds)
        for plan, folder in zip(plans, folders, strict=True)
        for rounds in folder.done.values()
    )
    if done:
        print(f"resuming after {done} of {total} rounds", flush=True)
    names = [{each: _name(plan, each, len(plans) > 1) for each in plan.trainings} for plan in plans]
    progress = Progress(total, done, max(len(name) for of_plan in names for name in of_plan.values()))
    return progress, [
        {each: progress.training(name, folder.sent(each)) for each, name in of_plan.items()}
        for of_plan, folder in zip(names, folders, strict=True)
    ]


def _name(plan: Plan, training: TrainingId, several: bool) -> str:
    name = f"{plan.config.name}: {training.run}" if several else training.run
    return f"{name} seed {training.seed}" if plan.config.repeats > 1 else name


class _Task(NamedTuple):
    """A request to a worker: to build the process of a run, or to train it with a seed."""

    plan: int
    run: str
    seed: int | None = None


class _Call(NamedTuple):
    """A worker's request for an attribute or a method call of one of its training's objects here."""

    target: str
    name: str
    arguments: tuple[object, ...] = ()
    keywords: Mapping[str, object] = {}


class _Done(NamedTuple):
    """The result of a request. The answer to one that failed is its error."""

    value: Structure = None


class Jobs:
    """A pool of worker processes, which end with the ``with`` block."""

    def __init__(self, plans: Sequence[Plan], number: int) -> None:
        """Starts the workers.

        Args:
            plans: All plans. Every worker can run every training.
            number: Number of workers.
        """
        self._plans = plans
        # TensorFlow does not survive a fork.
        context = multiprocessing.get_context("spawn")
        self._workers: dict[Connection, BaseProcess] = {}
        self._built: dict[Connection, set[tuple[int, str]]] = {}
        for _ in range(number):
            ours, theirs = context.Pipe()
            worker = context.Process(target=_work, args=(theirs, plans))
            worker.start()
            theirs.close()
            self._workers[ours] = worker
            self._built[ours] = set()

    def __enter__(self) -> Jobs:
        return self

    def __exit__(self, failure: object, *_: object) -> None:
        """Ends the workers after their observers have finished; after an error, ends them at once."""
        for connection, worker in self._workers.items():
            if failure is not None:
                worker.terminate()
            connection.close()
        for worker in self._workers.values():
            worker.join()

    def build(self) -> list[dict[str, Built]]:
        """Builds the process of every run once, and returns the descriptions by plan and run name.

        Raises:
            FedplugError: A process cannot be built. See `Experiment.process`.
            WorkerError: A worker failed in another way, or died.
        """
        tasks = [_Task(i, run) for i, plan in enumerate(self._plans) for run in plan.runs]
        built = self._do(tasks, lambda task: {})
        return [{run: built[_Task(i, run)] for run in plan.runs} for i, plan in enumerate(self._plans)]

    def train(
        self, folders: Sequence[Folder], lines: Sequence[Mapping[TrainingId, TrainingProgress]]
    ) -> None:
        """Runs all trainings. Processes from `build` are used again.

        Raises:
            FedplugError: A training failed. See `Experiment.train`.
            WorkerError: A worker failed in another way, or died.
        """

        def targets(task: _Task) -> dict[str, object]:
            assert task.seed is not None
            training, folder = TrainingId(task.run, task.seed), folders[task.plan]
            progress = lines[task.plan][training]
            return {"process": folder.states[training], "log": folder.log, "progress": progress}

        self._do([_Task(i, *each) for i, plan in enumerate(self._plans) for each in plan.trainings], targets)

    def _do(
        self, tasks: Sequence[_Task], targets: Callable[[_Task], Mapping[str, object]]
    ) -> dict[_Task, Structure]:
        """Distributes the tasks, one at a time to each worker, serves requests, and returns the results."""
        waiting, results = list(tasks), {}
        at_work: dict[Connection, _Task] = {}
        idle = list(self._workers)
        while waiting or at_work:
            while waiting and idle:
                connection = idle.pop(0)
                at_work[connection] = self._next(waiting, connection)
                self._send(connection, at_work[connection])
            for ready in wait(list(at_work)):
                assert isinstance(ready, Connection)
                task, message = at_work[ready], self._receive(ready)
                if isinstance(message, _Call):
                    self._send(ready, _answer(targets(task)[message.target], message))
                elif isinstance(message, _Done):
                    results[task] = message.value
                    del at_work[ready]
                    idle.append(ready)
                else:
                    raise message
        return results

    def _next(self, waiting: list[_Task], connection: Connection) -> _Task:
        """Removes and returns the first task whose process the worker has built, else the first task."""
        built = self._built[connection]
        task = next((each for each in waiting if each[:2] in built), waiting[0])
        waiting.remove(task)
        built.add(task[:2])
        return task

    def _send(self, connection: Connection, message: object) -> None:
        try:
            connection.send(message)
        except OSError as error:
            raise self._died(connection) from error

    def _receive(self, connection: Connection) -> Structure:
        try:
            return connection.recv()
        except (EOFError, OSError) as error:
            raise self._died(connection) from error

    def _died(self, connection: Connection) -> WorkerError:
        worker = self._workers[connection]
        worker.join(10)
        return WorkerError(
            f"a worker process ended with exit code {worker.exitcode}; finished rounds are kept, and the "
            "same command resumes; use fewer --jobs if memory ran out"
        )


def _answer(target: object, call: _Call) -> _Done | FedplugError:
    try:
        value = getattr(target, call.name)
        return _Done(value(*call.arguments, **call.keywords) if callable(value) else value)
    except FedplugError as error:
        return error


def _work(connection: Connection, plans: Sequence[Plan]) -> None:
    """Runs a worker: serves requests until the parent closes the connection."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all processes; the parent ends this one
    hide_gpus()
    experiment = functools.cache(lambda plan: Experiment(plans[plan]))
    with contextlib.suppress(EOFError, BrokenPipeError, ConnectionResetError):
        while True:
            task = connection.recv()
            answer: _Done | FedplugError
            try:
                answer = _Done(_result(task, experiment(task.plan), connection))
            except (EOFError, BrokenPipeError, ConnectionResetError):
                raise
            except FedplugError as error:
                answer = error
            except Exception:
                answer = WorkerError(f"a worker process failed: {traceback.format_exc()}")
            connection.send(answer)
    # Runs after the observers' exit handlers, and skips TFF's error messages at interpreter shutdown.
    util.Finalize(None, os._exit, args=(0,), exitpriority=-1)


def _result(task: _Task, experiment: Experiment, connection: Connection) -> Built | None:
    with fedplug.use_runtime(experiment.plan.config.runtime):
        if task.seed is None:
            return Built.of(experiment.process(task.run))
        store, log, progress = (
            _remote(kind, connection, target)
            for kind, target in ((StateStore, "store"), (MetricsLog, "log"), (TrainingProgress, "progress"))
        )
        experiment.train(TrainingId(task.run, task.seed), store, log, progress)
        return None


def _remote(kind: type[object], connection: Connection, target: str) -> Structure:
    """Returns a proxy of an object of the parent process, where its methods and properties are evaluated.

    They raise the `FedplugError` that the object raises there.
    """

    def evaluated(name: str) -> Structure:
        def ask(self: object, *arguments: object, **keywords: object) -> Structure:
            if name == "open_process":  # `Folder` has opened that of the training
                return _remote(ProcessState, connection, "process")
            connection.send(_Call(target, name, arguments, keywords))
            answer = connection.recv()
            if isinstance(answer, FedplugError):
                raise answer
            return answer.value

        return property(ask) if isinstance(getattr(kind, name), property) else ask

    public = [
        name
        for name, member in inspect.getmembers(kind)
        if not name.startswith("_") and (callable(member) or isinstance(member, property))
    ]
    proxy = type(f"Remote{kind.__name__}", (kind,), {name: evaluated(name) for name in public})
    return object.__new__(proxy)
