"""For programs that come from elsewhere: other libraries' encoders, and names that TFF no longer has.

Everything here is thin and stands on the public parts of fedplug; nothing else in fedplug knows it.
"""
