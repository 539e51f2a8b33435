"""A store on several machines: one embedded store of client states on each, and one index that decides.

`placement` assigns clients to shards. `shard` is the part of one machine, and `process` runs the two phases
of a round. `moving` reacts to new and lost machines, and `rewinding` undoes rounds. How shards are reached is
left to a `fleet`. The plugin fedplug-ray has one of Ray actors.
"""
