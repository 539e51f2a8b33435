"""Count-sketch for fedplug, used as ``fedplug.encoder("countsketch(0.1)")``.

This file imports nothing, so that listing plugins stays cheap.
"""
