"""The suite for client-state stores, on NumPy arrays."""

from __future__ import annotations

import abc
import contextlib
import functools
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, ClassVar

import ml_dtypes
import numpy as np

from fedplug.errors import StoreError, StoreMismatchError
from fedplug.stores.base import ProcessState, State, StateStore, Tensors, can_be_written
from fedplug.testing import crashes, expect
from fedplug.testing.rounds import state_of
from fedplug.testing.suite import NotApplicable, Suite, after

__all__ = ["StateStoreSuite"]

_SIGNATURE = {"model": [["w", [3, 2], "float32"]], "encoder": {"name": "topk", "fraction": 0.01}}
_OTHER_SIGNATURE = {"model": [["w", [3, 2], "float32"]], "encoder": {"name": "topk", "fraction": 0.5}}
_DTYPES = (
    *(np.bool_, np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64),
    *(np.float16, np.float32, np.float64, np.complex64),
    *(ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2),
)
_SHAPES = ((), (0,), (3, 0, 2), (5,), (2, 3))
_ODD_TEXTS = (
    *("", "/", "../../up", "a/b", "a\\b", "nul\0byte", "ümläut 🙂", "'; DROP TABLE blobs; --", "x" * 5000),
    *("server", "client:server", "__metadata__", "%", "new\nline", " "),
)
_PATIENCE = 0.1
"""Seconds that one thread waits for another, once in a check."""

_BASICS = "test_a_committed_round_is_read_back"


