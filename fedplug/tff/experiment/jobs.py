"""Trains in several processes: workers compute. This process alone has the stores, logs and progress line.

Workers access these over a pipe, see `_Remote`. A store therefore has only one user, and folders do not
depend on the number of jobs. A worker may be stopped at any time, because rounds are committed atomically.
It ends itself when this process is gone.
"""

from __future__ import annotations

import contextlib
import functools
import multiprocessing
import os
import signal
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from multiprocessing import util
from multiprocessing.connection import Connection, wait
from typing import Any, NamedTuple

import numpy as np

import fedplug
from fedplug.errors import FedplugError, WorkerError
from fedplug.stores.base import ProcessState, StateStore, Tensors
from fedplug.tff.experiment.progress import TrainingProgress
from fedplug.tff.experiment.runner import Built, Experiment, Folder, Plan, TrainingId
from fedplug.tff.runtime.graphs.devices import hide_gpus

__all__ = ["Jobs"]


class _Build(NamedTuple):
    """A request to a worker to build the process of a run."""

    plan: int
    run: str


class _Train(NamedTuple):
    """A request to a worker to run a training."""

    plan: int
    training: TrainingId

    @property
    def build(self) -> _Build:
        return _Build(self.plan, self.training.run)


class _Call(NamedTuple):
    """A worker's request for an attribute or a method call of one of its training's objects here."""

    target: str
    name: str
    arguments: tuple[Any, ...] = ()
    keywords: Mapping[str, Any] = {}


class _Done(NamedTuple):
    """The result of a request."""

    value: Any = None


class _Failed(NamedTuple):
    """The error of a request."""

    kind: type[BaseException]
    text: str


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
        self._workers: dict[Connection, Any] = {}
        self._built: dict[Connection, set[_Build]] = {}
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
        tasks = [_Build(i, run) for i, plan in enumerate(self._plans) for run in plan.runs]
        built = self._do(tasks, _nothing_to_ask)
        return [{run: built[_Build(i, run)] for run in plan.runs} for i, plan in enumerate(self._plans)]

    def train(
        self, folders: Sequence[Folder], lines: Sequence[Mapping[TrainingId, TrainingProgress]]
    ) -> None:
        """Runs all trainings. Processes from `build` are used again.

        Raises:
            FedplugError: A training failed. See `Experiment.train`.
            WorkerError: A worker failed in another way, or died.
        """
        tasks = [_Train(i, each) for i, plan in enumerate(self._plans) for each in plan.trainings]

        def ask(task: Any, call: _Call, opened: dict[str, ProcessState]) -> Any:
            folder = folders[task.plan]
            targets = {
                "store": folder.store,
                "log": folder.log,
                "progress": lines[task.plan][task.training],
                **opened,
            }
            value = getattr(targets[call.target], call.name)
            if callable(value):
                value = value(*call.arguments, **call.keywords)
            if isinstance(value, ProcessState):
                opened["process"] = value
                return None
            return list(value) if isinstance(value, Iterator) else value  # iterators cannot be sent

        self._do(tasks, ask)

    def _do(
        self, tasks: Sequence[Any], ask: Callable[[Any, _Call, dict[str, ProcessState]], Any]
    ) -> dict[Any, Any]:
        """Distributes the tasks, one at a time to each worker, serves requests, and returns the results."""
        waiting, results = list(tasks), {}
        at_work: dict[Connection, tuple[Any, dict[str, ProcessState]]] = {}
        idle = list(self._workers)
        while waiting or at_work:
            while waiting and idle:
                connection = idle.pop(0)
                task = self._next(waiting, connection)
                at_work[connection] = task, {}
                self._send(connection, task)
            for connection in self._ready(at_work):
                task, opened = at_work[connection]
                message = self._receive(connection)
                if isinstance(message, _Call):
                    self._send(connection, _answer(functools.partial(ask, task, message, opened)))
                elif isinstance(message, _Done):
                    results[task] = message.value
                    del at_work[connection]
                    idle.append(connection)
                else:
                    raise _error(message)
        return results

    def _next(self, waiting: list[Any], connection: Connection) -> Any:
        """Removes and returns the first task whose process the worker has built, else the first task."""
        built = self._built[connection]
        task = next(
            (each for each in waiting if isinstance(each, _Train) and each.build in built), waiting[0]
        )
        waiting.remove(task)
        built.add(task.build if isinstance(task, _Train) else task)
        return task

    def _ready(self, connections: Iterable[Connection]) -> list[Connection]:
        ready = set(wait(list(connections)))
        return [connection for connection in connections if connection in ready]

    def _send(self, connection: Connection, message: Any) -> None:
        try:
            connection.send(message)
        except OSError as error:
            raise self._died(connection) from error

    def _receive(self, connection: Connection) -> Any:
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


def _nothing_to_ask(task: Any, call: _Call, opened: Any) -> Any:
    raise AssertionError(f"{task} needs no {call.target}")


