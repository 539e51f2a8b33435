"""Exchanges payloads between all ranks over torch.distributed.

Sizes travel before bytes, so that no rank allocates more than makes sense, and no rank waits for another that
has given up. Every message is sent from one rank to another, because unlike those of collectives, such
messages have any size.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray

from fedplug.errors import ArgumentError, FedplugError, PayloadError
from fedplug_torch.process_group import OwnGroup

__all__ = ["Exchange", "RankError"]

_FORMS = {"parameters": 2**30}
"""The name and maximum size of the text that describes the parameters of a rank."""

_NUMBER_BYTES = 8

_MAX_ERROR_BYTES = 2000
"""Maximum size of the error message for the other ranks."""

Names = Mapping[str, int]
"""The names of payloads, in the order in which they are sent, with their maximum sizes."""


_Message = tuple[NDArray[np.uint8], NDArray[np.uint8]]
"""Minus the length of an error, or 0, and the sizes of payloads, as int64. Then the error or the payloads."""


class RankError(FedplugError, RuntimeError):
    """An error of one rank that is raised on every rank. The message names the rank and the cause."""


class Exchange:
    """Sends one rank's payloads to all ranks of a process group, as CPU tensors.

    Attributes:
        place: The rank of this process in torch.distributed, and the number of participating ranks.
        index: The place of this rank in the group.
        bytes_sent: Bytes that this rank has sent to other ranks.
    """

    def __init__(self, group: OwnGroup) -> None:
        """Takes the group of the ranks, and connects to them unless they are.

        Raises:
            ArgumentError: torch.distributed is not initialized, or has no such group.
        """
        rank, self._ranks = dist.get_rank(), group.ranks()
        self.index, self.place = self._ranks.index(rank), (rank, len(self._ranks))
        self._connection = group.connected()  # for all messages, also if torch.distributed starts anew
        self.bytes_sent = 0

    def broadcast(self, tensors: Iterable[torch.Tensor]) -> None:
        """Overwrites the tensors of the other ranks with the first rank's."""
        for tensor in tensors:
            host = tensor.detach().cpu().contiguous()
            self._connection.broadcast([host], dist.BroadcastOptions()).wait()
            tensor.detach().copy_(host)

    def require_same(self, forms: Mapping[str, str], what: str = "parameters") -> None:
        """Compares the parameters of all ranks, or something else, before they are exchanged.

        Args:
            forms: Dtype and shape of each parameter, by name, or other texts.
            what: The name of the compared things in the error.

        Raises:
            ArgumentError: The texts differ between ranks, raised on every rank, with their names.
            RankError: A rank called `tell`.
        """
        texts = self.all_gather({"parameters": json.dumps(list(forms.items())).encode()}, _FORMS)
        by_rank = {rank: dict(json.loads(text["parameters"].tobytes())) for rank, text in texts.items()}
        if differences := _differences(by_rank):
            raise ArgumentError(f"the {what} are not the same on all ranks: {'; '.join(differences)}")

    def tell(self, error: Exception) -> None:
        """Joins the others' `require_same` with an error, which this rank raises itself."""
        with contextlib.suppress(RankError), self.telling(_FORMS):
            raise error

    def all_gather(
        self, payloads: Mapping[str, bytes], max_bytes: Names | Sequence[Names]
    ) -> dict[str, dict[str, NDArray[np.uint8]]]:
        """Sends this rank's payloads to all ranks, and returns theirs.

        Args:
            payloads: This rank's payloads by name. A payload may be empty.
            max_bytes: Maximum size of each payload by name, in the same order on every rank; a list has one
                mapping for each rank. No rank allocates more.

        Returns:
            Untrusted bytes by name for each of ``"rank 0"`` and so on, in the order of ranks.

        Raises:
            PayloadError: A rank announces a larger or a negative size.
            RankError: A rank has told an error, see `telling`.
        """
        message = _message(0, payloads.values())
        return self._exchange([message] * len(self._ranks), self._of_each(max_bytes))

    def agreed(self, what: str) -> AbstractContextManager[None]:
        """Runs the body of a ``with`` on all ranks, and raises an error on all of them if one raises one.

        Args:
            what: A verb phrase for the error: "rank 1 could not {what}: ...".

        Raises:
            RankError: The body has raised an error on a rank.
        """
        return _Telling(self, {}, what, ask=True)

    def telling(self, max_bytes: Names | Sequence[Names]) -> AbstractContextManager[None]:
        """Joins the others' `all_gather` with an error of the body of a ``with`` instead of payloads.

        Args:
            max_bytes: The same as in `all_gather`.

        Raises:
            RankError: The body has raised an error. It is raised on this and the other ranks.
        """
        return _Telling(self, max_bytes, "encode")

    def all_to_all(
        self,
        payloads: Sequence[Mapping[str, bytes]],
        max_bytes: Names,
        error: Exception | None = None,
    ) -> dict[str, dict[str, NDArray[np.uint8]]]:
        """Sends other payloads to every rank, and returns those for this rank.

        Args:
            payloads: The payloads for each rank by name. All ranks know the names.
            max_bytes: Maximum size of each payload for this rank, by name.
            error: The error of this rank if it has no payloads. Their values are not used then.

        Returns:
            Untrusted bytes by name for each of ``"rank 0"`` and so on, in the order of ranks.

        Raises:
            RankError: A rank has an error, or was announced a larger or a negative size. It is raised on
                every rank, before any payload is sent.
        """
        messages = [
            _message(0, mine.values()) if error is None else _error_message(error, "encode", len(mine))
            for mine in payloads
        ]
        return self._exchange(messages, [max_bytes] * len(self._ranks), vote=True)

    def _of_each(self, max_bytes: Names | Sequence[Names]) -> Sequence[Names]:
        return [max_bytes] * len(self._ranks) if isinstance(max_bytes, Mapping) else max_bytes

    def _exchange(
        self, messages: Sequence[_Message], max_bytes: Sequence[Names], *, vote: bool = False
    ) -> dict[str, dict[str, NDArray[np.uint8]]]:
        """Exchanges the sizes and then the bytes of a message for each rank. Ranks may vote on the sizes."""
        heads, mine = zip(*messages, strict=True)
        lengths, errors = [], []
        for names in max_bytes:
            lengths.append(_NUMBER_BYTES * (1 + len(names)))
        sizes = []
        for head in self._swapped(heads, lengths):
            number, *theirs = head.view(np.int64).tolist()
            errors.append(min(max(0, -number), _MAX_ERROR_BYTES))
            sizes.append(theirs)
        if any(errors):
            raise self._error(mine, errors)
        with self.agreed("take payloads") if vote else contextlib.nullcontext():
            _require_sizes(self._ranks, sizes, max_bytes)
        found: dict[str, dict[str, NDArray[np.uint8]]] = {}
        received = self._swapped(mine, list(map(sum, sizes)))
        for rank, message, theirs, names in zip(self._ranks, received, sizes, max_bytes, strict=True):
            payloads, begin = found.setdefault(f"rank {rank}", {}), 0
            for name, size in zip(names, theirs, strict=True):
                payloads[name] = message[begin : begin + size]
                begin += size
        return found

    def _error(self, mine: Sequence[NDArray[np.uint8]], lengths: Sequence[int]) -> RankError:
        """Returns the errors that ranks have in place of payloads, of these lengths."""
        texts = self._swapped(mine if lengths[self.index] else [data[:0] for data in mine], lengths)
        return RankError(
            "; ".join(
                f"rank {rank} {text.tobytes().decode(errors='replace')}"
                for rank, text in zip(self._ranks, texts, strict=True)
                if len(text)
            )
        )

    def _swapped(
        self, messages: Sequence[NDArray[np.uint8]], lengths: Sequence[int]
    ) -> list[NDArray[np.uint8]]:
        """Sends a message to each rank, unless it is empty, and returns theirs, of known lengths."""
        received, works, group = [], [], self._connection
        for index, length in enumerate(lengths):
            if index == self.index:
                received.append(messages[index])
                continue
            received.append(np.empty(length, np.uint8))
            if length:
                works.append(group.recv([torch.from_numpy(received[index])], index, 0))
            if messages[index].size:
                works.append(group.send([torch.from_numpy(messages[index])], index, 0))
                self.bytes_sent += messages[index].size
        for work in works:
            work.wait()
        return received


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


