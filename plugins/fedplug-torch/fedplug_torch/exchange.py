"""Exchanges payloads between all ranks over torch.distributed.

There are two collectives: one for sizes, one for bytes. Every rank sees the same sizes and bytes, so an
invalid message is an error on every rank, and no rank waits for another that has given up.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray

from fedplug.errors import ArgumentError, FedplugError, PayloadError

__all__ = ["Exchange", "RankError", "copied_group"]

_FORMS = {"parameters": 2**30}
"""The name and maximum size of the text that describes the parameters of a rank."""

_MAX_ERROR_BYTES = 2000
"""Maximum size of the error message for the other ranks."""

_ERROR = -1
"""The first size of a rank that sends an error message instead of payloads."""


class RankError(FedplugError, RuntimeError):
    """An error of one rank that is raised on every rank; the message names the rank and the cause."""


class Exchange:
    """Sends one rank's payloads to all ranks of a process group, as CPU tensors.

    Attributes:
        place: The rank of this process in torch.distributed, and the number of participating ranks.
    """

    def __init__(self, group: dist.ProcessGroup | None = None) -> None:
        """Joins a group; by default that of all ranks.

        Raises:
            ArgumentError: torch.distributed is not initialized, or the group does not support CPU tensors.
        """
        if not dist.is_initialized():
            raise ArgumentError("torch.distributed is not initialized; call init_process_group('gloo') first")
        backends = str(dist.get_backend_config(group))
        if "cpu:" not in backends:
            raise ArgumentError(
                f"payloads travel as CPU tensors, and the process group has {backends}; initialize with "
                "'cpu:gloo,cuda:nccl', or pass process_group=torch.distributed.new_group(backend='gloo')"
            )
        self._group = group
        self._ranks: list[int] = dist.get_process_group_ranks(group)
        self.place: tuple[int, int] = (dist.get_rank(), len(self._ranks))

    def broadcast(self, tensors: Iterable[torch.Tensor]) -> None:
        """Overwrites the tensors of the other ranks with the first rank's."""
        for tensor in tensors:
            host = tensor.detach().cpu().contiguous()
            dist.broadcast(host, src=self._ranks[0], group=self._group)
            tensor.detach().copy_(host)

    def require_same(self, forms: Mapping[str, str], what: str = "parameters") -> None:
        """Compares the parameters of all ranks, or something else, before they are exchanged.

        Args:
            forms: Dtype and shape of each parameter, by name; or other texts.
            what: The name of the compared things in the error.

        Raises:
            ArgumentError: The texts differ between ranks; raised on every rank, with their names.
            RankError: A rank called `tell`.
        """
        texts = self.all_gather({"parameters": json.dumps(list(forms.items())).encode()}, _FORMS)
        by_rank = {rank: dict(json.loads(text["parameters"].tobytes())) for rank, text in texts.items()}
        if differences := _differences(by_rank):
            raise ArgumentError(f"the {what} are not the same on all ranks: {'; '.join(differences)}")

    def tell(self, error: Exception) -> None:
        """Joins the others' `require_same` with an error, which this rank raises itself."""
        with contextlib.suppress(RankError):
            self.all_gather_error(error, _FORMS)

    def all_gather(
        self, payloads: Mapping[str, bytes], max_bytes: Mapping[str, int]
    ) -> dict[str, dict[str, NDArray[np.uint8]]]:
        """Sends this rank's payloads to all ranks, and returns theirs.

        Args:
            payloads: This rank's payloads, with the same names and order on every rank. A payload may be
                empty.
            max_bytes: Maximum size of each payload by name; no rank allocates more.

        Returns:
            Untrusted bytes by name for each of ``"rank 0"`` and so on, in the order of ranks.

        Raises:
            PayloadError: A rank announces a larger or a negative size.
            RankError: A rank called `all_gather_error`.
        """
        sizes = np.array([0, *map(len, payloads.values())], np.int64)
        return self._all_gather(sizes, b"".join(payloads.values()), max_bytes)

    def all_gather_error(self, error: Exception, max_bytes: Mapping[str, int]) -> None:
        """Joins the others' `all_gather` with an error instead of payloads.

        Args:
            error: The error of this rank.
            max_bytes: Maximum size of each payload by name, the same as in `all_gather`.

        Raises:
            RankError: Always, on this and the other ranks.
        """
        text = f"{type(error).__name__}: {error}".encode()[:_MAX_ERROR_BYTES]
        sizes = np.zeros(1 + len(max_bytes), np.int64)
        sizes[:2] = _ERROR, len(text)
        self._all_gather(sizes, text, max_bytes)

    def _all_gather(
        self, sizes: NDArray[np.int64], message: bytes, max_bytes: Mapping[str, int]
    ) -> dict[str, dict[str, NDArray[np.uint8]]]:
        all_sizes = self._gathered(sizes)
        self._raise_errors(all_sizes, message)
        for rank, theirs in zip(self._ranks, all_sizes, strict=True):
            _require_sizes(rank, theirs[1:], max_bytes)
        messages = self._messages(message, [int(theirs.sum()) for theirs in all_sizes])
        return {
            f"rank {rank}": _split(theirs, sizes_of_theirs[1:], max_bytes)
            for rank, theirs, sizes_of_theirs in zip(self._ranks, messages, all_sizes, strict=True)
        }

    def _raise_errors(self, all_sizes: Sequence[NDArray[np.int64]], message: bytes) -> None:
        """Raises an error if any rank has one, after all ranks have exchanged the texts."""
        failed = [theirs[0] == _ERROR for theirs in all_sizes]
        if not any(failed):
            return
        lengths = [
            min(max(0, int(theirs[1])), _MAX_ERROR_BYTES) if wrong else 0
            for theirs, wrong in zip(all_sizes, failed, strict=True)
        ]
        texts = self._messages(message[: lengths[self._ranks.index(self.place[0])]], lengths)
        reports = [
            f"rank {rank} could not encode: {text.tobytes().decode(errors='replace')}"
            for rank, text, wrong in zip(self._ranks, texts, failed, strict=True)
            if wrong
        ]
        raise RankError("; ".join(reports))

    def _messages(self, mine: bytes, lengths: Sequence[int]) -> list[NDArray[np.uint8]]:
        """Exchanges messages; gloo gathers equal lengths only, so shorter ones are padded."""
        padded = np.zeros(max(lengths), np.uint8)
        padded[: len(mine)] = np.frombuffer(mine, np.uint8)
        gathered = self._gathered(padded) if padded.size else [padded] * len(self._ranks)
        return [theirs[:length] for theirs, length in zip(gathered, lengths, strict=True)]

    def _gathered(self, mine: NDArray[Any]) -> list[NDArray[Any]]:
        received = [torch.from_numpy(np.empty_like(mine)) for _ in self._ranks]
        dist.all_gather(received, torch.from_numpy(mine), group=self._group)
        return [tensor.numpy() for tensor in received]


