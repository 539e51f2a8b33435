"""The registry: what is installed, what it declares, and how a name becomes an object.

Imports neither NumPy nor TensorFlow: a component is a string, ``"package.module:Class"``, until it is asked
for.
"""
