"""The names of 0.1 that users and plugins may have written, and what they are called now."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["CAPABILITIES", "MODULES", "NAMES", "as_pipeline", "hint"]

MODULES = {
    "fedplug.built_from": "fedplug.registry.build_info",
    "fedplug.builtin": "fedplug.registry.builtin",
    "fedplug.catalog": "fedplug.registry.catalog",
    "fedplug.client_data": "fedplug.training.client_data",
    "fedplug.expression": "fedplug.registry.expression",
    "fedplug.hookspecs": "fedplug.registry.hookspecs",
    "fedplug.manager": "fedplug.registry.resolve",
    "fedplug.part": "fedplug.registry.component",
    "fedplug.process.parts": "fedplug.process.arguments",
    "fedplug.process.stack_rules": "fedplug.process.compatibility",
    "fedplug.spec": "fedplug.registry.specs",
    "fedplug.trainer": "fedplug.training.trainer",
}
NAMES = {
    "LinkReport": "fedplug.encoders.BreakEven",
    "Part": "fedplug.registry.component.Component",
    "PartSpec": "fedplug.registry.specs.ComponentSpec",
    "WholeModel": "fedplug.encoders.EncoderAssignment",
    "WholeModelSuite": "fedplug.testing.AssignmentSuite",
    "link_report": "fedplug.encoders.break_even",
}
CAPABILITIES = {"linear": "commutes_with_sum"}


def hint(error: BaseException) -> str:
    """Where to find what an import asked for under its name of 0.1, for the end of a message; else empty."""
    if not isinstance(error, ImportError):
        return ""
    quoted = re.findall(r"'([\w.]+)'", str(error))  # 'the name' from 'the module', or only the latter
    for old in (*quoted, ".".join(reversed(quoted))):
        if new := MODULES.get(old) or NAMES.get(old):
            return f"; {old} is called {new} now"
    return ""


def as_pipeline(args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a pipeline that is what ``entropy_coded(quantizer, coder)`` was."""
    arguments = dict(zip(("quantizer", "coder"), args, strict=False)) | dict(kwargs)
    return {"stages": [arguments[stage] for stage in ("quantizer", "coder") if stage in arguments]}
