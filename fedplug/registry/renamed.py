"""The names of 0.1 that users and plugins may have written, and what they are called now."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["ARGUMENTS", "CAPABILITIES", "MODULES", "NAMES", "as_pipeline", "hint"]

MODULES = {
    "fedplug.built_from": "fedplug.registry.build_info",
    "fedplug.builtin": "fedplug.registry.builtin",
    "fedplug.catalog": "fedplug.registry.catalog",
    "fedplug.client_data": "fedplug.tff.training.client_data",
    "fedplug.tff.compat.former_tff": "fedplug.tff.compat.tff_legacy",
    "fedplug.encoders.arithmetic": "fedplug.ops",
    "fedplug.encoders.bit_packing": "fedplug.ops",
    "fedplug.encoders.blocks": "fedplug.ops",
    "fedplug.encoders.checks": "fedplug.ops",
    "fedplug.encoders.entropy_coder": "fedplug.encoders.stages",
    "fedplug.encoders.index_coder": "fedplug.encoders.stages",
    "fedplug.encoders.quantizer": "fedplug.encoders.stages",
    "fedplug.encoders.sparsifier": "fedplug.encoders.stages",
    "fedplug.encoders.tensor_bytes": "fedplug.ops",
    "fedplug.encoders.whole_model": "fedplug.encoders.assignment.base",
    "fedplug.expression": "fedplug.registry.expression",
    "fedplug.hookspecs": "fedplug.registry.hookspecs",
    "fedplug.manager": "fedplug.registry.resolve",
    "fedplug.part": "fedplug.registry.component",
    "fedplug.tff.process.dropped_updates": "fedplug.tff.process.learning.nonfinite_updates",
    "fedplug.tff.process.encoded_aggregation": "fedplug.tff.process.aggregation.encoded_aggregation",
    "fedplug.tff.process.learning_parts": "fedplug.tff.process.learning.components",
    "fedplug.tff.process.parts": "fedplug.tff.process.arguments",
    "fedplug.tff.process.round_frame": "fedplug.tff.process.learning.round_output",
    "fedplug.tff.process.stack_rules": "fedplug.tff.process.compatibility",
    "fedplug.spec": "fedplug.registry.specs",
    "fedplug.trainer": "fedplug.tff.training.trainer",
}
NAMES = {
    "EntropyCoded": "fedplug.encoders.Pipeline",
    "LinkReport": "fedplug.encoders.BreakEven",
    "Part": "fedplug.registry.component.Component",
    "PartSpec": "fedplug.registry.specs.ComponentSpec",
    "WholeModel": "fedplug.encoders.EncoderAssignment",
    "WholeModelSuite": "fedplug.testing.AssignmentSuite",
    "link_report": "fedplug.encoders.break_even",
}
CAPABILITIES = {"linear": "commutes_with_sum"}
ARGUMENTS = {"megabits_per_second": "fedplug.encoders.break_even(model, speed) measures that now"}


def hint(error: BaseException) -> str:
    """The present name of what an import asked for by one of 0.1, as the end of a message; else empty."""
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
