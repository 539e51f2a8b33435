"""``ray+sqlite:///folder``: a sharded store whose shards are actors on the machines of a Ray cluster.

Must not import TensorFlow: every shard is a process that imports this. Needs `fedplug[ray]`.
"""

from __future__ import annotations

from fedplug.errors import MissingDependencyError

try:
    import ray  # noqa: F401
except ModuleNotFoundError as error:
    raise MissingDependencyError('the "ray+sqlite" store', error.name or "") from error
