"""What the functions of `fedplug.ops` do with TensorFlow's tensors: the compiled op, or its reference.

Each module has the functions of the module of its name in `fedplug.ops`, which documents them, and registers
its ops with TensorFlow. Loaded when the first tensor comes in.
"""
