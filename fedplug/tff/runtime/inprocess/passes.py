"""Runs all steps of each client in one pass over the clients of a round, and reduces their results.

A client's results are reduced and released while other clients still run, so memory does not grow with the
number of clients. Independent reductions share a pass.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

import tensorflow_federated as tff

from fedplug.tff.runtime.inprocess.intrinsics import Reduction
from fedplug.tff.runtime.inprocess.invocation import Invocation
from fedplug.tff.runtime.inprocess.values import Clients, Value, holds_clients, of_client

__all__ = ["ClientStep", "ClientWork", "Contribution", "Names", "ReductionStep", "Step", "Steps", "in_passes"]

Names = dict[str, Value]


@dataclass(frozen=True)
class Step:
    """A step that names values: `run(names, round)` returns them. `uses` are the names it refers to."""

    names: tuple[str, ...]
    uses: frozenset[str]
    run: Callable[[Names, Invocation], Sequence[Value]]


@dataclass(frozen=True)
class ClientStep(Step):
    """A step placed at clients: it maps one client's values to that client's results.

    `block` is the building block of its value.
    """

    block: tff.framework.ComputationBuildingBlock


@dataclass(frozen=True)
class Contribution:
    """One client's part of a reduction: `run(names, round)` returns it, and `block` is its building block."""

    uses: frozenset[str]
    run: Callable[[Names, Invocation], Value]
    block: tff.framework.ComputationBuildingBlock


@dataclass(frozen=True)
class ReductionStep:
    """A step that combines all clients' values: `make` returns the reduction, `value` one client's part."""

    names: tuple[str]
    uses: frozenset[str]
    make: Callable[[Names, Invocation], Reduction]
    value: Contribution
    intrinsic: str


AnyStep = Step | ReductionStep


class Steps:
    """Steps in order; a value is released after the last step that refers to it.

    Args:
        steps: The steps.
        wanted: Names of the values to keep.
    """

    def __init__(self, steps: Sequence[Step], wanted: Collection[str]) -> None:
        self._steps = steps
        self._used_up: list[list[str]] = []  # per step, the names without a later use
        needed = set(wanted)
        for step in reversed(steps):
            self._used_up.insert(0, [name for name in {*step.uses, *step.names} if name not in needed])
            needed |= step.uses

    def run(self, names: Names, invocation: Invocation) -> None:
        """Adds the values to `names`, and removes those without a later use."""
        for step, used_up in zip(self._steps, self._used_up, strict=True):
            names.update(zip(step.names, step.run(names, invocation), strict=True))
            for name in used_up:
                names.pop(name, None)


class ClientWork:
    """The work of one client in a pass. Another process can do it, because it consists of building blocks.

    Args:
        steps: The client's steps.
        contributions: The client's parts of the reductions.
        kept: Names of the results to keep.

    Attributes:
        uses: Names of the values that the client needs.
    """

    def __init__(
        self,
        steps: Sequence[ClientStep],
        contributions: Sequence[Contribution],
        kept: Sequence[str],
    ) -> None:
        self.steps, self.contributions, self.kept = steps, contributions, kept
        contributed = frozenset[str]().union(*(part.uses for part in contributions))
        made = {name for step in steps for name in step.names}
        self.uses = contributed.union(*(step.uses for step in steps)) - made
        self._steps = Steps(steps, {*kept, *contributed})

    def run(self, given: Names, invocation: Invocation) -> tuple[Value, ...]:
        """Returns the parts of the reductions and the values to keep, as two tuples.

        Args:
            given: The client's values by name.
            invocation: The client's part of the call.
        """
        scope = dict(given)
        self._steps.run(scope, invocation)
        contributed = [part.run(scope, invocation) for part in self.contributions]
        return tuple(contributed), tuple([scope[name] for name in self.kept])


def in_passes(steps: Sequence[AnyStep], wanted: frozenset[str]) -> Steps:
    """Orders steps so that they take few passes over the clients.

    Stage 0 needs no reduction, stage 1 needs one of stage 0, and so on. A stage ends with its pass.

    Args:
        steps: Steps that use names of earlier steps, or names from outside. No name is defined twice, or
            after a use of the same name from outside.
        wanted: Names of the values to keep.
    """
    makers: dict[str, AnyStep] = {}
    stage_of: dict[str, int] = {}
    stages: list[list[AnyStep]] = []
    for step in steps:
        stage = max(
            (stage_of[n] + _is_after_pass(step, makers[n]) for n in step.uses & makers.keys()), default=0
        )
        makers |= dict.fromkeys(step.names, step)
        stage_of |= dict.fromkeys(step.names, stage)
        stages += [[]] if stage == len(stages) else []
        stages[stage].append(step)
    ordered: list[Step] = []
    for members in stages:
        ordered += [step for step in members if isinstance(step, Step) and not _belongs_to_clients(step)]
        if together := [step for step in members if _belongs_to_clients(step)]:
            elsewhere = [step.uses for step in steps if step not in together]
            ordered.append(_pass(together, frozenset[str]().union(*elsewhere), wanted))
    return Steps(ordered, wanted)


def _belongs_to_clients(step: AnyStep) -> bool:
    return isinstance(step, ClientStep | ReductionStep)


def _is_after_pass(step: AnyStep, maker: AnyStep) -> bool:
    """Returns whether `step`, which uses a value of `maker`, must come after the pass with `maker`."""
    return isinstance(maker, ReductionStep) or (_belongs_to_clients(maker) and not _belongs_to_clients(step))


def _pass(steps: Sequence[AnyStep], elsewhere: frozenset[str], wanted: frozenset[str]) -> Step:
    """Returns the step that runs `steps`, which belong to clients, in one pass.

    Args:
        steps: The steps.
        elsewhere: Names that other steps use.
        wanted: Names that the result uses.
    """
    clients = [step for step in steps if isinstance(step, ClientStep)]
    reductions = [step for step in steps if isinstance(step, ReductionStep)]
    kept = [name for step in clients for name in step.names if name in elsewhere | wanted]
    of_one = ClientWork(clients, [step.value for step in reductions], kept)
    uses = frozenset[str]().union(*(step.uses for step in steps))

    def run(names: Names, invocation: Invocation) -> Sequence[Value]:
        given = {name: names[name] for name in of_one.uses if name in names}
        theirs = {name for name, value in given.items() if holds_clients(value)}
        made = [step.make(names, invocation) for step in reductions]
        totals = [reduction.zero for reduction in made]
        columns = [Clients() for _ in kept]

        def work(client: int) -> tuple[Value, ...]:
            mine = {n: of_client(value, client) if n in theirs else value for n, value in given.items()}
            return of_one.run(mine, invocation.of(client))

        def take(client: int, result: tuple[Value, ...]) -> None:
            contributed, keep = result
            mine = invocation.of(client)
            for i, (step, reduction) in enumerate(zip(reductions, made, strict=True)):
                with mine.naming_failures(step.intrinsic):
                    totals[i] = reduction.add(totals[i], contributed[i])
            for column, value in zip(columns, keep, strict=True):
                column.append(value)

        invocation.each(invocation.num_clients, invocation.elsewhere(of_one, given) or work, take)
        return [*columns, *(r.report(total) for r, total in zip(made, totals, strict=True))]

    names = (*kept, *(name for step in reductions for name in step.names))
    return Step(names, uses - {name for step in clients for name in step.names}, run)
