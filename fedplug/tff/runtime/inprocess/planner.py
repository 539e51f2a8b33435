"""Turns a compiled computation into a plan: nested Python closures that are built once and run every round.

The state of a single call is in the `Invocation`. TFF's compiler names every value that is computed within
the argument of another call, with few exceptions. `_with_named_arguments` names the others, so that plans
handle one form.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import tensorflow as tf
import tensorflow_federated as tff

from fedplug.errors import LoweringError
from fedplug.tff.runtime.graphs.tensorflow_graphs import Shape, load
from fedplug.tff.runtime.inprocess.intrinsics import INTRINSICS, REDUCTIONS
from fedplug.tff.runtime.inprocess.invocation import Invocation
from fedplug.tff.runtime.inprocess.passes import (
    ClientStep,
    Contribution,
    Names,
    ReductionStep,
    Step,
    in_passes,
)
from fedplug.tff.runtime.inprocess.values import Value, builder, flatten

__all__ = ["Plan", "block_name", "client_step", "contribution", "plan"]

Function = Callable[[Value, Invocation], Value]

Block: TypeAlias = tff.framework.ComputationBuildingBlock
Local = tuple[str, Block]


@dataclass(frozen=True)
class Plan:
    """The plan of a building block: `run(names, round)` returns its value. `uses` are its free names."""

    run: Callable[[Names, Invocation], Value]
    uses: frozenset[str] = frozenset()


def plan(block: tff.framework.ComputationBuildingBlock) -> Plan:
    """Returns the plan of a building block that TFF's native compiler made.

    Raises:
        LoweringError: A part of it cannot run in this process.
        OpLibraryError: It has an op that no library loaded in this process provides.
    """
    for kind, make in _MAKERS.items():
        if isinstance(block, kind):
            return make(block)
    raise LoweringError(
        f"the in-process runtime cannot run a {type(block).__name__}: {block.compact_representation()}"
    )


def block_name(block: Block) -> str:
    """Returns the name of a computation's Python function if TFF keeps it in the block, else its type."""
    text = block.parameter_name if isinstance(block, tff.framework.Lambda) else ""
    if match := re.fullmatch(r"(.+)_arg", text or ""):
        return repr(match.group(1))
    body = block.result if isinstance(block, tff.framework.Lambda) else block
    for name, _ in body.locals if isinstance(body, tff.framework.Block) else ():
        if match := re.fullmatch(r"fc_(.+)_symbol_\d+", name):
            return repr(match.group(1))
    return f"a computation of type {block.type_signature.compact_representation()}"


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
    build = builder(result)

    def call(argument: Value, invocation: Invocation) -> Value:
        leaves = [] if argument is None else flatten(argument)
        return build(iter(function(leaves, invocation.cancellation, one_thread=invocation.one_thread)))

    return Plan(lambda names, invocation: call)


def _shapes(type_spec: tff.Type) -> Iterator[Shape]:
    """Yields the declared shape of every leaf; a sequence is a scalar."""
    if isinstance(type_spec, tff.StructType):
        for _, element in tff.structure.iter_elements(type_spec):
            yield from _shapes(element)
    elif isinstance(type_spec, tff.TensorType):
        yield None if type_spec.shape is None else tuple(type_spec.shape)
    else:
        yield ()


def _intrinsic(block: tff.framework.Intrinsic) -> Plan:
    if block.uri not in INTRINSICS | REDUCTIONS:
        raise LoweringError(f"the in-process runtime does not know the intrinsic {block.uri!r}")
    if _belongs_to_clients(block):
        return _as_block(block)
    intrinsic, signature = INTRINSICS[block.uri], block.type_signature

    def call(argument: Value, invocation: Invocation) -> Value:
        return intrinsic(argument, signature, invocation)

    return Plan(lambda names, invocation: call)


def _belongs_to_clients(intrinsic: tff.framework.Intrinsic) -> bool:
    """Returns whether it needs a pass over the clients: a reduction, or a result per client."""
    result = intrinsic.type_signature.result
    varies = isinstance(result, tff.FederatedType) and not result.all_equal
    return intrinsic.uri in REDUCTIONS or (intrinsic.uri in INTRINSICS and varies)


def _as_block(intrinsic: tff.framework.Intrinsic) -> Plan:
    """Returns the plan of an intrinsic as the only step of a function's body."""
    signature = intrinsic.type_signature
    argument = tff.framework.Reference("argument", signature.parameter)
    step = ("result", tff.framework.Call(intrinsic, argument))
    result = tff.framework.Reference("result", signature.result)
    return plan(tff.framework.Lambda("argument", signature.parameter, tff.framework.Block([step], result)))


def _lambda(block: tff.framework.Lambda) -> Plan:
    body, parameter = plan(block.result), block.parameter_name
    uses = body.uses - {parameter}

    def make(names: Names, invocation: Invocation) -> Function:
        # Only the body's free names: a closure must not keep a round's other values alive.
        kept = {name: names[name] for name in uses}

        def call(argument: Value, invocation: Invocation) -> Value:
            return body.run({**kept, parameter: argument} if parameter else kept, invocation)

        return call

    return Plan(make, uses)


