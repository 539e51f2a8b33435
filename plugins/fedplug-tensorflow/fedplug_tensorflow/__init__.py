"""Beside this file is the op library of fedplug, `_fedplug_ops.so`, which `fedplug.ops` finds and loads.

Imports nothing and has no names: `build_info.json` says which TensorFlow the library was built for.
"""
