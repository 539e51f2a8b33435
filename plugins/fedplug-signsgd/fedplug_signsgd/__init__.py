"""Sign-SGD with error feedback for fedplug; used as ``fedplug.encoder("signsgd")``.

Imports nothing: fedplug looks at `fedplug_signsgd.plugin`, and at the encoder only when it is asked for.
"""
