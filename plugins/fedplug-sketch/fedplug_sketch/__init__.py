"""Count-sketch for fedplug; used as ``fedplug.encoder("countsketch(0.1)")``.

Imports nothing: fedplug looks at `fedplug_sketch.plugin`, and at the encoder only when it is asked for.
"""
