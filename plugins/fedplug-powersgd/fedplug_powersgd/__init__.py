"""PowerSGD for fedplug; used as ``fedplug.encoder("powersgd(2)")``.

Imports nothing: fedplug looks at `fedplug_powersgd.plugin`, and at the encoder only when it is asked for.
"""
