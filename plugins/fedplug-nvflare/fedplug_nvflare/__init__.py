"""fedplug for NVIDIA FLARE: weight differences travel compressed, what was not sent is kept on the client."""

from fedplug_nvflare.aggregator import FedplugAggregator
from fedplug_nvflare.decoder import FedplugDecoder
from fedplug_nvflare.encoder import FedplugEncoder

__all__ = ["FedplugAggregator", "FedplugDecoder", "FedplugEncoder"]
