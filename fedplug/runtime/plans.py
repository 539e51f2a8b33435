"""Turns a compiled computation into a plan: nested Python closures that are built once and run every round.

A plan knows nothing of one particular call; what it needs of it comes in the `Round`. Must not know how
values are given by callers, nor what an intrinsic does.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import tensorflow as tf
import tensorflow_federated as tff

from fedplug.errors import LoweringError
from fedplug.runtime.intrinsics import INTRINSICS
from fedplug.runtime.rounds import Round
from fedplug.runtime.tensorflow_graphs import Shape, load
from fedplug.runtime.values import flatten, unflatten

__all__ = ["Plan", "computation_name", "plan"]

Names = dict[str, Any]
Function = Callable[[Any, Round], Any]


@dataclass(frozen=True)
class Plan:
    """What a building block does: `run(names, round)` returns its value; `uses` are the names it looks up."""

    run: Callable[[Names, Round], Any]
    uses: frozenset[str] = frozenset()


def plan(block: tff.framework.ComputationBuildingBlock) -> Plan:
    """Returns the plan of a building block that TFF's native compiler made.

    Raises:
        LoweringError: It holds something that cannot run in this process.
        OpLibraryError: It holds an op that no library loaded in this process provides.
    """
    for kind, make in _MAKERS.items():
        if isinstance(block, kind):
            return make(block)
    raise LoweringError(
        f"the in-process runtime cannot run a {type(block).__name__}: {block.compact_representation()}"
    )


def computation_name(computation: tff.Computation) -> str:
    """Returns the name of the Python function behind a computation as far as TFF keeps it, else its type."""
    block = computation.to_building_block()
    text = block.parameter_name if isinstance(block, tff.framework.Lambda) else ""
    if match := re.fullmatch(r"(.+)_arg", text or ""):
        return repr(match.group(1))
    body = block.result if isinstance(block, tff.framework.Lambda) else block
    for name, _ in body.locals if isinstance(body, tff.framework.Block) else ():
        if match := re.fullmatch(r"fc_(.+)_symbol_\d+", name):
            return repr(match.group(1))
    return f"a computation of type {computation.type_signature.compact_representation()}"


def _tensorflow(block: tff.framework.CompiledComputation) -> Plan:
    proto = block.proto
    kind = proto.WhichOneof("computation")
    if kind != "tensorflow":
        raise LoweringError(
            f"the in-process runtime runs TensorFlow computations; one of kind {kind!r} is not supported. "
            "Write it as tff.tensorflow.computation."
        )
    result = block.type_signature.result
    function = load(proto, list(_shapes(result)))
    if isinstance(result, tff.StructType):

        def call(argument: Any, round_: Round) -> Any:
            leaves = [] if argument is None else flatten(argument)
            return unflatten(result, iter(function(leaves, round_.cancellation)))

    else:

        def call(argument: Any, round_: Round) -> Any:
            return function([] if argument is None else flatten(argument), round_.cancellation)[0]

    return Plan(lambda names, round_: call)


def _shapes(type_spec: tff.Type) -> Iterator[Shape]:
    """Yields the shape every leaf declares; a sequence is a scalar."""
    if isinstance(type_spec, tff.StructType):
        for _, element in tff.structure.iter_elements(type_spec):
            yield from _shapes(element)
    elif isinstance(type_spec, tff.TensorType):
        yield None if type_spec.shape is None else tuple(type_spec.shape)
    else:
        yield ()


def _intrinsic(block: tff.framework.Intrinsic) -> Plan:
    if block.uri not in INTRINSICS:
        raise LoweringError(f"the in-process runtime does not know the intrinsic {block.uri!r}")
    intrinsic, signature = INTRINSICS[block.uri], block.type_signature

    def call(argument: Any, round_: Round) -> Any:
        return intrinsic(argument, signature, round_)

    return Plan(lambda names, round_: call)


def _lambda(block: tff.framework.Lambda) -> Plan:
    body, parameter = plan(block.result), block.parameter_name
    uses = body.uses - {parameter}

    def make(names: Names, round_: Round) -> Function:
        # Only what the body looks up: a closure must not keep the rest of a round's values alive.
        kept = {name: names[name] for name in uses}

        def call(argument: Any, round_: Round) -> Any:
            return body.run({**kept, parameter: argument} if parameter else kept, round_)

        return call

    return Plan(make, uses)


def _block(block: tff.framework.Block) -> Plan:
    steps = [(name, plan(value)) for name, value in block.locals]
    result = plan(block.result)
    needed = set(result.uses)
    last_uses: list[list[str]] = []  # per step, the block's own names that nothing looks up after it
    for name, step in reversed(steps):
        last_uses.insert(0, [used for used in {*step.uses, name} if used not in needed])
        needed |= step.uses
    own = [name for name, _ in steps]
    uses: set[str] = set(result.uses) - set(own)
    for position, (_, step) in enumerate(steps):
        uses |= step.uses - set(own[:position])

    def run(names: Names, round_: Round) -> Any:
        scope = {name: names[name] for name in uses}
        for (name, step), finished in zip(steps, last_uses, strict=True):
            scope[name] = step.run(scope, round_)
            for old in finished:
                scope.pop(old, None)  # values of a round can be large: none outlives its last use
        return result.run(scope, round_)

    return Plan(run, frozenset(uses))


def _call(block: tff.framework.Call) -> Plan:
    function = plan(block.function)
    if block.argument is None:
        return Plan(lambda names, round_: function.run(names, round_)(None, round_), function.uses)
    argument = plan(block.argument)
    return Plan(
        lambda names, round_: function.run(names, round_)(argument.run(names, round_), round_),
        function.uses | argument.uses,
    )


def _struct(block: tff.framework.Struct) -> Plan:
    parts = [plan(part) for _, part in tff.structure.iter_elements(block)]
    uses = frozenset[str]().union(*(part.uses for part in parts))
    return Plan(lambda names, round_: tuple(part.run(names, round_) for part in parts), uses)


def _selection(block: tff.framework.Selection) -> Plan:
    source, index = plan(block.source), block.as_index()
    return Plan(lambda names, round_: source.run(names, round_)[index], source.uses)


def _reference(block: tff.framework.Reference) -> Plan:
    name = block.name
    return Plan(lambda names, round_: names[name], frozenset([name]))


def _literal(block: tff.framework.Literal) -> Plan:
    value = tf.constant(block.value, block.type_signature.dtype)
    return Plan(lambda names, round_: value)


def _placement(block: tff.framework.Placement) -> Plan:
    return Plan(lambda names, round_: block.uri)


def _data(block: tff.framework.Data) -> Plan:
    raise LoweringError(
        "the in-process runtime has no data backend to resolve a data reference "
        f"of type {block.type_signature.compact_representation()}; pass the data as an argument"
    )


_MAKERS: dict[type, Callable[[Any], Plan]] = {
    tff.framework.CompiledComputation: _tensorflow,
    tff.framework.Intrinsic: _intrinsic,
    tff.framework.Lambda: _lambda,
    tff.framework.Block: _block,
    tff.framework.Call: _call,
    tff.framework.Struct: _struct,
    tff.framework.Selection: _selection,
    tff.framework.Reference: _reference,
    tff.framework.Literal: _literal,
    tff.framework.Placement: _placement,
    tff.framework.Data: _data,
}