class StateStoreSuite(Suite, abc.ABC):
    """Checks the promises of `fedplug.stores.base.StateStore` and `ProcessState`.

    An author writes, in a test module::

        class TestRedis(fedplug.testing.StateStoreSuite):
            def make_store(self, folder):
                return RedisStore(...)
    """

    persistent: ClassVar[bool] = True
    """Whether a store opened again in the same folder finds what was committed; in memory it cannot."""

    @abc.abstractmethod
    def make_store(self, folder: Path) -> StateStore:
        """Opens the store of a folder, or a new one if the folder is empty."""

    def test_a_new_process_is_empty(self) -> None:
        with self._process() as process:
            found = (process.last_round, process.metadata, process.client_ids(), process.read_server())
            expect.that(found == (None, None, [], None), f"a new process holds {found}")
            expect.that(process.read_clients(["a"]) == {}, "a new process has a client 'a'")
            process.verify()

    def test_a_committed_round_is_read_back(self) -> None:
        client = {"b": np.arange(6, dtype=np.float32).reshape(3, 2), "a": np.array([True, False])}
        server = {"weights": np.ones((2, 2)), "clock": np.array(7)}
        with self._process() as process:
            process.commit(5, client_states={"c": client}, server_state=server, metadata={"x": [0.5, None]})
            found = (process.last_round, process.metadata)
            expect.that(found == (5, {"x": [0.5, None]}), f"round and metadata are {found}")
            expect.same_tensors("the client's state", process.read_clients(["c"])["c"], client)
            expect.same_tensors("the server's state", _server(process), server)
            process.verify()

    @after(_BASICS)
    def test_every_dtype_and_shape_comes_back_bit_for_bit(self) -> None:
        rng = np.random.default_rng(0)
        state = {
            f"{np.dtype(dtype).name}{list(shape)}": rng.integers(0, 100, shape).astype(dtype)
            for dtype in _DTYPES
            for shape in _SHAPES
        }
        state["special"] = np.array([0x7FC12345, 0xFF800000, 0x80000000, 1], np.uint32).view(np.float32)
        with self._process() as process:
            process.commit(0, client_states={"c": state}, server_state=state)
            expect.same_tensors("the client's state", process.read_clients(["c"])["c"], state)
            expect.same_tensors("the server's state", _server(process), state)

    @after(_BASICS)
    def test_the_memory_layout_of_an_array_does_not_matter(self) -> None:
        arrays = {
            "transposed": np.arange(12.0).reshape(3, 4).T,
            "strided": np.arange(12.0)[::-2],
            "broadcast": np.broadcast_to(np.float32(3), (4, 4)),
            "big-endian": np.arange(5, dtype=">f8"),
        }
        plain = {key: np.array(value.astype(value.dtype.newbyteorder("="))) for key, value in arrays.items()}
        with self._process() as process:
            process.commit(0, client_states={}, server_state=arrays)
            expect.same_tensors("the server's state", _server(process), plain)

    @after(_BASICS)
    def test_any_text_is_a_process_id_a_client_id_and_a_tensor_name(self) -> None:
        with self._store() as store:
            for text in _ODD_TEXTS:
                process = store.open_process(text, _SIGNATURE)
                state = {text: np.arange(3)}
                process.commit(0, client_states={text: state}, server_state=state)
                found = process.client_ids()
                expect.that(found == [text], f"client {text[:40]!r} is listed as {found!r:.100}")
                expect.same_tensors(f"client {text[:40]!r}", process.read_clients([text])[text], state)
            expect.that(store.processes() == sorted(_ODD_TEXTS), f"processes() is {store.processes()!r:.200}")

    def test_a_name_must_be_text(self) -> None:
        with self._store() as store:
            process = store.open_process("p", _SIGNATURE)
            for name in ("\ud800", 7, None, b"c"):
                _refused(f"process id {name!r}", store.open_process, name, _SIGNATURE)
                _refused(f"client id {name!r}", _commit, process, 0, {name: {}})
                _refused(f"reading client {name!r}", process.read_clients, [name])
                _refused(f"tensor name {name!r}", _commit, process, 0, {"c": {name: np.zeros(1)}})

    @after(_BASICS)
    def test_a_commit_that_is_refused_changes_nothing(self) -> None:
        with self._process() as process:
            _commit(process, 0, {"good": state_of(0)})
            for array in (np.array([{}]), np.array(["text"]), np.zeros(2, np.complex128)):
                clients = {"good": state_of(1), "bad": {"x": array}}
                _refused(f"an array of dtype {array.dtype}", _commit, process, 1, clients)
            clients, metadata = {"good": state_of(1)}, {"x": np.zeros(1)}
            commit = functools.partial(process.commit, client_states=clients, server_state={})
            _refused("metadata that is not JSON", commit, 1, metadata=metadata)
            found = (process.last_round, process.client_ids())
            expect.that(found == (0, ["good"]), f"a refused commit left round and clients {found}")
            expect.same_tensors("the client", process.read_clients(["good"])["good"], state_of(0))

    @after(_BASICS)
    def test_clients_that_are_not_named_keep_their_state(self) -> None:
        with self._process() as process:
            _commit(process, 0, {"a": state_of(0), "b": state_of(0)})
            _commit(process, 1, {"b": state_of(1), "c": state_of(1)})
            for client, number in {"a": 0, "b": 1, "c": 1}.items():
                expect.that(client in process.read_clients([client]), f"client {client!r} is gone")
                expect.same_tensors(
                    f"client {client!r}", process.read_clients([client])[client], state_of(number)
                )

    @after(_BASICS)
    def test_a_commit_replaces_a_state_as_a_whole(self) -> None:
        with self._process() as process:
            _commit(process, 0, {"c": {"old": np.zeros(2)}}, {"old": np.zeros(2)})
            _commit(process, 1, {"c": {"new": np.zeros(2)}}, {"new": np.zeros(2)})
            found = (set(process.read_clients(["c"])["c"]), set(_server(process)))
            expect.that(found == ({"new"}, {"new"}), f"client and server hold {found}")

    @after(_BASICS)
    def test_a_state_without_tensors_is_a_state(self) -> None:
        with self._process() as process:
            _commit(process, 0, {"c": {}})
            found = (process.read_clients(["c"]), process.read_server())
            expect.that(found == ({"c": {}}, {}), f"client and server hold {found}")

    @after(_BASICS)
    def test_clients_are_read_in_the_order_asked_for_and_listed_sorted(self) -> None:
        with self._process() as process:
            _commit(process, 0, {client: state_of(0) for client in ["b", "ä", "a", "B"]})
            listed = process.client_ids()
            expect.that(listed == ["B", "a", "b", "ä"], f"client_ids() is {listed}")
            read = list(process.read_clients(["b", "none", "ä", "B"]))
            expect.that(read == ["b", "ä", "B"], f"asked for 'b', 'none', 'ä' and 'B', it reads {read}")

    @after(_BASICS)
    def test_changing_arrays_handed_in_or_out_changes_nothing(self) -> None:
        array = np.zeros(3)
        with self._process() as process:
            _commit(process, 0, {"c": {"x": array}}, {"x": array})
            array += 1
            process.read_clients(["c"])["c"]["x"].fill(2)
            _server(process)["x"].fill(3)
            expect.same_bits("the client's array", process.read_clients(["c"])["c"]["x"], np.zeros(3))
            expect.same_bits("the server's array", _server(process)["x"], np.zeros(3))
            others = np.ones(3)
            view = others[:]
            view.flags.writeable = False
            _commit(process, 1, {"c": {"x": view}})
            others += 3
            expect.same_bits("what could be written to", process.read_clients(["c"])["c"]["x"], np.ones(3))

    @after(_BASICS)
    def test_arrays_to_look_at_cannot_be_written(self) -> None:
        with self._process() as process:
            _commit(process, 0, {"c": state_of(0)})
            views = process.view_clients(["c", "none"])
            expect.that(list(views) == ["c"], f"asked for 'c' and 'none', it shows {list(views)}")
            expect.same_tensors("the client's state", views["c"], state_of(0))
            for name, array in views["c"].items():
                expect.that(not can_be_written(array), f"somebody can write to tensor {name!r}")

    @after(_BASICS)
    def test_only_the_next_round_may_be_committed(self) -> None:
        with self._process() as process:
            _commit(process, 4, {"a": state_of(4)})
            for wrong in (3, 4, 6, -1):
                _refused(f"round {wrong} after 4", _commit, process, wrong, {})
            _refused("round 5.0", _commit, process, 5.0, {})
            expect.that(
                process.last_round == 4, f"after refused commits the last round is {process.last_round}"
            )
            int64: Any = np.int64(5)
            _commit(process, int64, {})
            expect.that(process.last_round == 5, f"after round 5 the last round is {process.last_round}")

    @after(_BASICS)
    def test_processes_do_not_see_each_others_state(self) -> None:
        with self._store() as store:
            first, second = (store.open_process(name, _SIGNATURE) for name in ("b", "a"))
            _commit(first, 0, {"c": state_of(0)}, state_of(0))
            _commit(second, 7, {"c": state_of(7), "d": state_of(7)}, state_of(7))
            expect.that(store.processes() == ["a", "b"], f"processes() is {store.processes()}")
            found = (first.last_round, first.client_ids())
            expect.that(found == (0, ["c"]), f"process 'b' has round and clients {found}")
            expect.same_tensors("client of 'b'", first.read_clients(["c"])["c"], state_of(0))
            expect.same_tensors("server of 'b'", _server(first), state_of(0))
            expect.same_tensors("server of 'a'", _server(second), state_of(7))

    @after(_BASICS)
    def test_two_handles_of_one_process_see_the_same_rounds(self) -> None:
        with self._store() as store:
            one, other = (store.open_process("p", _SIGNATURE) for _ in range(2))
            _commit(one, 0, {"c": state_of(0)})
            expect.that(other.last_round == 0, f"the other handle is at round {other.last_round}")
            _commit(other, 1, {"c": state_of(1)})
            expect.that(one.last_round == 1, f"the first handle stayed at round {one.last_round}")
            expect.same_tensors("client", one.read_clients(["c"])["c"], state_of(1))

    @after(_BASICS)
    def test_threads_may_use_it_at_the_same_time(self) -> None:
        last = 3
        with self._store() as store, ThreadPoolExecutor(4) as threads:
            names = ["p", "q"]
            processes = [store.open_process(name, _SIGNATURE) for name in names]
            meeting = threading.Barrier(2)

            def train(number: int) -> None:
                for round_num in range(last + 1):
                    value = 10 * number + round_num
                    states = dict.fromkeys("ab", state_of(value))
                    _commit(processes[number], round_num, _Meeting(states, meeting), state_of(value))

            def read() -> None:
                for process in processes * last:
                    found = {float(state["w"][0]) for state in process.read_clients("ab").values()}
                    expect.that(len(found) <= 1, f"one call reads states of several rounds: {found}")
                    expect.that(store.processes() == names, f"its processes are {store.processes()}")

            with _no_errors("a call in one of several threads"):
                for done in [threads.submit(train, 0), threads.submit(train, 1), threads.submit(read)]:
                    done.result()
            for number, process in enumerate(processes):
                expect.that(process.last_round == last, f"it is at round {process.last_round}, not {last}")
                for client, state in process.read_clients("ab").items():
                    expected = state_of(10 * number + last)
                    expect.same_tensors(f"client {client!r}, committed by a thread", state, expected)
                process.verify()

    @after(_BASICS)
    def test_of_two_threads_that_commit_one_round_one_is_refused(self) -> None:
        with self._process() as process, ThreadPoolExecutor(2) as threads:
            _commit(process, 0, {"a": state_of(0)})
            meeting = threading.Barrier(2)
            commits = {
                value: threads.submit(_commit, process, 1, _Meeting({"a": state_of(value)}, meeting))
                for value in (1, 2)
            }
            errors = {value: done.exception() for value, done in commits.items()}
            refused = [value for value, error in errors.items() if isinstance(error, StoreError)]
            expect.that(len(refused) == 1, f"two commits of round 1 in two threads end with {errors}")
            kept = process.read_clients(["a"])["a"]
            expect.same_tensors("the client", kept, state_of(3 - refused[0]))

    def test_a_signature_is_compared_as_json_whatever_its_order(self) -> None:
        with self._store() as store:
            store.open_process("p", {"a": (1, 2), "b": {"x": 1, "y": 2}})
            store.open_process("p", {"b": {"y": 2, "x": 1}, "a": [1, 2]})

    def test_a_saved_process_can_be_opened_read_only(self) -> None:
        with self._store() as store:
            _commit(store.open_process("p", _SIGNATURE), 4, {"c": state_of(4)})
            process = store.open_process("p")
            found = (process.signature, process.last_round, process.client_ids())
            expect.that(found == (_SIGNATURE, 4, ["c"]), f"opened without a signature it has {found}")
            error = _refused("a process that is not kept, opened as it is kept,", store.open_process, "q")
            expect.that("'q'" in str(error), f"the message does not say 'q': {error}")
            expect.that(store.processes() == ["p"], f"looking left processes: {store.processes()}")

    def test_another_signature_is_refused_with_the_difference(self) -> None:
        with self._store() as store:
            store.open_process("p", _SIGNATURE)
            error = _refused("another signature", store.open_process, "p", _OTHER_SIGNATURE)
            expect.that(
                isinstance(error, StoreMismatchError), f"another signature is a {type(error).__name__}"
            )
            for word in ("'p'", "fraction", "0.01", "0.5"):
                expect.that(word in str(error), f"the message does not say {word}: {error}")

    def test_a_signature_that_is_not_json_is_refused(self) -> None:
        with self._store() as store:
            _refused("a signature", store.open_process, "q", {"model": object()})
            expect.that(store.processes() == [], f"it left a process: {store.processes()}")

    def test_a_closed_store_refuses_everything_but_closing(self) -> None:
        with self._store() as store:
            process = store.open_process("p", _SIGNATURE)
            store.close()
            store.close()
            uses: dict[str, Callable[[], object]] = {
                "processes()": store.processes,
                "open_process()": lambda: store.open_process("p", _SIGNATURE),
                "signature": lambda: process.signature,
                "last_round": lambda: process.last_round,
                "metadata": lambda: process.metadata,
                "client_ids()": process.client_ids,
                "read_clients()": lambda: process.read_clients(["c"]),
                "read_server()": process.read_server,
                "commit()": lambda: _commit(process, 1, {}),
                "verify()": process.verify,
            }
            for what, use in uses.items():
                _refused(f"{what} of a closed store", use)

    @after(_BASICS)
    def test_committed_data_survives_reopening_the_store(self) -> None:
        self._need_persistence()
        with tempfile.TemporaryDirectory() as name:
            with self.make_store(Path(name)) as store:
                process = store.open_process("p", _SIGNATURE)
                process.commit(3, client_states={"c": state_of(3)}, server_state=state_of(4), metadata=[1])
            with self.make_store(Path(name)) as store:
                expect.that(store.processes() == ["p"], f"opened again it has processes {store.processes()}")
                process = store.open_process("p", _SIGNATURE)
                found = (process.last_round, process.metadata, process.client_ids())
                expect.that(found == (3, [1], ["c"]), f"opened again it has {found}")
                expect.same_tensors("client, opened again", process.read_clients(["c"])["c"], state_of(3))
                expect.same_tensors("server, opened again", _server(process), state_of(4))
                _refused("another signature", store.open_process, "p", _OTHER_SIGNATURE)

    def test_it_can_be_opened_once_at_a_time(self) -> None:
        self._need_persistence()
        with tempfile.TemporaryDirectory() as name, self.make_store(Path(name)):
            _refused("opening an open store", self.make_store, Path(name))

    @after(_BASICS)
    def test_a_kill_at_any_moment_of_a_commit_leaves_this_round_or_the_last_one(self) -> None:
        states = [{"w": np.full(5000, number)} for number in range(2)]
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name) / "store"
            folder.mkdir()
            with self.make_store(folder) as store:
                process = store.open_process("p", _SIGNATURE)
                _commit(process, 0, {"a": states[0], "b": states[0]}, states[0])
                clients = {"b": states[1], "c": states[1]}
                commit = functools.partial(_commit, process, 1, clients, states[1])
                images = crashes.images(folder, Path(name) / "images", commit)
            if not images:
                raise NotApplicable("it keeps nothing in its folder")
            newest = [dict.fromkeys("ab", 0), {"a": 0, "b": 1, "c": 1}]
            for image in images:
                when = f"killed at change {image.name} of {len(images)} of its files by a commit, it"
                with _no_errors(when), self.make_store(image) as store:
                    process = store.open_process("p", _SIGNATURE)
                    number = process.last_round
                    expect.that(number in (0, 1), f"{when} is at round {number}, after rounds 0 and 1")
                    assert number is not None
                    process.verify()
                    found = process.read_clients(process.client_ids())
                    expect.that(found.keys() == newest[number].keys(), f"{when} has clients {list(found)}")
                    for client, state in found.items():
                        expect.same_tensors(
                            f"{when}: client {client!r}", state, states[newest[number][client]]
                        )
                    expect.same_tensors(f"{when}: the server's state", _server(process), states[number])
            expect.that(number == 1, f"killed after a commit returned, it is at round {number} instead of 1")

    @after(_BASICS)
    def test_a_flipped_bit_in_a_state_is_noticed(self) -> None:
        state = {"w": np.random.default_rng(0).random(1000)}
        content = state["w"].tobytes()
        with tempfile.TemporaryDirectory() as name:
            folder, damaged = Path(name) / "store", Path(name) / "damaged"
            folder.mkdir()
            with self.make_store(folder) as store:
                _commit(store.open_process("p", _SIGNATURE), 0, {"c": state})
            excerpts = [content[start : start + 32] for start in (0, 2000, 4000, 6000, len(content) - 32)]
            places = [place for excerpt in excerpts for place in crashes.find(folder, excerpt)]
            if not places:
                raise NotApplicable("its folder has no file with the bytes of a state")
            for path, position in places:
                shutil.copytree(folder, damaged)
                crashes.flip(damaged / path, position)
                where = f"a flipped bit at offset {position} of {path}"
                for use in (lambda process: process.read_clients(["c"]), lambda process: process.verify()):
                    _refused(where, self._in_process, damaged, use)
                shutil.rmtree(damaged)

    def _in_process(self, folder: Path, use: Callable[[ProcessState], object]) -> None:
        with self.make_store(folder) as store:
            use(store.open_process("p", _SIGNATURE))

    def _need_persistence(self) -> None:
        if not self.persistent:
            raise NotApplicable("it keeps nothing when it is closed")

    @contextlib.contextmanager
    def _store(self) -> Iterator[StateStore]:
        with tempfile.TemporaryDirectory() as name, self.make_store(Path(name)) as store:
            yield store

    @contextlib.contextmanager
    def _process(self) -> Iterator[ProcessState]:
        with self._store() as store:
            yield store.open_process("p", _SIGNATURE)


