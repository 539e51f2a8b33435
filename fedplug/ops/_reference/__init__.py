"""Every op in stock TensorFlow ops: what runs where custom ops do not, and what those are tested against.

A reference gives the bits of the compiled op (denormals aside: TensorFlow flushes them). Its arguments were
checked and converted by the op of the same name in `fedplug.ops`.
"""
