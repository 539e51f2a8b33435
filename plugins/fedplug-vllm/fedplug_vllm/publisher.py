"""The trainer's side without vLLM: writes each version of the weights as messages."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch.distributed.device_mesh import DeviceMesh

import fedplug
from fedplug.errors import ArgumentError
from fedplug_vllm.channel import ChannelWriter, Layout

__all__ = ["Published", "Publisher", "mesh_of", "shards"]

KEPT_SNAPSHOTS = 2
"""A server that is slower than the steps between two snapshots still finds the older one."""

NamedTensors = Iterable[tuple[str, torch.Tensor]]


@dataclass(frozen=True)
class Published:
    """A step of this rank: its number, the bytes of its messages, and the seconds that it took.

    Attributes:
        number: The number of the step, the same on all ranks.
        change_bytes: The bytes that a server of the last version fetches. None in the first step.
        snapshot_bytes: The bytes that a new server fetches. None unless this step has a snapshot.
        model_bytes: The bytes of this rank's tensors.
        seconds: The time to copy, encode and write.
    """

    number: int
    change_bytes: int | None
    snapshot_bytes: int | None
    model_bytes: int
    seconds: float


class Publisher:
    """Writes versions of a model, or of the part of it that one rank holds.

    The memory is twice that of the changed arrays: the last version and the new one, on the host.

    >>> import tempfile, torch
    >>> publisher = Publisher(tempfile.mkdtemp())
    >>> layer = torch.nn.Linear(64, 32)
    >>> publisher.publish(layer.named_parameters()).number
    1
    """

    def __init__(self, url: str, *, part: int = 0, parts: int = 1, snapshot_every: int = 16) -> None:
        """Continues the steps of an earlier trainer at this address.

        Args:
            url: Where to write: a folder, or any address that fsspec writes to.
            part: The number of this rank's part.
            parts: The number of ranks that each write a part.
            snapshot_every: The number of steps between two snapshots, from which a new server begins.

        Raises:
            ArgumentError: A number is too small.
        """
        if not 0 <= part < parts or snapshot_every < 1:
            raise ArgumentError(
                f"part is {part} of {parts}, and snapshot_every {snapshot_every}; part must be from 0 to "
                "parts - 1, and snapshot_every at least 1"
            )
        self._every, self._until_snapshot = snapshot_every, 0
        # It keeps the base of the next difference, whatever the size of the model.
        self._broadcaster = fedplug.Broadcaster("lossless", keep=2, keep_bytes=sys.maxsize)
        self._writer = ChannelWriter(url, part, parts, KEPT_SNAPSHOTS)

    def publish(self, tensors: NamedTensors, layout: Layout | None = None) -> Published:
        """Writes a version. Servers find it by themselves, and go on answering.

        Args:
            tensors: The weights by their names in the checkpoint, on any device.
            layout: The place of this rank's rows, from `shards`. None if the tensors are whole.

        Raises:
            ArgumentError: A tensor cannot be sent. The message names it.
        """
        start = time.perf_counter()
        self._writer.number += 1  # also of a step that fails here, which other ranks may have written
        until_snapshot, self._until_snapshot = self._until_snapshot, 0  # which a failed step makes due
        host = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors}
        base = self._broadcaster.version
        version = self._broadcaster.publish(host)
        change = None if base is None else self._broadcaster.message(base)
        snapshot = self._broadcaster.message() if until_snapshot == 0 else None
        self._writer.write(version, base, change, snapshot, layout)
        self._until_snapshot = (until_snapshot or self._every) - 1
        return Published(
            self._writer.number,
            None if change is None else len(change),
            None if snapshot is None else len(snapshot),
            sum(tensor.nbytes for tensor in host.values()),
            time.perf_counter() - start,
        )


def shards(parameters: NamedTensors) -> tuple[dict[str, torch.Tensor], Layout]:
    """Returns this rank's rows of parameters that ``fully_shard`` divided, without communication.

    Args:
        parameters: DTensors that are sharded once, by their first dimension, or tensors that are the same on
            all ranks, which rank 0 sends.

    Raises:
        ArgumentError: A parameter is sharded in another way, or none is. The message names it.
    """
    named = dict(parameters)
    mesh = mesh_of(named.values())
    local, layout = {}, {}
    for name, tensor in named.items():
        shape = tuple(tensor.shape)
        if not hasattr(tensor, "to_local"):
            if mesh.get_local_rank() > 0:
                continue
            rows, first = tensor, 0
        elif [str(placement) for placement in tensor.placements] == ["S(0)"]:
            rows = tensor.to_local()
            first = -(-shape[0] // mesh.size()) * mesh.get_local_rank()  # equal rows, and fewer at the end
        else:
            raise ArgumentError(
                f"parameter {name!r} is sharded as {tensor.placements}; it must be sharded once, by its "
                "first dimension; otherwise gather it, as vLLM's ModuleSource does"
            )
        local[name], layout[name] = rows, (first, shape)
    return local, layout


def mesh_of(parameters: Iterable[torch.Tensor]) -> DeviceMesh:
    """Returns the ranks among which ``fully_shard`` divided parameters.

    Raises:
        ArgumentError: No parameter is sharded, or they are sharded in two ways.
    """
    for tensor in parameters:
        if hasattr(tensor, "device_mesh"):
            mesh: DeviceMesh = tensor.device_mesh
            if mesh.ndim > 1:
                raise ArgumentError(f"the shards are on a mesh of {mesh.ndim} dimensions; use ModuleSource")
            return mesh
    raise ArgumentError("no parameter is a DTensor; call fully_shard first, or use ModuleSource")
