"""Rewrites a serialized TensorFlow graph so that every call of it is private: pure functions on protos.

A TFF computation is a pure function, but its graph may hold state: variables, tables, queues. Without a
rewrite, two clients would share that state through its `shared_name`, and a second call would see the state
of the first. The rewrites make state private to one call, and order its reads after its initializer.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import tensorflow as tf

from fedplug.tff.runtime.graphs.devices import place
from fedplug.tff.runtime.graphs.reduce_loops import draws_on, iterate_reductions, loop_output

__all__ = ["PrivateGraph", "all_nodes", "make_private", "node_of"]

# TensorFlow's reserved name: a handle op with it makes a new, reference-counted resource in each run.
_ANONYMOUS = b"cd2c89b7-88b7-44c8-ad83-06c2a9158347"
_ANONYMOUS_OPS = {
    "HashTableV2": "AnonymousHashTable",
    "MutableHashTableV2": "AnonymousMutableHashTable",
    "MutableHashTableOfTensorsV2": "AnonymousMutableHashTableOfTensors",
    "MutableDenseHashTableV2": "AnonymousMutableDenseHashTable",
}
_NAMING_ATTRS = ("container", "shared_name", "use_node_name_sharing")


@dataclass(frozen=True)
class PrivateGraph:
    """A graph that shares nothing with other graphs, and the constraints on its callers.

    Attributes:
        graph_def: The graph. Its library functions have the given prefix.
        fetches: The tensors to fetch, with the names they have after nodes were merged.
        one_shot: Whether a copy may run only once, because the graph holds state without an anonymous form
            (queues, named iterators, random ops with seeds).
        inline: Whether it is called inline. One-shot graphs are not: they are not worth a kernel.
        exclusive: Whether each concurrent caller needs a copy, because the graph holds tf.data kernels, each
            of which owns one background thread.
    """

    graph_def: tf.compat.v1.GraphDef
    fetches: list[str]
    one_shot: bool
    inline: bool
    exclusive: bool


def make_private(
    graph_def: tf.compat.v1.GraphDef,
    fetches: Iterable[str],
    initialize_op: str,
    prefix: str,
    *,
    device: str = "/device:CPU:0",
    inline: bool = False,
) -> PrivateGraph:
    """Returns the part of `graph_def` that `fetches` need, rewritten for private calls.

    Args:
        graph_def: The graph, not changed.
        fetches: Names of tensors, such as `"add:0"`.
        initialize_op: Name of the operation that initializes the state, or `""`.
        prefix: A prefix for the names of library functions, and of state that must keep a name. TensorFlow's
            eager runtime has one namespace for functions, and TFF's compiler rewrites bodies but keeps names.
        device: The device of the nodes (see `placement.place`).
        inline: Whether functions can be called inline.
    """
    fetches = list(fetches)
    roots = [node_of(name) for name in fetches]
    if initialize_op:
        initialize_op = node_of(initialize_op)
        roots.append(initialize_op)
    private = tf.compat.v1.GraphDef(versions=graph_def.versions, library=graph_def.library)
    nodes = {node.name: node for node in graph_def.node}
    wanted = _ancestors(nodes, roots)
    private.node.extend(node for node in graph_def.node if node.name in wanted)

    _rename_functions(private, prefix)
    replaced = _merge_shared_handles(private)
    fetches = [_replace(name, replaced) for name in fetches]
    one_shot = _privatize_state(private, prefix) or any(map(draws_on, all_nodes(private)))
    inline = inline and not one_shot
    loops = iterate_reductions(private, prefix, inline=inline)
    fetches = [loop_output(name, loops) for name in fetches]
    if initialize_op:
        _run_after_initializer(private, initialize_op)
    _forget_missing_colocations(private)
    place(all_nodes(private), device)
    exclusive = any("Dataset" in node.op or "Iterator" in node.op for node in all_nodes(private))
    return PrivateGraph(private, fetches, one_shot, inline, exclusive)


def node_of(name: str) -> str:
    """Returns the node a tensor (`"a:1"`), a control input (`"^a"`) or a node name refers to."""
    return name.removeprefix("^").split(":", 1)[0]


def _ancestors(nodes: dict[str, tf.compat.v1.NodeDef], roots: Iterable[str]) -> set[str]:
    """Returns `roots` and every node they need, through data or control inputs."""
    seen: set[str] = set()
    todo = list(roots)
    while todo:
        name = todo.pop()
        if name in seen:
            continue
        if name not in nodes:
            raise ValueError(f"the graph has no node {name!r}; its bindings name one")
        seen.add(name)
        todo.extend(node_of(source) for source in nodes[name].input)
    return seen


def all_nodes(graph_def: tf.compat.v1.GraphDef) -> Iterator[tf.compat.v1.NodeDef]:
    """Yields the nodes of a graph and of its library functions."""
    yield from graph_def.node
    for function in graph_def.library.function:
        yield from function.node_def


def _rename_functions(graph_def: tf.compat.v1.GraphDef, prefix: str) -> None:
    """Puts `prefix` before the name of every library function and of every reference to one."""
    new = {f.signature.name: prefix + f.signature.name for f in graph_def.library.function}
    if not new:
        return

    def rename(attr: tf.compat.v1.AttrValue) -> None:
        for reference in (attr.func, *attr.list.func) if attr.HasField("func") else attr.list.func:
            reference.name = new.get(reference.name, reference.name)
            for nested in reference.attr.values():
                rename(nested)

    for function in graph_def.library.function:
        function.signature.name = new[function.signature.name]
    for gradient in graph_def.library.gradient:
        gradient.function_name = new.get(gradient.function_name, gradient.function_name)
        gradient.gradient_func = new.get(gradient.gradient_func, gradient.gradient_func)
    for node in all_nodes(graph_def):
        node.op = new.get(node.op, node.op)
        for attr in node.attr.values():
            rename(attr)


def _shared_name(node: tf.compat.v1.NodeDef) -> bytes:
    return bytes(node.attr["shared_name"].s) if "shared_name" in node.attr else b""


def _replace(name: str, replaced: dict[str, str]) -> str:
    node = node_of(name)
    return name.replace(node, replaced[node], 1) if node in replaced else name


def _merge_shared_handles(graph_def: tf.compat.v1.GraphDef) -> dict[str, str]:
    """Merges nodes that name the same state, which anonymous names would otherwise separate."""
    first: dict[tuple[str, bytes, bytes], str] = {}
    replaced: dict[str, str] = {}
    for node in graph_def.node:
        if name := _shared_name(node):
            key = (node.op, node.attr["container"].s, name)
            kept = first.setdefault(key, node.name)
            if kept != node.name:
                replaced[node.name] = kept
    if replaced:
        kept_nodes = [node for node in graph_def.node if node.name not in replaced]
        del graph_def.node[:]
        graph_def.node.extend(kept_nodes)
        for node in graph_def.node:
            node.input[:] = [_replace(source, replaced) for source in node.input]
    return replaced


def _privatize_state(graph_def: tf.compat.v1.GraphDef, prefix: str) -> bool:
    """Makes state anonymous. Returns whether some state has no anonymous form, so that copies run once."""
    # State named in a function body cannot be merged with its namesakes: it keeps a name, made unique.
    named = {_shared_name(n) for f in graph_def.library.function for n in f.node_def} - {b"", _ANONYMOUS}
    one_shot = bool(named)
    for node in all_nodes(graph_def):
        if "shared_name" not in node.attr or _shared_name(node) == _ANONYMOUS:
            continue
        if _shared_name(node) in named:
            node.attr["shared_name"].s = prefix.encode() + _shared_name(node)
        elif node.op == "VarHandleOp":
            node.attr["shared_name"].s = _ANONYMOUS
            node.attr["container"].s = b""
        elif node.op in _ANONYMOUS_OPS:
            node.op = _ANONYMOUS_OPS[node.op]
            for attr in _NAMING_ATTRS:
                node.attr.pop(attr, None)
        else:
            # Without a shared name, the state belongs to the kernel and lives as long as the function's copy.
            node.attr["shared_name"].s = b""
            node.attr["container"].s = b""
            one_shot = True
    return one_shot


def _forget_missing_colocations(graph_def: tf.compat.v1.GraphDef) -> None:
    """Drops colocations with nodes that no longer exist."""
    present = {b"loc:@" + node.name.encode() for node in graph_def.node}
    for node in graph_def.node:
        if "_class" in node.attr:
            wishes = node.attr["_class"].list.s
            wishes[:] = [wish for wish in wishes if wish in present]


def _run_after_initializer(graph_def: tf.compat.v1.GraphDef, initialize_op: str) -> None:
    """Makes the readers of state outside the initializer wait for it.

    Direct readers are enough, and safe in old-style loops, which values enter through an Enter node.
    """
    nodes = {node.name: node for node in graph_def.node}
    before = _ancestors(nodes, [initialize_op])
    for node in graph_def.node:
        if node.name not in before and any(
            not source.startswith("^") and node_of(source) in before for source in node.input
        ):
            node.input.append(f"^{initialize_op}")
