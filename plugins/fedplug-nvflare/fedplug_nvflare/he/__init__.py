"""Compressed updates under NVFlare's homomorphic encryption, for sites that take part in every round.

The server adds ciphertexts that it cannot read. `HESender` and `HEReceiver` are filters of the sites.
`fedplug_nvflare.he.recipe`, which needs TenSEAL, makes a job of them and NVFlare's components.
docs/nvflare.md explains their promises.
"""

from fedplug_nvflare.he.filters import HEReceiver, HESender

__all__ = ["HEReceiver", "HESender"]
