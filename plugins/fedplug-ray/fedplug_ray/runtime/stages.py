"""Cuts a compiled computation into steps of the driver and stages that run for every slice of clients.

A computation in call-dominant form is a list of named steps. Steps placed at the clients, and the first step
of every aggregation (up to its accumulator), form *stages*: TFF computations over any number of clients. The
driver runs the other steps. Stage 0 needs no aggregation, stage 1 needs one of stage 0, and so on. Nearly
every learning process has one stage.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import tensorflow_federated as tff

from fedplug.tff.runtime.inprocess.planner import Plan, plan
from fedplug_ray.runtime.building_blocks import (
    Block,
    CannotCutError,
    Leaf,
    leaves_of,
    looks_up,
    uri_of,
    varies,
    with_leaves,
)
from fedplug_ray.runtime.partial_aggregation import PartialAggregation, partial_aggregation_of

__all__ = ["DriverStep", "Stage", "Staged", "cut"]

_SLICE, _PAIR = "fedplug_slice", "fedplug_pair"  # parameter names that no computation uses

_PER_CLIENT = {
    "federated_eval_at_clients",
    "federated_map",
    "federated_secure_select",
    "federated_select",
    "federated_zip_at_clients",
}


@dataclass(frozen=True)
class DriverStep:
    """A named value that the driver computes."""

    name: str
    plan: Plan


@dataclass(frozen=True, eq=False)
class Stage:
    """The computation of one slice. Stages compare by identity.

    Attributes:
        inputs: Names and types of the driver's values that the stage reads, the same for every slice.
        clients: Names and types of the clients' values that the stage reads.
        keeps: Names and types of the clients' values that later steps read.
        accumulators: Names and types of the merged accumulators.
        run: `<inputs..., clients...> -> <<accumulators...>, keeps...>`, a serialized computation.
        merge: `<<accumulators...>, <accumulators...>> -> <accumulators...>`, a serialized computation.
    """

    inputs: tuple[tuple[str, tff.Type], ...]
    clients: tuple[tuple[str, tff.Type], ...]
    keeps: tuple[tuple[str, tff.Type], ...]
    accumulators: tuple[tuple[str, tff.Type], ...]
    run: bytes
    merge: bytes


@dataclass(frozen=True)
class Staged:
    """A computation cut into steps. `result` refers to steps and leaves by name."""

    leaves: tuple[Leaf, ...]
    steps: tuple[DriverStep | Stage, ...]
    result: Plan


def cut(block: Block) -> Staged | None:
    """Returns the computation in steps, or None if it must run as a whole.

    It runs as a whole if it has no clients, takes a function as an argument, or if TFF's compiler did not
    bring it into call-dominant form.

    Args:
        block: The output of TFF's native compiler.
    """
    try:
        leaves, locals_, result = _flat(block)
        staged = _arrange(leaves, locals_, result)
    except CannotCutError:
        return None
    return staged if any(isinstance(step, Stage) for step in staged.steps) else None


def _flat(block: Block) -> tuple[list[Leaf], list[tuple[str, Block]], Block]:
    """Returns the leaves of the argument, the steps, and the result; the latter refer to leaves by name."""
    leaves: list[Leaf] = []
    if isinstance(block, tff.framework.Lambda):
        parameter, kind, block = block.parameter_name, block.parameter_type, block.result
        if parameter is not None:
            leaves = list(leaves_of(kind))
            block = with_leaves(block, parameter, kind)
    if not isinstance(block, tff.framework.Block):
        return leaves, [], block
    names = [name for name, _ in block.locals]
    if len({*names, *(leaf.name for leaf in leaves)}) < len(names) + len(leaves):
        raise CannotCutError  # an ambiguous name
    return leaves, list(block.locals), block.result


def _arrange(leaves: list[Leaf], locals_: Sequence[tuple[str, Block]], result: Block) -> Staged:
    """Sorts the steps into stages and builds each stage."""
    types = {leaf.name: leaf.type_signature for leaf in leaves}
    stage_of = dict.fromkeys(types, 0)
    driver: list[list[tuple[str, Block]]] = [[]]
    clients: list[list[tuple[str, Block]]] = [[]]
    aggregations: list[list[PartialAggregation]] = [[]]
    for name, value in locals_:
        stage = max((stage_of[used] for used in looks_up(value)), default=0)
        types[name] = value.type_signature
        aggregation = partial_aggregation_of(name, value)
        if aggregation is not None:
            aggregations[stage].append(aggregation)
            if stage + 1 == len(driver):
                driver, clients, aggregations = [*driver, []], [*clients, []], [*aggregations, []]
            driver[stage + 1].append((name, aggregation.finish))
            stage_of[name] = stage + 1
            continue
        stage_of[name] = stage
        if varies(value.type_signature):
            if uri_of(value) not in _PER_CLIENT:
                raise CannotCutError
            clients[stage].append((name, value))
        elif any(varies(types[used]) for used in looks_up(value)):
            raise CannotCutError
        else:
            driver[stage].append((name, value))
    wanted_later = looks_up(result)
    steps: list[DriverStep | Stage] = []
    for stage in reversed(range(len(driver))):
        if clients[stage] or aggregations[stage]:
            made = _stage(clients[stage], aggregations[stage], types, wanted_later)
            steps.insert(0, made)
            wanted_later |= {name for name, _ in made.clients}
        steps = [*(DriverStep(name, plan(value)) for name, value in driver[stage]), *steps]
    return Staged(tuple(leaves), tuple(steps), plan(result))


def _stage(
    clients: Sequence[tuple[str, Block]],
    aggregations: Sequence[PartialAggregation],
    types: dict[str, tff.Type],
    wanted_later: set[str],
) -> Stage:
    """Builds one stage."""
    made = {name for name, _ in clients}
    blocks = [value for _, value in clients] + [aggregation.partial for aggregation in aggregations]
    used = sorted(set[str]().union(*map(looks_up, blocks)) - made)
    inputs = tuple((name, types[name]) for name in used if not varies(types[name]))
    theirs = tuple((name, types[name]) for name in used if varies(types[name]))
    keeps = tuple((name, types[name]) for name, _ in clients if name in wanted_later)

    parameter = tff.StructType([kind for _, kind in (*inputs, *theirs)])
    given = tff.framework.Reference(_SLICE, parameter)
    selections = [
        (name, tff.framework.Selection(given, index=index))
        for index, (name, _) in enumerate((*inputs, *theirs))
    ]
    partials = [(f"{aggregation.total}/partial", aggregation.partial) for aggregation in aggregations]
    references = [tff.framework.Reference(name, value.type_signature) for name, value in partials]
    result = tff.framework.Struct(
        [tff.framework.Struct(references), *(tff.framework.Reference(name, kind) for name, kind in keeps)]
    )
    body = tff.framework.Block([*selections, *clients, *partials], result)

    kinds = tff.StructType([aggregation.partial.type_signature.member for aggregation in aggregations])
    pair = tff.framework.Reference(_PAIR, tff.StructType([kinds, kinds]))
    first, second = (tff.framework.Selection(pair, index=side) for side in (0, 1))
    merged = [
        aggregation.merge(
            tff.framework.Selection(first, index=index), tff.framework.Selection(second, index=index)
        )
        for index, aggregation in enumerate(aggregations)
    ]
    return Stage(
        inputs=inputs,
        clients=theirs,
        keeps=keeps,
        accumulators=tuple((a.total, a.partial.type_signature.member) for a in aggregations),
        run=_serialized(tff.framework.Lambda(_SLICE, parameter, body)),
        merge=_serialized(tff.framework.Lambda(_PAIR, pair.type_signature, tff.framework.Struct(merged))),
    )


def _serialized(block: Block) -> bytes:
    return bytes(block.proto.SerializeToString(deterministic=True))
