"""Robust aggregators for fedplug, used as ``fedplug.aggregator("median")`` and so on.

This file imports nothing, so that listing plugins stays cheap.
"""
