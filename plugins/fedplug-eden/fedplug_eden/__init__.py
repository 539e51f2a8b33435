"""EDEN for fedplug; used as ``fedplug.encoder("eden(4)")``.

Imports nothing: fedplug looks at `fedplug_eden.plugin`, and at the encoder only when it is asked for.
"""
