"""fedplug compresses federated-learning updates. Error feedback keeps the unsent part.

Everything here is imported on first use, so that ``import fedplug`` and the command line start without NumPy
and TensorFlow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedplug.registry.first_use import imported_on_first_use

if TYPE_CHECKING:
    from fedplug import kernels, ops, tff
    from fedplug.api import aggregator, encoder, from_config, schedule, to_config
    from fedplug.codecs import ClientCodec, Codec, ModelSum, Sum, TensorMetrics, codec, decode, decode_model
    from fedplug.differences import diff, patch
    from fedplug.registry.hookspecs import hookimpl
    from fedplug.stores import open_store
    from fedplug.tff.runtime import use_runtime
    from fedplug.tff.training.trainer import Trainer
    from fedplug.versions import Broadcaster, Receiver

    __version__: str

_HOMES = {
    "Broadcaster": "fedplug.versions",
    "ClientCodec": "fedplug.codecs",
    "Codec": "fedplug.codecs",
    "ModelSum": "fedplug.codecs",
    "Receiver": "fedplug.versions",
    "Sum": "fedplug.codecs",
    "TensorMetrics": "fedplug.codecs",
    "Trainer": "fedplug.tff.training.trainer",
    "aggregator": "fedplug.api",
    "codec": "fedplug.codecs",
    "decode": "fedplug.codecs",
    "decode_model": "fedplug.codecs",
    "diff": "fedplug.differences",
    "encoder": "fedplug.api",
    "from_config": "fedplug.api",
    "hookimpl": "fedplug.registry.hookspecs",
    "open_store": "fedplug.stores",
    "patch": "fedplug.differences",
    "schedule": "fedplug.api",
    "to_config": "fedplug.api",
    "use_runtime": "fedplug.tff.runtime",
}

__all__ = [
    "Broadcaster",
    "ClientCodec",
    "Codec",
    "ModelSum",
    "Receiver",
    "Sum",
    "TensorMetrics",
    "Trainer",
    "__version__",
    "aggregator",
    "codec",
    "decode",
    "decode_model",
    "diff",
    "encoder",
    "from_config",
    "hookimpl",
    "kernels",
    "open_store",
    "ops",
    "patch",
    "schedule",
    "tff",
    "to_config",
    "use_runtime",
]


if not TYPE_CHECKING:  # a type checker would take this for "any name exists"
    _imported = imported_on_first_use(__name__, _HOMES)

    def __getattr__(name: str) -> object:
        if name != "__version__":
            return _imported(name)
        from fedplug.registry.entry_points import own_version

        globals()[name] = own_version()  # read from the distribution's files once
        return globals()[name]


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
