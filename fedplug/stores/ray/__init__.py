"""``ray+sqlite:///folder``: a sharded store whose shards are actors on the machines of a Ray cluster.

It needs `fedplug[ray]`. Every shard is a process that imports this package, so it must not import TensorFlow.
"""

from __future__ import annotations

from fedplug.errors import MissingDependencyError

try:
    import ray  # noqa: F401
except ModuleNotFoundError as error:
    raise MissingDependencyError('the "ray+sqlite" store', error.name or "") from error
