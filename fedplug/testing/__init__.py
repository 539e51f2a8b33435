"""The conformance suites: test suites that the authors of plugins subclass.

pytest runs every suite. `run` runs one without pytest, as ``fedplug plugins check`` does. Only tests and that
command import this package. Importing it loads nothing; a suite imports its needs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedplug.registry.first_use import imported_on_first_use

if TYPE_CHECKING:
    from fedplug.testing.aggregator import AggregatorSuite
    from fedplug.testing.assignment import AssignmentSuite
    from fedplug.testing.encoder import EncoderSuite
    from fedplug.testing.expect import ConformanceError
    from fedplug.testing.package import PluginPackageSuite
    from fedplug.testing.runtime import RuntimeSuite
    from fedplug.testing.schedule import ScheduleSuite
    from fedplug.testing.store import StateStoreSuite
    from fedplug.testing.suite import CannotRun, NotApplicable, Result, Suite, run

__all__ = [
    "AggregatorSuite",
    "AssignmentSuite",
    "CannotRun",
    "ConformanceError",
    "EncoderSuite",
    "NotApplicable",
    "PluginPackageSuite",
    "Result",
    "RuntimeSuite",
    "ScheduleSuite",
    "StateStoreSuite",
    "Suite",
    "run",
]

_HOMES = {
    "AggregatorSuite": "fedplug.testing.aggregator",
    "CannotRun": "fedplug.testing.suite",
    "ConformanceError": "fedplug.testing.expect",
    "EncoderSuite": "fedplug.testing.encoder",
    "NotApplicable": "fedplug.testing.suite",
    "PluginPackageSuite": "fedplug.testing.package",
    "Result": "fedplug.testing.suite",
    "RuntimeSuite": "fedplug.testing.runtime",
    "ScheduleSuite": "fedplug.testing.schedule",
    "StateStoreSuite": "fedplug.testing.store",
    "Suite": "fedplug.testing.suite",
    "AssignmentSuite": "fedplug.testing.assignment",
    "run": "fedplug.testing.suite",
}


if not TYPE_CHECKING:  # a type checker would take this for "any name exists"
    __getattr__ = imported_on_first_use(__name__, _HOMES)
