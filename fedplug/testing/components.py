"""Finds the suite that tests a component of the registry."""

from __future__ import annotations

import contextlib
import importlib
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import fedplug.api as api
import fedplug.stores as stores
from fedplug.encoders.assignment import EncoderAssignment
from fedplug.errors import PluginError
from fedplug.registry import expression
from fedplug.testing.suite import Suite

if TYPE_CHECKING:
    from fedplug.tff.runtime import Runtime, RuntimeHandle

__all__ = ["check_base", "made", "suite"]

FOLDER = "{folder}"
"""The place of an empty folder in the example URL of a store. A store whose URL has none is not durable."""

_BASES = {
    "encoder": (
        "fedplug.encoders.base:Encoder",
        "fedplug.encoders.stages:Sparsifier",
        "fedplug.encoders.stages:Quantizer",
        "fedplug.encoders.stages:EntropyCoder",
        "fedplug.encoders.stages:IndexCoder",
        "fedplug.encoders.assignment:EncoderAssignment",
    ),
    "aggregator": ("fedplug.tff.aggregators.base:Aggregator",),
    "schedule": ("fedplug.schedules.base:Schedule",),
    "store": ("fedplug.stores.base:StateStore",),
}


def check_base(kind: str, found: type[object]) -> None:
    """Refuses a class that does not derive from the base of its kind. Runtimes are checked when created.

    Raises:
        PluginError: It does not. The message names the base.
    """
    bases = tuple(_resolve(base) for base in _BASES.get(kind, ()))
    if bases and not issubclass(found, bases):
        raise PluginError(
            f"{found.__module__}.{found.__qualname__} is no {kind}; derive it from {_BASES[kind][0]}"
        )


@contextlib.contextmanager
def made(kind: str, example: str) -> Iterator[Any]:
    """Creates the component that an example describes. Closes stores and runtimes at the end."""
    if kind == "runtime":
        with _use(example) as handle:
            yield handle.context
    elif kind == "store":
        with tempfile.TemporaryDirectory() as folder, _open(example, Path(folder)) as store:
            yield store
    else:
        yield _SUITES[kind][-1](example)


def suite(kind: str, example: str) -> type[Suite]:
    """Returns the suite for a component, with default attributes."""
    if kind == "encoder" and isinstance(api.encoder(example), EncoderAssignment):
        kind = "assignment"
    base, method, make = _SUITES[kind]
    members: dict[str, object] = {method: lambda self, *folder: make(example, *folder)}
    if kind == "store":
        members["persistent"] = FOLDER in example
    return type("Checked", (_resolve(base),), members)


def _use(example: str) -> RuntimeHandle:
    from fedplug.tff.runtime import use_runtime

    (written,) = expression.parse(example)
    return use_runtime(written.name, **written.kwargs)


def _unused(example: str) -> Runtime:
    """Returns the runtime, which is not the current context."""
    import tensorflow_federated as tff

    before = tff.framework.get_context_stack().current
    handle = _use(example)
    tff.framework.set_default_context(before)
    return handle.context


def _open(url: str, folder: Path) -> stores.StateStore:
    return stores.open_store(url.replace(FOLDER, str(folder / "store")))


def _resolve(target: str) -> type[object]:
    module, _, name = target.partition(":")
    found: type[object] = getattr(importlib.import_module(module), name)
    return found


_SUITES: dict[str, tuple[str, str, Callable[..., object]]] = {
    "encoder": ("fedplug.testing.encoder:EncoderSuite", "make_encoder", api.encoder),
    "assignment": ("fedplug.testing.assignment:AssignmentSuite", "make_assignment", api.encoder),
    "aggregator": ("fedplug.testing.aggregator:AggregatorSuite", "make_aggregator", api.aggregator),
    "schedule": ("fedplug.testing.schedule:ScheduleSuite", "make_schedule", api.schedule),
    "store": ("fedplug.testing.store:StateStoreSuite", "make_store", _open),
    "runtime": ("fedplug.testing.runtime:RuntimeSuite", "make_runtime", _unused),
}
"""The suite of each kind, its method that makes a component, and the function that makes one."""