class _Meeting(Mapping[str, Tensors]):
    """States that two threads read at the same time, if a store lets two threads commit at the same time."""

    def __init__(self, states: Mapping[str, Tensors], meeting: threading.Barrier) -> None:
        self._states = states
        self._meeting = meeting

    def __getitem__(self, client: str) -> Tensors:
        with contextlib.suppress(threading.BrokenBarrierError):
            self._meeting.wait(_PATIENCE)
        return self._states[client]

    def __iter__(self) -> Iterator[str]:
        return iter(self._states)

    def __len__(self) -> int:
        return len(self._states)


def _commit(
    process: ProcessState, number: int, clients: Mapping[str, Tensors], server: Tensors | None = None
) -> None:
    process.commit(number, client_states=clients, server_state=server or {})


def _server(process: ProcessState) -> State:
    state = process.read_server()
    expect.that(state is not None, "read_server() is None after a commit")
    assert state is not None
    return state


@contextlib.contextmanager
def _no_errors(when: str) -> Iterator[None]:
    """Adds the time of an error to its message."""
    try:
        yield
    except expect.ConformanceError:
        raise
    except Exception as error:
        raise expect.ConformanceError(f"{when} raises {type(error).__name__}: {error}") from error


def _refused(what: str, action: Callable[..., object], *arguments: object, **keywords: object) -> StoreError:
    """Returns the `StoreError` that a call raises. It must have one line."""
    try:
        action(*arguments, **keywords)
    except StoreError as error:
        expect.that("\n" not in str(error), f"{what}: the message has more than one line: {error}")
        return error
    except Exception as error:
        raise expect.ConformanceError(
            f"{what} raises {type(error).__name__} instead of a StoreError: {error}"
        ) from error
    raise expect.ConformanceError(f"{what} is not refused")
