"""The registry: lists the installed components with their declarations, and resolves names to objects.

It imports neither NumPy nor TensorFlow: a component is a string, ``"package.module:Class"``, until it is
used.
"""
