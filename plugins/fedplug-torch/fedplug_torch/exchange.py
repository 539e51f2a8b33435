"""Exchanges payloads between all ranks over torch.distributed.

Sizes travel before bytes, so that no rank allocates more than makes sense, and no rank waits for another that
has given up. Every message is sent from one rank to another, because unlike those of collectives, such
messages have any size.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray

from fedplug.errors import ArgumentError, FedplugError, PayloadError
from fedplug_torch.process_group import OwnGroup

__all__ = ["Exchange", "RankError"]

_FORMS = {"parameters": 2**30}
"""The name and maximum size of the text that describes the parameters of a rank."""

_MAX_ERROR_BYTES = 2000
"""Maximum size of the error message for the other ranks."""

Names = Mapping[str, int]
"""The names of payloads, in the order in which they are sent, with their maximum sizes."""


_Message = tuple[Sequence[int], NDArray[np.uint8]]
"""Minus the length of an error, or 0, and the sizes of payloads. Then the bytes of either."""


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
        self._ranks, self.index, self.place = group.ranks(), group.index, group.place
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
        message = [0, *map(len, payloads.values())], _joined(payloads.values())
        return self._exchange([message] * len(self._ranks), self._of_each(max_bytes))

    @contextlib.contextmanager
    def agreed(self, what: str) -> Iterator[None]:
        """Runs the body of a ``with`` on all ranks, and raises an error on all of them if one raises one.

        Args:
            what: A verb phrase for the error: "rank 1 could not {what}: ...".

        Raises:
            RankError: The body has raised an error on a rank.
        """
        with self.telling({}, what):
            yield
        self.all_gather({}, {})

    @contextlib.contextmanager
    def telling(self, max_bytes: Names | Sequence[Names], what: str = "encode") -> Iterator[None]:
        """Joins the others' `all_gather` with an error of the body of a ``with`` instead of payloads.

        Args:
            max_bytes: The same as in `all_gather`.
            what: A verb phrase for the error, as in `agreed`.

        Raises:
            RankError: The body has raised an error. It is raised on this and the other ranks.
        """
        try:
            yield
        except Exception as error:
            names = self._of_each(max_bytes)
            message = _error_message(error, what, len(names[self.index]))
            self._exchange([message] * len(self._ranks), names)
            raise  # not reached

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
            ([0, *map(len, mine.values())], _joined(mine.values()))
            if error is None
            else _error_message(error, "encode", len(mine))
            for mine in payloads
        ]
        return self._exchange(messages, [max_bytes] * len(self._ranks), vote=True)

    def _of_each(self, max_bytes: Names | Sequence[Names]) -> Sequence[Names]:
        return [max_bytes] * len(self._ranks) if isinstance(max_bytes, Mapping) else max_bytes

    def _exchange(
        self, messages: Sequence[_Message], max_bytes: Sequence[Names], *, vote: bool = False
    ) -> dict[str, dict[str, NDArray[np.uint8]]]:
        """Exchanges the sizes and then the bytes of a message for each rank. Ranks may vote on the sizes."""
        received = self._swapped(
            [_numbers(sizes) for sizes, _ in messages], [8 * (1 + len(names)) for names in max_bytes]
        )
        announced, mine = [theirs.view(np.int64) for theirs in received], [data for _, data in messages]
        lengths = [min(max(0, -int(theirs[0])), _MAX_ERROR_BYTES) for theirs in announced]
        if any(lengths):
            texts = self._swapped(mine if lengths[self.index] else [data[:0] for data in mine], lengths)
            raise RankError(
                "; ".join(
                    f"rank {rank} {text.tobytes().decode(errors='replace')}"
                    for rank, text in zip(self._ranks, texts, strict=True)
                    if len(text)
                )
            )
        with self.agreed("take payloads") if vote else contextlib.nullcontext():
            for rank, theirs, names in zip(self._ranks, announced, max_bytes, strict=True):
                _require_sizes(rank, theirs[1:], names)
        found, sizes = {}, [theirs[1:] for theirs in announced]
        for rank, message, theirs, names in zip(
            self._ranks,
            self._swapped(mine, [int(each.sum()) for each in sizes]),
            sizes,
            max_bytes,
            strict=True,
        ):
            parts = np.split(message, np.cumsum(theirs)[:-1]) if names else []
            found[f"rank {rank}"] = dict(zip(names, parts, strict=True))
        return found

    def _swapped(
        self, messages: Sequence[NDArray[np.uint8]], lengths: Sequence[int]
    ) -> list[NDArray[np.uint8]]:
        """Sends a message to each rank, unless it is empty, and returns theirs, of known lengths."""
        received = [np.empty(length, np.uint8) for length in lengths]
        works, group = [], self._connection
        for index in range(len(self._ranks)):
            if index == self.index:
                received[index] = messages[index]
                continue
            if received[index].size:
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


def _require_sizes(rank: int, sizes: NDArray[np.int64], max_bytes: Names) -> None:
    for size, (name, limit) in zip(sizes.tolist(), max_bytes.items(), strict=True):
        if not 0 <= size <= limit:
            raise PayloadError(
                f"rank {rank}, parameter {name!r}: it announces a payload of {size} bytes; "
                f"at most {limit} make sense for this parameter"
            )


def _error_message(error: Exception, what: str, payloads: int) -> _Message:
    """Returns a message with an error in place of a number of payloads."""
    text = f"could not {what}: {type(error).__name__}: {error}".encode()[:_MAX_ERROR_BYTES]
    return [-len(text)] + [0] * payloads, _joined([text])


def _numbers(numbers: Iterable[int]) -> NDArray[np.uint8]:
    return np.fromiter(numbers, np.int64).view(np.uint8)


def _joined(payloads: Iterable[bytes]) -> NDArray[np.uint8]:
    return np.frombuffer(bytearray().join(payloads), np.uint8)
