"""fedplug for NVIDIA FLARE: compressed weight differences and models, with residuals on the clients."""

from fedplug_nvflare.aggregator import FedplugAggregator
from fedplug_nvflare.broadcaster import FedplugBroadcaster
from fedplug_nvflare.decoder import FedplugDecoder
from fedplug_nvflare.encoder import FedplugEncoder
from fedplug_nvflare.receiver import FedplugReceiver

__all__ = ["FedplugAggregator", "FedplugBroadcaster", "FedplugDecoder", "FedplugEncoder", "FedplugReceiver"]
