"""FedMed-style adaptive aggregation for fedplug; used as ``fedplug_adaptive.process.build_adaptive_fed_avg``.

Imports nothing: fedplug looks at `fedplug_adaptive.plugin`, and at the rest only when it is asked for.
"""
