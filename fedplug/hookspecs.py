"""The hooks a plugin may implement, and nothing else.

A plugin is a module named by an entry point of the group ``fedplug.v1``; its functions are marked with
`hookimpl`. Every hook is optional. The module must be cheap to import: plugins are asked whenever a part is
looked up, and by `fedplug plugins list`.
"""

from __future__ import annotations

import pluggy

from fedplug.spec import AggregatorSpec, EncoderSpec, StoreSpec

__all__ = ["fedplug_aggregators", "fedplug_encoders", "fedplug_stores", "hookimpl"]

hookspec = pluggy.HookspecMarker("fedplug")
hookimpl = pluggy.HookimplMarker("fedplug")


@hookspec
def fedplug_encoders() -> list[EncoderSpec]:  # type: ignore[empty-body]
    """The encoders this plugin brings; a class follows `fedplug.encoders.base.Encoder`."""


@hookspec
def fedplug_aggregators() -> list[AggregatorSpec]:  # type: ignore[empty-body]
    """The aggregators this plugin brings; a class follows `fedplug.aggregators.base.Aggregator`."""


@hookspec
def fedplug_stores() -> list[StoreSpec]:  # type: ignore[empty-body]
    """The client-state stores this plugin brings; a class follows `fedplug.stores.base.StateStore`."""
