"""What is to be done, what has to come first, and what has to be done again; not by whom.

A task is a pure function of other tasks' results, so it can be repeated: when a worker dies, when a machine
takes a result with it. Results are counted by task, so nothing counts twice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import ray

from fedplug.errors import WorkerError
from fedplug_ray.runtime.ready_tasks import ReadyTasks

__all__ = ["Choose", "InputLostError", "Run", "Task", "one_line"]


class InputLostError(WorkerError):
    """A value that a task was given, and that is no other task's result, is lost."""


@dataclass(eq=False)
class Task:
    """A piece of work.

    Attributes:
        label: What an error calls it.
        submit: Hands it to a worker under a number; returns references: one to what it tells at its end,
            its result, and whatever else there is to keep of it.
        needs: Tasks that come first.
        consumes: Whether the results of `needs` are used up by it, and released.
        node: The id of the node on which it is best done, "" where that does not matter.
        size: Of the work, in slices.
        may_be_lost: Whether, when all tries failed, `lost` is set instead of an error raised.
        result: The result, once it is done and until it is consumed.
        others: What else there is to keep of it.
        told: What it told at its end.
        done: Whether it ended well.
        lost: Whether it was given up.
        tries: How often it failed.
    """

    label: str
    submit: Callable[[Any, int], Sequence[Any]]
    needs: Sequence[Task] = ()
    consumes: bool = False
    node: str = ""
    size: int = 1
    may_be_lost: bool = False
    result: ray.ObjectRef[Any] | None = None
    others: Sequence[Any] = ()
    told: Any = None
    done: bool = False
    lost: bool = False
    tries: int = 0

    def has_what(self, need: Task) -> bool:
        """Whether one of the tasks it needs is there for it."""
        return need.lost or (need.done and not (self.consumes and need.result is None))


Choose: TypeAlias = Callable[[Task, bool], tuple[list[Task], list[Task]]]


class Run:
    """Tasks to be done: which can begin, which are under way, which have to be done again.

    Args:
        tasks: They may need one another, and tasks of earlier runs.
        idle: Returns the nodes that have workers with nothing to do.
        give: Gives a task to a worker of such a node.
        retries: How often a task is tried again.
        choose: Told of a task's end, and whether it was done or given up, returns which are to be taken, and
            which left out, as if they had been given up; others wait. None: every task is taken.

    Attributes:
        left_out: Tasks that were left out, and may be under way.
    """

    def __init__(
        self,
        tasks: Sequence[Task],
        idle: Callable[[], Sequence[str]],
        give: Callable[[Task, str], None],
        retries: int,
        choose: Choose | None = None,
    ) -> None:
        self.left_out: set[Task] = set()
        self._idle = idle
        self._give = give
        self._retries = retries
        self._choose = choose
        self._order = {task: position for position, task in enumerate(tasks)}
        self._waiting: dict[Task, list[Task]] = {}  # a task, and those that need it
        left, under_way = set(tasks), set[Task]()
        self._left, self._under_way = left, under_way
        # Not by way of self: a circle would keep what tasks hold until garbage is collected.
        self._can_begin = ReadyTasks[Task](lambda task: task in left and task not in under_way)
        for task in self._order:
            self._require(task)

    @property
    def left(self) -> bool:
        """Whether anything is left to do."""
        return bool(self._left)

    def begin(self) -> None:
        """Gives tasks to workers, as long as there are both."""
        while chosen := self._can_begin.pop(self._idle()):
            task, node = chosen
            self._give(task, node)
            self._under_way.add(task)

    def take(self, task: Task, taken: Sequence[Any], told: Any, error: BaseException | None) -> None:
        """Takes the end of a task that was given to a worker.

        Args:
            task: The task; those that are not under way, as of a run that was broken off, are passed over.
            taken: What its submission returned, but for the first.
            told: What it told at its end.
            error: What it ended with, or None.

        Raises:
            WorkerError: The task failed too often.
            BaseException: What it raised.
        """
        if task not in self._under_way:
            return
        self._under_way.remove(task)
        if task not in self._left:
            return  # it was left out
        if error is None:
            task.result, *task.others = taken
            task.told = told
            if task.consumes:
                for need in task.needs:
                    need.result = None
            # A coordinator tells which slices it gave up; those among which is chosen come one by one.
            self._decide(task, well=not (self._choose and told))
        elif _is_lost(error):
            self._count_failure(task, error)
            if not task.lost:
                self._redo_needs(task, error)
        elif isinstance(error, ray.exceptions.RayTaskError):
            raise error.cause from error
        else:
            self._count_failure(task, error)
        if error is not None and task in self._left:
            self._require(task)

    def _require(self, task: Task) -> None:
        """Sees to it that a task begins as soon as what it needs is there."""
        self._left.add(task)
        if task.consumes and all(need.lost for need in task.needs):
            task.lost = True
            self._finish(task)
            return
        missing = [need for need in task.needs if not task.has_what(need)]
        for need in missing:
            self._waiting.setdefault(need, []).append(task)
            if need not in self._left:
                need.done = False
                self._require(need)
        if not missing:
            position = self._order.get(task, -1)  # one of an earlier call holds up all others
            self._can_begin.push(position, task, task.node)

    def _decide(self, task: Task, *, well: bool) -> None:
        taken, left_out = self._choose(task, well) if self._choose else ([task] * well, [])
        for each in taken:
            each.done = True
            self._finish(each)
        self.left_out.update(left_out)
        for each in [*left_out, *[task] * (not well)]:
            each.lost, each.result = True, None
            self._finish(each)

    def _finish(self, task: Task) -> None:
        if task not in self._left:
            return
        self._left.remove(task)
        for other in self._waiting.pop(task, []):
            if other in self._left and other not in self._under_way and all(map(other.has_what, other.needs)):
                self._require(other)

    def _count_failure(self, task: Task, error: BaseException) -> None:
        task.tries += 1
        if task.tries <= self._retries:
            return
        if not task.may_be_lost:
            raise WorkerError(f"{task.label}: failed {task.tries} times, the last time: {one_line(error)}")
        self._decide(task, well=False)

    def _redo_needs(self, task: Task, error: BaseException) -> None:
        """Lets those whose results a task needs run again; which result was lost is not known."""
        if not task.needs:
            raise InputLostError(
                f"{task.label}: a value that it was given as a handle is lost with the machine, or the "
                "coordinator, that held it; give it the value itself, for instance from a store"
            ) from error
        for need in task.needs:
            need.done, need.result = False, None


def _is_lost(error: BaseException) -> bool:
    """Whether a value that a task was given is lost."""
    cause = error.cause if isinstance(error, ray.exceptions.RayTaskError) else error
    return isinstance(cause, ray.exceptions.ObjectLostError | InputLostError)


def one_line(error: BaseException | str) -> str:
    """What an error says, short enough to be a part of another one."""
    return " ".join(str(error).split())[:500]
