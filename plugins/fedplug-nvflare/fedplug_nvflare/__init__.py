"""fedplug for NVIDIA FLARE: compressed weight differences, with residuals on the clients."""

from fedplug_nvflare.aggregator import FedplugAggregator
from fedplug_nvflare.decoder import FedplugDecoder
from fedplug_nvflare.encoder import FedplugEncoder

__all__ = ["FedplugAggregator", "FedplugDecoder", "FedplugEncoder"]
