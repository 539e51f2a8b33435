"""The contract of a client-state store: the docstrings, which the conformance suite tests."""

from __future__ import annotations

import abc
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from fedplug.errors import CorruptStoreError, StoreError
from fedplug.stores.read_only import give_up

if TYPE_CHECKING:
    from typing import Self  # Python 3.11

__all__ = ["PlacedState", "ProcessState", "StateStore", "Tensors"]

Tensors = Mapping[str, np.ndarray[Any, Any]]
"""The state of one client, or of the server: arrays by tensor name."""


class StateStore(abc.ABC):
    """Keeps the state of clients and server between the rounds of any number of training processes.

    A store is used by one thread at a time, and opened by one user at a time: opening it again while it is
    open, in this process or in another, is a `StoreError` (a store that lives in one object, such as
    ``memory://``, has no second opening). There are no separate readers, so what was read cannot change under
    a reader.

    All errors are `fedplug.errors.StoreError` or its subclasses, with a message of one line. After `close`,
    every call but `close` raises one.
    """

    name: ClassVar[str]
    """The scheme of this store's URLs, and its name in the registry, for instance ``"sqlite"``."""

    @classmethod
    @abc.abstractmethod
    def from_url(cls, url: str) -> Self:
        """Opens the store that a URL names, and creates it where there is none.

        Raises:
            ConfigError: The URL is not of the form that this store documents.
            StoreError: The store cannot be opened: it is in use, is no such store, was written by a newer
                release ...
        """

    @classmethod
    def look_into(cls, url: str) -> StateStore:
        """Opens the store that a URL names for whoever only reads.

        A store may do better than this default, which is `from_url`: make none where there is none, and show
        one that is open elsewhere as it was at one moment.

        Raises:
            ConfigError: As `from_url`.
            StoreError: As `from_url`; also, perhaps, that there is none.
        """
        return cls.from_url(url)

    @abc.abstractmethod
    def get_config(self) -> dict[str, Any]:
        """The keyword arguments that open this store again; JSON values only."""

    @abc.abstractmethod
    def open_process(self, process_id: str, signature: Mapping[str, Any] | None = None) -> ProcessState:
        """The state kept for one training process; empty when it is new.

        Args:
            process_id: Any text.
            signature: A JSON object that describes what the state means: the model's structure, the encoder's
                configuration. It is recorded the first time and compared every time after. None: whichever it
                is kept under, for whoever looks into a store and does not train.

        Raises:
            StoreError: There is no signature, and no such process.
            StoreMismatchError: The process is kept under another signature; the message lists the first
                differences.
        """

    @abc.abstractmethod
    def processes(self) -> list[str]:
        """The ids of all processes ever opened, sorted."""

    @abc.abstractmethod
    def close(self) -> None:
        """Releases files and locks. Committed rounds need no `close` to be safe; closing twice is legal."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class ProcessState(abc.ABC):
    """What a store keeps for one training process: the state as of the last committed round, no older.

    State is made of named arrays: any tensor name, any shape (scalars and empty arrays too), and as dtypes
    the bool, integer, float, complex64, bfloat16 and float8 types that safetensors knows. A client id is any
    text that UTF-8 can encode; it is never part of a file name.

    Arrays handed in are not kept, unless nobody can write to them; arrays handed out belong to the caller,
    but those of `view_clients`. Changing what can be changed changes nothing in the store.
    """

    @property
    @abc.abstractmethod
    def signature(self) -> Any:
        """The JSON object under which the process is kept."""

    @property
    @abc.abstractmethod
    def last_round(self) -> int | None:
        """The round committed last; None before the first commit."""

    @property
    @abc.abstractmethod
    def metadata(self) -> Any:
        """The JSON value committed with the last round; None before the first commit."""

    @abc.abstractmethod
    def client_ids(self) -> list[str]:
        """The clients that have state, sorted."""

    @abc.abstractmethod
    def read_clients(self, client_ids: Iterable[str]) -> dict[str, dict[str, np.ndarray[Any, Any]]]:
        """The state of those of the clients that have one, in the order asked for.

        A client is left out only when nothing was ever committed for it.

        Raises:
            CorruptStoreError: The state of a client is damaged. The message names process, client, round,
                file and offset; nothing is returned in its place.
        """

    def view_clients(self, client_ids: Iterable[str]) -> dict[str, dict[str, np.ndarray[Any, Any]]]:
        """As `read_clients`, for who only reads: arrays that nobody can write to, perhaps the store's own."""
        states = self.read_clients(client_ids)
        for state in states.values():
            for array in state.values():
                give_up(array)
        return states

    @abc.abstractmethod
    def read_server(self) -> dict[str, np.ndarray[Any, Any]] | None:
        """The server state of the last round; None before the first commit.

        Raises:
            CorruptStoreError: As in `read_clients`.
        """

    @abc.abstractmethod
    def commit(
        self,
        round_num: int,
        *,
        client_states: Mapping[str, Tensors],
        server_state: Tensors,
        metadata: Any = None,
    ) -> None:
        """Makes a round permanent: all of it or, when this raises, nothing of it.

        If the machine stops before this returns, the store has all of the round or nothing of it. When this
        returns, a store on disk has the round on the disk. A client's state is replaced as a whole; clients
        that are not named keep what they have.

        Args:
            round_num: ``last_round + 1``, or any number when there is no round yet.
            client_states: The new state of the clients that took part.
            server_state: The new state of the server.
            metadata: A JSON value, as ``json.dumps`` writes it: history, the sampler's position ...

        Raises:
            StoreError: The round number is not the next one, a value cannot be stored, or the disk is full.
                The previous round is intact and the store remains usable.
        """

    def rewind(self, round_num: int) -> None:
        """Goes back to a round that is kept; those after it are gone, and the next commit follows it.

        By default a store keeps no round but the last.

        Raises:
            StoreError: The round is not kept; the message says which are.
        """
        raise StoreError(f"round {round_num} is not kept: this store keeps no round but the last")

    @abc.abstractmethod
    def damage(self) -> Iterator[str]:
        """Reads everything that is kept for this process; yields one line for each damage.

        Each line names what a `CorruptStoreError` of `read_clients` names.
        """

    def verify(self) -> None:
        """Reads everything that is kept for this process and checks it.

        Raises:
            CorruptStoreError: Names the first damage, and says how much there is; `damage` lists all.
        """
        damage = list(self.damage())
        if damage:
            more = f" (and {len(damage) - 1} more; `fedplug store verify` lists all)" if damage[1:] else ""
            raise CorruptStoreError(f"{damage[0]}{more}")


class PlacedState(ProcessState):
    """What a store on many machines adds: clients run where their states are, which nobody else then sees.

    A runtime that knows such references hands each client its state, and returns in the place of its next
    state what `commit` takes for it.
    """

    @abc.abstractmethod
    def arranged(self, client_ids: Sequence[str]) -> list[str]:
        """The clients of a round in the order in which to run them.

        Those that are neighbours can be run together. It does not depend on the machines that there are.
        """

    @abc.abstractmethod
    def references(self, client_ids: Sequence[str], initial: Tensors) -> list[Any]:
        """What stands for the states of these clients, until the next `commit`.

        Args:
            client_ids: In the order wanted.
            initial: The state of those that have none.

        Raises:
            StoreError: The states cannot be reached.
        """
