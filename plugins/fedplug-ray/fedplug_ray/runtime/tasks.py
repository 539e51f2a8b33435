"""Tasks, their dependencies and their repetitions; `dispatch` chooses the workers.

A task is a pure function of other tasks' results. It is repeated if a worker dies, or if a result is lost
with a machine. A task has one result, so a repeated task never counts twice.
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
    """An argument of a task that is not the result of another task is lost."""


@dataclass(eq=False)
class Task:
    """A piece of work.

    Attributes:
        label: Description of the task in errors.
        submit: A function that submits the task to a worker under a number. It returns references to the
            report, to the result, and to other values to keep.
        needs: Tasks that must be done first.
        consumes: Whether the task releases the results of `needs`.
        node: Id of the preferred node; "" if there is none.
        size: Number of slices in the task.
        may_be_lost: Whether the last failure sets `lost`, instead of raising an error.
        result: The result, from the end of the task until it is consumed.
        others: Other values to keep.
        told: The report of the task.
        done: Whether the task succeeded.
        lost: Whether the task was given up.
        tries: Number of failures.
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
        """Returns whether a needed task no longer blocks this one."""
        return need.lost or (need.done and not (self.consumes and need.result is None))


Choose: TypeAlias = Callable[[Task, bool], tuple[list[Task], list[Task]]]


class Run:
    """A run of tasks: which can begin, which are running, and which must be repeated.

    Args:
        tasks: Tasks, which may need one another and tasks of earlier runs.
        idle: A function that returns the nodes with idle workers.
        give: A function that gives a task to a worker of such a node.
        retries: Number of further tries of a failed task.
        choose: A function of a task that has ended, and of whether it succeeded. It returns the tasks to take
            and the tasks to leave out, as if they were given up; others wait. None: every task is taken.

    Attributes:
        left_out: Tasks that were left out; they may still be running.
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
        self._waiting: dict[Task, list[Task]] = {}  # a task, and the tasks that need it
        left, under_way = set(tasks), set[Task]()
        self._left, self._under_way = left, under_way
        # Without a reference to self: a cycle would keep the tasks' values until garbage collection.
        self._can_begin = ReadyTasks[Task](lambda task: task in left and task not in under_way)
        for task in self._order:
            self._require(task)

    @property
    def left(self) -> bool:
        """Whether there are tasks left."""
        return bool(self._left)

    def begin(self) -> None:
        """Gives tasks to workers until either run out."""
        while chosen := self._can_begin.pop(self._idle()):
            task, node = chosen
            self._give(task, node)
            self._under_way.add(task)

    def take(self, task: Task, taken: Sequence[Any], told: Any, error: BaseException | None) -> None:
        """Records the end of a task.

        Args:
            task: The task; it is ignored if this run has not begun it.
            taken: The references that its submission returned, without the first.
            told: The report of the task.
            error: The task's error, or None.

        Raises:
            WorkerError: The task failed too often.
            BaseException: The task raised it.
        """
        if task not in self._under_way:
            return
        self._under_way.remove(task)
        if task not in self._left:
            return  # the task was left out
        if error is None:
            task.result, *task.others = taken
            task.told = told
            if task.consumes:
                for need in task.needs:
                    need.result = None
            # A coordinator reports lost slices; if tasks are chosen, each has one slice.
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
        """Lets a task begin as soon as the tasks that it needs are done."""
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
            position = self._order.get(task, -1)  # a task of an earlier run blocks all others
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
        """Repeats all tasks that a task needs, because it is not known whose result was lost."""
        if not task.needs:
            raise InputLostError(
                f"{task.label}: a value that it was given as a handle is lost with the machine, or the "
                "coordinator, that held it; pass the value itself, for instance from a store"
            ) from error
        for need in task.needs:
            need.done, need.result = False, None


def _is_lost(error: BaseException) -> bool:
    """Returns whether the error says that an argument of a task is lost."""
    cause = error.cause if isinstance(error, ray.exceptions.RayTaskError) else error
    return isinstance(cause, ray.exceptions.ObjectLostError | InputLostError)


def one_line(error: BaseException | str) -> str:
    """Returns an error's text as one line of at most 500 characters."""
    return " ".join(str(error).split())[:500]
