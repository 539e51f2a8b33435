"""The contract of a client-state store. The conformance suite tests the docstrings' promises."""

from __future__ import annotations

import abc
import mmap
from collections.abc import Iterable, Iterator, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fedplug.errors import CorruptStoreError, StoreError

if TYPE_CHECKING:
    from typing import Self  # Python 3.11

__all__ = ["Json", "ProcessState", "State", "StateStore", "Tensors", "can_be_written", "give_up"]

Tensors: TypeAlias = Mapping[str, NDArray[np.generic]]
"""The state of one client, or of the server: arrays by tensor name."""

State: TypeAlias = dict[str, NDArray[np.generic]]
"""A state that its reader owns."""

Json: TypeAlias = Any
"""A JSON value."""


class StateStore(abc.ABC):
    """Keeps the state of clients and server between the rounds of any number of training processes.

    A store has at most one user at a time, which is one process with any number of threads. Each call takes
    effect as a whole, before or after the calls of other threads. `fedplug.stores.turns` has a lock for that.
    Opening a store that is already open, in this process or another, raises `StoreError`. A store that lives
    in one object, such as ``memory://``, cannot be opened twice.

    All errors are `fedplug.errors.StoreError` or subclasses, with a message of one line. After `close`,
    every call except `close` raises one.
    """

    name: ClassVar[str]
    """The scheme of this store's URLs and its name in the registry, such as ``"sqlite"``."""

    def __repr__(self) -> str:
        return f"<{self.name} store>"  # not its configuration, which may have a password

    @classmethod
    @abc.abstractmethod
    def from_url(cls, url: str) -> Self:
        """Opens the store at a URL, and creates it if there is none.

        Raises:
            ConfigError: The URL does not have the form that this store documents.
            StoreError: The store cannot be opened: it is in use, is not such a store, was written by a newer
                release ...
        """

    @classmethod
    def look_into(cls, url: str) -> StateStore:
        """Opens the store at a URL for reading only.

        The default calls `from_url`. A store may override it to create nothing, and to show a consistent
        snapshot of a store that is open elsewhere.

        Raises:
            ConfigError: See `from_url`.
            StoreError: See `from_url`. A store may also raise it if there is no store.
        """
        return cls.from_url(url)

    @abc.abstractmethod
    def get_config(self) -> dict[str, Json]:
        """Returns the keyword arguments that open this store again, as JSON values."""

    @abc.abstractmethod
    def open_process(self, process_id: str, signature: Mapping[str, object] | None = None) -> ProcessState:
        """Returns the state of one training process, which is empty for a new process.

        Args:
            process_id: The id of the process. Any text.
            signature: A JSON object that identifies the meaning of the state: the model's structure and the
                encoder's configuration. The first call records it, and later calls compare it. None accepts
                any recorded signature, for readers that do not train.

        Raises:
            StoreError: ``signature`` is None and there is no such process.
            StoreMismatchError: The process has another signature. The message lists the first differences.
        """

    @abc.abstractmethod
    def processes(self) -> list[str]:
        """Returns the ids of all processes ever opened, sorted."""

    @abc.abstractmethod
    def close(self) -> None:
        """Releases files and locks. Closing twice is allowed. Committed rounds are safe without `close`."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class ProcessState(abc.ABC):
    """The state of one training process in a store, as of the last committed round.

    A state maps tensor names to arrays. Any name and any shape is allowed, including scalars and empty
    arrays. The dtypes are the bool, integer, float, complex64, bfloat16 and float8 types of safetensors.
    A client id is any text that UTF-8 can encode. It is never part of a file name.

    The store copies arrays it is given, unless they are read-only. It returns arrays that the caller owns,
    except from `view_clients`. Writing to either kind of array never changes the store.
    """

    @property
    @abc.abstractmethod
    def signature(self) -> Json:
        """The JSON object that identifies the meaning of the state. See `StateStore.open_process`."""

    @property
    @abc.abstractmethod
    def last_round(self) -> int | None:
        """The last committed round. None before the first commit."""

    @property
    @abc.abstractmethod
    def metadata(self) -> Json:
        """The JSON value committed with the last round. None before the first commit."""

    @abc.abstractmethod
    def client_ids(self) -> list[str]:
        """Returns the clients that have state, sorted."""

    @abc.abstractmethod
    def read_clients(self, client_ids: Iterable[str]) -> dict[str, State]:
        """Returns the states of the given clients, in the order given.

        Clients for which nothing was ever committed are left out.

        Raises:
            CorruptStoreError: The state of a client is damaged. The message names process, client, round,
                file and offset. Damaged state is never replaced by other state.
        """

    def view_clients(self, client_ids: Iterable[str]) -> dict[str, State]:
        """Like `read_clients`, but returns read-only arrays, possibly without copying."""
        states = self.read_clients(client_ids)
        for state in states.values():
            for array in state.values():
                give_up(array)
        return states

    @abc.abstractmethod
    def read_server(self) -> State | None:
        """Returns the server state of the last round. None before the first commit.

        Raises:
            CorruptStoreError: The state is damaged. See `read_clients`.
        """

    @abc.abstractmethod
    def commit(
        self,
        round_num: int,
        *,
        client_states: Mapping[str, Tensors],
        server_state: Tensors,
        metadata: object = None,
    ) -> None:
        """Commits a round atomically: all of it, or nothing if this raises.

        If the machine stops before this returns, the store has all of the round or none of it. After this
        returns, a store on disk has written the round durably. Each client's state is replaced as a whole.
        Clients that are not named keep their state.

        Args:
            round_num: The next round: ``last_round + 1``, or any number before the first commit.
            client_states: The new state of the clients that took part.
            server_state: The new state of the server.
            metadata: A JSON value for ``json.dumps``, such as the history or the sampler's position.

        Raises:
            StoreError: The round number is not the next one, a value cannot be stored, or the disk is full.
                The previous round is intact and the store remains usable.
        """

    def rewind(self, round_num: int) -> None:
        """Rolls back to a kept round. Later rounds are discarded, and the next commit follows this one.

        By default a store keeps only the last round.

        Raises:
            StoreError: The round is not kept. The message lists the kept rounds.
        """
        raise StoreError(f"round {round_num} is not kept: this store keeps only the last round")

    def drop_damaged(self) -> list[str]:
        """Drops damaged states, atomically. Returns one line for each.

        A client whose newest state is damaged starts afresh. If only an older kept state is damaged, the kept
        rounds that need it go instead. By default a store cannot do this.

        Raises:
            StoreError: The store cannot do this, or a disk operation fails.
            CorruptStoreError: The server's last state or a row is damaged. Nothing was dropped.
        """
        raise StoreError("only a store in a folder can drop states; database servers have their own tools")

    @abc.abstractmethod
    def damage(self) -> Iterator[str]:
        """Reads all data of this process and yields one line for each damage.

        Each line names process, client, round, file and offset, like the errors of `read_clients`.
        """

    def verify(self) -> None:
        """Reads and checks all data of this process.

        Raises:
            CorruptStoreError: Data is damaged. The message names the first damage and the number of others.
        """
        damage = list(self.damage())
        if damage:
            more = f" (and {len(damage) - 1} more; `fedplug store verify` lists all)" if damage[1:] else ""
            raise CorruptStoreError(f"{damage[0]}{more}")


def can_be_written(array: NDArray[np.generic]) -> bool:
    """Returns whether the values can change through the array, an array it views, or a mapped file.

    Arrays over other memory that are flagged read-only are trusted.
    """
    owner: object = array
    while isinstance(owner, np.ndarray):
        if owner.flags.writeable:
            return True
        owner = owner.base
    if isinstance(owner, memoryview):
        owner = owner.obj
    return isinstance(owner, mmap.mmap)


def give_up(array: NDArray[np.generic]) -> None:
    """Makes an array read-only. The caller must hold the only reference."""
    owner: object = array
    while isinstance(owner, np.ndarray):
        owner.flags.writeable = False
        owner = owner.base
