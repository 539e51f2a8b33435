"""A process group of fedplug's own, in which no message meets those of the program."""

from __future__ import annotations

import weakref
from datetime import timedelta

import torch.distributed as dist

from fedplug.errors import ArgumentError

__all__ = ["OwnGroup"]

_made: weakref.WeakKeyDictionary[dist.ProcessGroup, dict[str, dist.ProcessGroupGloo | None]] = (
    weakref.WeakKeyDictionary()
)
"""The groups by name, by start of torch.distributed. None for one that an object has alone."""


class OwnGroup:
    """A gloo group for the ranks of a process group, made on first use and again after a new start.

    The program's group may run on GPUs only, or have receives posted that would take any message. Groups of
    `dist.new_group` have names that depend on the number of groups of each rank. Names of this class do not.
    Objects with the same ranks share a group, so that a copy on one rank can replace an original.
    """

    def __init__(self, given: dist.ProcessGroup | None = None, *, alone: bool = False) -> None:
        """Takes the process group with the ranks.

        Args:
            given: The program's process group; by default all ranks of each start.
            alone: Whether the object shares its group with no other, because a thread uses it.
        """
        self._alone = alone
        self._given = None if dist.is_initialized() and given is dist.group.WORLD else given
        self._own: dist.ProcessGroupGloo | None = None
        self._start: weakref.ref[dist.ProcessGroup] | None = None

    def __getstate__(self) -> dict[str, object]:
        """Omits the connections.

        Raises:
            ArgumentError: A group was given, which cannot be copied.
        """
        if self._given is not None:
            raise ArgumentError("an object with a process group cannot be copied; save its state_dict()")
        return {**self.__dict__, "_own": None, "_start": None}

    @property
    def given(self) -> dist.ProcessGroup | None:
        """The program's process group. None for all ranks."""
        return self._given

    @property
    def index(self) -> int:
        """The place of this rank in the group."""
        return self.ranks().index(dist.get_rank())

    @property
    def place(self) -> tuple[int, int]:
        """The rank of this process in torch.distributed, and the number of ranks in the group."""
        ranks = self.ranks()
        return dist.get_rank(), len(ranks)

    def ranks(self) -> list[int]:
        """Returns the ranks of the group.

        Raises:
            ArgumentError: torch.distributed is not initialized, or the given group is not one of this rank.
        """
        if not dist.is_initialized():
            raise ArgumentError("torch.distributed is not initialized; call init_process_group('gloo') first")
        try:
            return dist.get_process_group_ranks(self._given or dist.group.WORLD)
        except KeyError as error:
            raise ArgumentError(
                "the process group was destroyed, or this rank is not in it; pass process_group= of the "
                "present start of torch.distributed, one that has this rank"
            ) from error

    def connected(self) -> dist.ProcessGroupGloo:
        """Returns fedplug's own group. All its ranks wait for each other to make one."""
        ranks, world = self.ranks(), dist.group.WORLD
        made = _made.setdefault(world, {})
        name = "fedplug/" + ",".join(map(str, ranks))
        if self._alone:
            if self._own is None or self._start is None or self._start() is not world:
                name = f"{name}/{sum(other.startswith(name + '/') for other in made)}"
                self._own, self._start, made[name] = self._connect(name, ranks), weakref.ref(world), None
            return self._own
        group = made.get(name)
        if group is None:
            group = made[name] = self._connect(name, ranks)
        return group

    def _connect(self, name: str, ranks: list[int]) -> dist.ProcessGroupGloo:
        store = dist.PrefixStore(name, dist.distributed_c10d._get_default_store())
        timeout = _timeout(self._given or dist.group.WORLD)
        group = dist.ProcessGroupGloo(store, self.index, len(ranks), timeout)
        group.barrier(dist.BarrierOptions()).wait()  # no rank may close its group while others connect
        return group


def _timeout(group: dist.ProcessGroup) -> timedelta:
    """Returns the timeout that the program chose for its group."""
    return group._get_backend(group._device_types[0]).options._timeout