def _block(block: tff.framework.Block) -> Plan:
    looked_up: set[str] = set()  # or defined
    steps: list[Step | ReductionStep] = []
    for position, (name, value) in enumerate(block.locals):
        added = [_step(*local) for local in _with_named_arguments(name, value)]
        looked_up = looked_up.union(*(step.uses for step in added))
        if name in looked_up:  # has another meaning from here on, and steps are reordered
            rest = tff.framework.Block(block.locals[position + 1 :], block.result)
            rest = tff.framework.Call(tff.framework.Lambda(name, value.type_signature, rest), value)
            return plan(tff.framework.Block(block.locals[:position], rest))
        steps += added
        looked_up = looked_up.union(*(step.names for step in added))
    result = plan(block.result)
    ordered = in_passes(steps, result.uses)
    uses = looked_up.union(result.uses).difference(*(step.names for step in steps))

    def run(names: Names, invocation: Invocation) -> Value:
        scope = {name: names[name] for name in uses}
        ordered.run(scope, invocation)
        return result.run(scope, invocation)

    return Plan(run, frozenset(uses))


def _step(name: str, value: tff.framework.ComputationBuildingBlock) -> Step | ReductionStep:
    """Returns the step that names `value`."""
    function = value.function if isinstance(value, tff.framework.Call) else None
    if not isinstance(function, tff.framework.Intrinsic) or not _belongs_to_clients(function):
        planned = plan(value)
        return Step((name,), planned.uses, lambda names, invocation: [planned.run(names, invocation)])
    return _reduction(name, function, value) if function.uri in REDUCTIONS else client_step(name, value)


def client_step(name: str, value: tff.framework.Call) -> ClientStep:
    """Returns the step that names `value`, a call of an intrinsic with one result per client."""
    function = value.function
    argument, intrinsic, signature = plan(value.argument), INTRINSICS[function.uri], function.type_signature

    def of_client(names: Names, invocation: Invocation) -> Sequence[Value]:
        with invocation.naming_failures(function.uri):
            return [intrinsic(argument.run(names, invocation), signature, invocation)]

    return ClientStep((name,), argument.uses, of_client, value)


def contribution(block: tff.framework.ComputationBuildingBlock) -> Contribution:
    """Returns one client's part of a reduction, whose value is `block`."""
    value = plan(block)
    return Contribution(value.uses, value.run, block)


def _reduction(name: str, intrinsic: tff.framework.Intrinsic, call: tff.framework.Call) -> ReductionStep:
    """Returns the step that names the result of a reduction, whose first argument is the clients' value."""
    if isinstance(intrinsic.type_signature.parameter, tff.FederatedType):
        parts = [call.argument]
    else:
        parts = list(_elements_of(call.argument))
    value, others = contribution(parts[0]), [plan(part) for part in parts[1:]]
    make, signature = REDUCTIONS[intrinsic.uri], intrinsic.type_signature
    return ReductionStep(
        names=(name,),
        uses=value.uses.union(*(other.uses for other in others)),
        make=lambda names, invocation: make(
            [other.run(names, invocation) for other in others], signature, invocation
        ),
        value=value,
        intrinsic=intrinsic.uri,
    )


def _call(block: tff.framework.Call) -> Plan:
    function = plan(block.function)
    if block.argument is None:
        return Plan(
            lambda names, invocation: function.run(names, invocation)(None, invocation), function.uses
        )
    argument = plan(block.argument)
    return Plan(
        lambda names, invocation: function.run(names, invocation)(
            argument.run(names, invocation), invocation
        ),
        function.uses | argument.uses,
    )


def _struct(block: tff.framework.Struct) -> Plan:
    parts = [plan(part) for _, part in tff.structure.iter_elements(block)]
    uses = frozenset[str]().union(*(part.uses for part in parts))
    return Plan(lambda names, invocation: tuple([part.run(names, invocation) for part in parts]), uses)


def _selection(block: tff.framework.Selection) -> Plan:
    source, index = plan(block.source), block.as_index()
    return Plan(lambda names, invocation: source.run(names, invocation)[index], source.uses)


def _reference(block: tff.framework.Reference) -> Plan:
    name = block.name
    return Plan(lambda names, invocation: names[name], frozenset([name]))


def _literal(block: tff.framework.Literal) -> Plan:
    value = tf.constant(block.value, block.type_signature.dtype)
    return Plan(lambda names, invocation: value)


def _placement(block: tff.framework.Placement) -> Plan:
    return Plan(lambda names, invocation: block.uri)


_MAKERS: dict[type, Callable[[Block], Plan]] = {
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
}


def _with_named_arguments(name: str, value: Block) -> Iterator[Local]:
    """Yields the locals to name first, and then `value` with an argument that only refers to names.

    Args:
        name: The name of `value`. Names derived from it have a slash, which TFF's names never have.
        value: The value of a block's local.
    """
    if isinstance(value, tff.framework.Call) and value.argument is not None:
        before: list[Local] = []
        value = tff.framework.Call(value.function, _looked_up(name, value.argument, before))
        for inner in before:
            yield from _with_named_arguments(*inner)
    yield name, value


def _elements_of(argument: Block) -> list[Block]:
    """Returns the elements of an argument that is a struct, or a reference to one."""
    if isinstance(argument, tff.framework.Struct):
        return [part for _, part in tff.structure.iter_elements(argument)]
    return [tff.framework.Selection(argument, index=index) for index in range(len(argument.type_signature))]


def _looked_up(name: str, argument: Block, before: list[Local]) -> Block:
    """Returns `argument` with references to its computed values, whose locals it appends to `before`."""
    if isinstance(argument, tff.framework.Struct):
        return tff.framework.Struct(
            [(key, _looked_up(name, part, before)) for key, part in tff.structure.iter_elements(argument)]
        )
    if isinstance(argument, tff.framework.Selection):
        return tff.framework.Selection(_looked_up(name, argument.source, before), index=argument.as_index())
    if isinstance(argument, tff.framework.Call | tff.framework.Block):
        before.append((f"{name}/{len(before)}", argument))
        return tff.framework.Reference(before[-1][0], argument.type_signature)
    return argument
