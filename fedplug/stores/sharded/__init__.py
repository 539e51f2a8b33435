"""A store whose client states are on many machines: one embedded store each, and one index that decides.

`placement` says which shard keeps which client, `shard` is what one machine does, `process` the two phases of
a round, `moving` what follows when machines come and go, `rewinding` how rounds are undone. Nothing here
knows how shards are reached: see `fedplug.stores.ray`.
"""
