"""Names every value that is computed within the argument of another call.

TFF's compiler returns most computations in this form. This module converts the others (see
`executor.compile_program`), so that plans handle one form.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

import tensorflow_federated as tff

__all__ = ["Local", "elements_of", "with_named_arguments"]

Block: TypeAlias = tff.framework.ComputationBuildingBlock
Local = tuple[str, Block]


def with_named_arguments(name: str, value: Block) -> Iterator[Local]:
    """Yields the locals to name first, and then `value` with an argument that only refers to names.

    Args:
        name: The name of `value`. Names derived from it have a slash, which TFF's names never have.
        value: The value of a block's local.
    """
    if isinstance(value, tff.framework.Call) and value.argument is not None:
        before: list[Local] = []
        value = tff.framework.Call(value.function, _looked_up(name, value.argument, before))
        for inner in before:
            yield from with_named_arguments(*inner)
    yield name, value


def elements_of(argument: Block) -> list[Block]:
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