def _require_sizes(ranks: Sequence[int], sizes: Sequence[Sequence[int]], max_bytes: Sequence[Names]) -> None:
    for rank, theirs, names in zip(ranks, sizes, max_bytes, strict=True):
        for size, (name, limit) in zip(theirs, names.items(), strict=True):
            if not 0 <= size <= limit:
                raise PayloadError(
                    f"rank {rank}, parameter {name!r}: it announces a payload of {size} bytes; "
                    f"at most {limit} make sense for this parameter"
                )


def _message(error: int, payloads: Collection[bytes]) -> _Message:
    """Returns a message with payloads. ``error`` is minus the length of an error, or 0."""
    sizes = np.array([error, *map(len, payloads)], np.int64)
    return sizes.view(np.uint8), np.frombuffer(bytearray().join(payloads), np.uint8)


def _error_message(error: BaseException, what: str, payloads: int) -> _Message:
    """Returns a message with an error in place of a number of payloads."""
    text = f"could not {what}: {type(error).__name__}: {error}".encode()[:_MAX_ERROR_BYTES]
    return _message(-len(text), [b""] * payloads)[0], np.frombuffer(bytearray(text), np.uint8)


class _Telling(AbstractContextManager[None]):
    """Tells the other ranks an error of the body of a ``with``, and asks for theirs if wanted.

    A class is entered faster than a generator, and every step of training enters two.
    """

    def __init__(
        self, exchange: Exchange, max_bytes: Names | Sequence[Names], what: str, *, ask: bool = False
    ) -> None:
        self._exchange, self._max_bytes, self._what, self._asks = exchange, max_bytes, what, ask

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if isinstance(error, Exception):
            names = self._exchange._of_each(self._max_bytes)
            message = _error_message(error, self._what, len(names[self._exchange.index]))
            self._exchange._exchange([message] * len(names), names)
        elif error is None and self._asks:
            self._exchange.all_gather({}, {})
