"""Everything for users of TensorFlow Federated: aggregators, processes, runtimes, training, experiments.

The submodules are imported on first use, so that ``fedplug.tff`` can be named without loading TensorFlow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedplug.registry.first_use import imported_on_first_use

if TYPE_CHECKING:
    from fedplug.tff import aggregators, compat, process, runtime, structures, training

__all__ = ["aggregators", "compat", "process", "runtime", "structures", "training"]

if not TYPE_CHECKING:  # a type checker would take this for "any name exists"
    __getattr__ = imported_on_first_use(__name__)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
