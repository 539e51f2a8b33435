"""References of the ops in stock TensorFlow ops, for runtimes without custom ops and for tests.

A reference gives the bits of the compiled op, except for denormal numbers, which TensorFlow flushes to zero.
The op of the same name in `fedplug.ops._tensorflow` checks and converts its arguments.
"""
