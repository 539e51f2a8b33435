"""Adapters for programs from elsewhere: other libraries' encoders, and names that TFF no longer has.

They use only the public parts of fedplug.
"""
