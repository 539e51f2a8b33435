"""Robust aggregators for fedplug; used as ``fedplug.aggregator("median")`` and the like.

Imports nothing: fedplug looks at `fedplug_robust.plugin`, and at an aggregator only when it is asked for.
"""
