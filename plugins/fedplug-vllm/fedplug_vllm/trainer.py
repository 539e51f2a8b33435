"""The trainer's side in vLLM: publishes versions, and tells the servers to apply them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import torch
from vllm.distributed.weight_transfer import (
    ModuleSource,
    TrainerWeightTransferEngine,
    VLLMWeightSyncClient,
    WeightSource,
)
from vllm.distributed.weight_transfer.base import TrainerInitInfo

from fedplug_vllm.plugin import BACKEND
from fedplug_vllm.publisher import Published, Publisher, mesh_of, shards

__all__ = ["FedplugTrainerEngine", "FedplugTrainerInitInfo", "ShardSource"]


@dataclass
class FedplugTrainerInitInfo(TrainerInitInfo):
    """How a trainer sends its weights.

    Attributes:
        url: Where to write the messages: a folder, or any address that fsspec writes to.
        server_url: The same place as the servers open it. Default: ``url``.
        snapshot_every: The number of steps between two snapshots, from which a new server begins.
        poll_seconds: The time after which a server looks for a new version.
        patches: See `fedplug_vllm.server.FedplugInitInfo`.
    """

    backend: ClassVar[str] = BACKEND

    url: str
    server_url: str | None = None
    snapshot_every: int = 16
    poll_seconds: float = 0.5
    patches: bool | None = None


class ShardSource(ModuleSource):
    """The parameters of a module of which each rank sends the rows that it holds, see `shards`.

    Attributes:
        mesh: The ranks that hold the rows.
    """

    def __init__(self, module: torch.nn.Module) -> None:
        """Takes a module after ``fully_shard``."""
        super().__init__(module)
        self.mesh = mesh_of(module.parameters())
        self.shards = lambda: shards(module.named_parameters())

    def wait(self) -> None:
        """Waits until all of these ranks are here."""
        torch.distributed.barrier(self.mesh.get_group())

    def __iter__(self) -> Iterator[tuple[str, torch.Tensor]]:
        """Yields this rank's rows of each parameter, without communication."""
        yield from self.shards()[0].items()


class FedplugTrainerEngine(TrainerWeightTransferEngine[FedplugTrainerInitInfo]):
    """Sends exact differences between versions to running servers.

    `publish` encodes and writes while the servers answer, and they fetch, check and decode by themselves.
    `send_weights` makes them apply the version, for which generation has to pause. It publishes first if
    `publish` was not called. Call both on all ranks.

    Attributes:
        last: The last step that this rank published. None if there is none.
        update_seconds: The time that the servers took to apply it.
    """

    init_info_cls = FedplugTrainerInitInfo

    def __init__(
        self, info: FedplugTrainerInitInfo, *, client: VLLMWeightSyncClient, source: WeightSource
    ) -> None:
        """Opens the address. Use `trainer_init`."""
        super().__init__(client=client, source=source, is_sender=info.is_sender)
        self.last: Published | None = None
        self.update_seconds: float | None = None
        self._waits = False
        if isinstance(source, ShardSource):
            ranks = {"part": source.mesh.get_local_rank(), "parts": source.mesh.size()}
            self._publisher = Publisher(info.url, snapshot_every=info.snapshot_every, **ranks)
            source.wait()  # until all ranks know the number of the next step
        elif self.is_sender:
            self._publisher = Publisher(info.url, snapshot_every=info.snapshot_every)

    @classmethod
    def trainer_init(
        cls,
        init_info: FedplugTrainerInitInfo,
        *,
        client: VLLMWeightSyncClient,
        source: WeightSource | None = None,
    ) -> FedplugTrainerEngine:
        """Tells the servers where the messages will be, and returns the engine.

        Raises:
            ValueError: There is no source.
        """
        if source is None:
            raise ValueError("fedplug needs source=, such as ModuleSource(model) or ShardSource(model)")
        engine = cls(init_info, client=client, source=source)
        if engine.is_sender:
            url = init_info.url if init_info.server_url is None else init_info.server_url
            told = {"url": url, "poll_seconds": init_info.poll_seconds, "patches": init_info.patches}
            client.init_weight_transfer_engine(told)
        return engine

    def publish(self) -> Published | None:
        """Writes the source's weights as a new version. None on a rank that sends nothing."""
        if isinstance(self.source, ShardSource):
            tensors, layout = self.source.shards()
            self.last = self._publisher.publish(tensors.items(), layout)
            self.source.wait()  # the servers need the rows of all ranks
        else:
            named = list(self.source or ())  # on all ranks, as it may gather
            self.last = self._publisher.publish(named) if self.is_sender else None
        self._waits = True
        return self.last

    def send_weights(self) -> None:
        """Makes the servers apply the last published version, and publishes one if none waits.

        After an error the servers answer with the weights that they have, and the next call publishes again.
        """
        if not self._waits:
            self.publish()
        self._waits = False  # on all ranks, also if the sender fails
        if self.is_sender:
            assert self.last is not None
            start = time.perf_counter()
            self.client.start_weight_update()
            self.client.update_weights({"number": self.last.number})
            self.client.finish_weight_update(str(self.last.number))
            self.update_seconds = time.perf_counter() - start
