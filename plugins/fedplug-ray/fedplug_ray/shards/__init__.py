"""The store ``ray+sqlite:///folder``: a sharded store whose shards are Ray actors on the cluster's machines.

Must not import TensorFlow: each shard is a process that imports this package.
"""
