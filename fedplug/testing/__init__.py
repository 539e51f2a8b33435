"""The conformance suite: what fedplug expects of a plugin, as test suites that its author subclasses.

Every suite runs under pytest as it is; `run` runs one without pytest, as ``fedplug plugins check`` does. Only
tests and that command import this package. Importing it loads nothing; a suite loads what it tests with.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fedplug.testing.aggregator import AggregatorSuite
    from fedplug.testing.assignment import AssignmentSuite
    from fedplug.testing.encoder import EncoderSuite
    from fedplug.testing.expect import ConformanceError
    from fedplug.testing.package import PluginPackageSuite
    from fedplug.testing.schedule import ScheduleSuite
    from fedplug.testing.store import StateStoreSuite
    from fedplug.testing.suite import NotApplicable, Result, Suite, run

__all__ = [
    "AggregatorSuite",
    "AssignmentSuite",
    "ConformanceError",
    "EncoderSuite",
    "NotApplicable",
    "PluginPackageSuite",
    "Result",
    "ScheduleSuite",
    "StateStoreSuite",
    "Suite",
    "run",
]

_MODULES = {
    "AggregatorSuite": "aggregator",
    "ConformanceError": "expect",
    "EncoderSuite": "encoder",
    "NotApplicable": "suite",
    "PluginPackageSuite": "package",
    "Result": "suite",
    "ScheduleSuite": "schedule",
    "StateStoreSuite": "store",
    "Suite": "suite",
    "AssignmentSuite": "assignment",
    "run": "suite",
}


if not TYPE_CHECKING:  # a type checker would take this for "any name exists"

    def __getattr__(name: str) -> Any:
        if name not in _MODULES:
            raise AttributeError(f"module 'fedplug.testing' has no attribute {name!r}")
        return getattr(importlib.import_module(f"fedplug.testing.{_MODULES[name]}"), name)