def _answer(ask: Callable[[], Any]) -> _Done | _Failed:
    try:
        return _Done(ask())
    except FedplugError as error:
        return _Failed(type(error), str(error))


def _error(failed: _Failed) -> BaseException:
    """Recreates an error of another process, with its class and text."""
    error = failed.kind.__new__(failed.kind)
    error.args = (failed.text,)
    return error


def _work(connection: Connection, plans: Sequence[Plan]) -> None:
    """Runs a worker: serves requests until the parent closes the connection."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all processes; the parent ends this one
    hide_gpus()
    experiments: dict[int, Experiment] = {}
    with contextlib.suppress(EOFError, BrokenPipeError, ConnectionResetError):
        while True:
            task = connection.recv()
            try:
                if task.plan not in experiments:
                    experiments[task.plan] = Experiment(plans[task.plan])
                value = _done(task, experiments[task.plan], connection)
            except (EOFError, BrokenPipeError, ConnectionResetError):
                raise
            except FedplugError as error:
                connection.send(_Failed(type(error), str(error)))
            except Exception:
                connection.send(_Failed(WorkerError, f"a worker process failed: {traceback.format_exc()}"))
            else:
                connection.send(_Done(value))
    # Runs after the observers' exit handlers, and skips TFF's error messages at interpreter shutdown.
    util.Finalize(None, os._exit, args=(0,), exitpriority=-1)


def _done(task: _Build | _Train, experiment: Experiment, connection: Connection) -> Any:
    with fedplug.use_runtime(experiment.plan.config.runtime):
        if isinstance(task, _Build):
            return Built.of(experiment.process(task.run))
        remote = functools.partial(_Remote, connection)
        store = _RemoteStore(remote("store"), remote("process"))
        log, progress = _RemoteLog(connection, "log"), _RemoteProgress(connection, "progress")
        experiment.train(task.training, store, log, progress)
        return None


class _Remote:
    """A proxy of an object in the parent process: method calls run there."""

    def __init__(self, connection: Connection, target: str) -> None:
        self._connection = connection
        self._target = target

    def value(self, name: str, *arguments: Any, **keywords: Any) -> Any:
        """Returns an attribute, or the result of a method.

        Raises:
            FedplugError: The method raised it.
        """
        self._connection.send(_Call(self._target, name, arguments, keywords))
        answer = self._connection.recv()
        if isinstance(answer, _Failed):
            raise _error(answer)
        return answer.value


class _RemoteLog(_Remote):
    """A proxy of the log in the experiment's folder."""

    def rows(self, run: str, seed: int) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.value("rows", run, seed)
        return found

    def append(self, row: dict[str, Any]) -> None:
        self.value("append", row)


class _RemoteProgress(_Remote):
    """A proxy of the training's part of the progress line."""

    def show(self, row: Mapping[str, Any]) -> None:
        self.value("show", row)

    def advance(self) -> None:
        self.value("advance")


class _RemoteStore(StateStore):
    """A proxy of the store in the experiment's folder, for one training."""

    name = "remote"

    def __init__(self, store: _Remote, process: _Remote) -> None:
        self._store = store
        self._process = process

    @classmethod
    def from_url(cls, url: str) -> _RemoteStore:
        raise NotImplementedError(url)

    def get_config(self) -> dict[str, Any]:
        config: dict[str, Any] = self._store.value("get_config")
        return config

    def open_process(self, process_id: str, signature: Mapping[str, Any] | None = None) -> ProcessState:
        self._store.value("open_process", process_id, signature)
        return _RemoteProcess(self._process)

    def processes(self) -> list[str]:
        found: list[str] = self._store.value("processes")
        return found

    def close(self) -> None:
        """Does nothing: the parent process closes the store."""


class _RemoteProcess(ProcessState):
    def __init__(self, remote: _Remote) -> None:
        self._remote = remote

    @property
    def signature(self) -> Any:
        return self._remote.value("signature")

    @property
    def last_round(self) -> int | None:
        found: int | None = self._remote.value("last_round")
        return found

    @property
    def metadata(self) -> Any:
        return self._remote.value("metadata")

    def client_ids(self) -> list[str]:
        found: list[str] = self._remote.value("client_ids")
        return found

    def read_clients(self, client_ids: Iterable[str]) -> dict[str, dict[str, np.ndarray[Any, Any]]]:
        found: dict[str, dict[str, np.ndarray[Any, Any]]] = self._remote.value(
            "read_clients", list(client_ids)
        )
        return found

    def read_server(self) -> dict[str, np.ndarray[Any, Any]] | None:
        found: dict[str, np.ndarray[Any, Any]] | None = self._remote.value("read_server")
        return found

    def commit(
        self,
        round_num: int,
        *,
        client_states: Mapping[str, Tensors],
        server_state: Tensors,
        metadata: Any = None,
    ) -> None:
        self._remote.value(
            "commit", round_num, client_states=client_states, server_state=server_state, metadata=metadata
        )

    def damage(self) -> Iterator[str]:
        found: list[str] = self._remote.value("damage")
        return iter(found)
