"""FedMed-style adaptive aggregation for fedplug: ``fedplug_adaptive.process.build_adaptive_fed_avg``.

This file imports nothing, so that listing plugins stays cheap.
"""