def copied_group(group: dist.ProcessGroup | None) -> None:
    """Returns the process group of a copy: the default one, as for a copied DDP model.

    Raises:
        ArgumentError: The group is another one, which cannot be copied.
    """
    if group not in (None, dist.group.WORLD):
        raise ArgumentError("what has a process group of its own cannot be copied; save its state_dict()")


def _differences(by_rank: Mapping[str, Mapping[str, str]]) -> list[str]:
    """Describes each parameter that differs between ranks."""
    found = []
    for name in dict.fromkeys(name for forms in by_rank.values() for name in forms):
        ranks: dict[str, list[str]] = {}
        for rank, forms in by_rank.items():
            ranks.setdefault(forms.get(name, "missing or frozen"), []).append(rank)
        if len(ranks) > 1:
            found.append(
                f"{name!r} is " + ", ".join(f"{form} on {' and '.join(ranks[form])}" for form in ranks)
            )
    first, *others = map(list, by_rank.values())
    if not found and any(names != first for names in others):
        found.append("their order")
    return found


def _require_sizes(rank: int, sizes: NDArray[np.int64], max_bytes: Mapping[str, int]) -> None:
    for size, (name, limit) in zip(sizes.tolist(), max_bytes.items(), strict=True):
        if not 0 <= size <= limit:
            raise PayloadError(
                f"rank {rank}, parameter {name!r}: it announces a payload of {size} bytes; "
                f"at most {limit} make sense for this parameter"
            )


def _split(
    message: NDArray[np.uint8], sizes: NDArray[np.int64], names: Mapping[str, int]
) -> dict[str, NDArray[np.uint8]]:
    ends = np.cumsum(sizes)
    return {name: message[end - size : end] for name, size, end in zip(names, sizes, ends, strict=True)}
