"""The errors of the built-in stores, and whether somebody can change the values of an array.

test_conformance.py tests the promises of stores.
"""

import mmap

import numpy as np
import pytest

from fedplug import kernels
from fedplug.errors import StoreError, StoreMismatchError
from fedplug.stores.base import can_be_written, give_up
from fedplug.stores.memory import MemoryStore
from fedplug.stores.sqlite import SqliteStore

SIGNATURE = {"model": [["w", [3, 2], "float32"]], "encoder": {"name": "topk", "fraction": 0.01}}


@pytest.fixture(params=["memory", "sqlite"])
def store(request, tmp_path):
    with MemoryStore() if request.param == "memory" else SqliteStore(tmp_path / "store") as opened:
        yield opened


@pytest.fixture
def process(store):
    return store.open_process("p", SIGNATURE)


def test_a_memory_store_does_not_copy_read_only_arrays():
    residual, weights = np.zeros(3), np.ones(3)
    residual.flags.writeable = False
    with MemoryStore() as opened:
        process = opened.open_process("p", SIGNATURE)
        process.commit(0, client_states={"a": {"x": residual}, "b": {"x": weights}}, server_state={})
        kept = process.view_clients(["a", "b"])
        assert kept["a"]["x"] is residual
        assert not np.shares_memory(kept["b"]["x"], weights)
        assert process.read_clients(["a"])["a"]["x"].flags.writeable


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"client_states": ["a"]}, "client_states must be .* client ids to states, not a list"),
        ({"client_states": {"a": np.zeros(1)}}, "a state must be .*, not a ndarray"),
        ({"client_states": {"a": {"x": np.array([{}])}}}, "'x' has dtype object.*float32"),
        ({"client_states": {"a": {"x": np.array(["text"])}}}, "'x' has dtype <U4.*float32"),
        ({"client_states": {"a": {"x": np.zeros(2, np.complex128)}}}, "'x' has dtype complex128.*float32"),
        ({"server_state": None}, "server.*: a state must be .*, not a NoneType"),
        ({"metadata": {"x": np.zeros(1)}}, "metadata must be a JSON value"),
    ],
    ids=["clients", "client", "objects", "text", "complex", "server", "metadata"],
)
def test_an_invalid_state_is_refused_and_nothing_is_committed(process, arguments, message):
    with pytest.raises(StoreError, match=message):
        process.commit(0, **{"client_states": {"good": {}}, "server_state": {}} | arguments)
    assert process.last_round is None
    assert process.client_ids() == []


def test_a_round_number_that_no_database_holds_is_refused(process):
    with pytest.raises(StoreError, match="at most 63 bits"):
        process.commit(2**63, client_states={}, server_state={})
    assert process.last_round is None


def test_another_signature_is_refused_with_the_difference_and_a_remedy(store, process):
    other = {"model": [["w", [3, 3], "float32"]], "encoder": {"name": "topk", "count": 5}}
    with pytest.raises(StoreMismatchError) as caught:
        store.open_process("p", other)
    for part in (
        "process 'p'",
        "encoder.count is absent in the store and 5 here",
        "encoder.fraction is 0.01 in the store and absent here",
        "model[0][1][1] is 2 in the store and 3 here",
        "another process id",
    ):
        assert part in str(caught.value)
    assert "..." not in str(caught.value)


def test_a_store_of_a_missing_distribution_names_it(store):
    store.open_process("a", {"encoder": "gone", "distributions": ["gone-codec"]})
    with pytest.raises(StoreMismatchError, match=r"`pip install gone-codec`"):
        store.open_process("a", {"encoder": "topk", "distributions": []})


def test_only_the_first_differences_of_a_signature_are_shown(store):
    store.open_process("p", {f"k{i}": "v" * 1000 for i in range(100)})
    with pytest.raises(StoreMismatchError) as caught:
        store.open_process("p", {})
    assert len(str(caught.value)) < 700
    assert "; ...; " in str(caught.value)


def test_long_values_of_a_signature_are_shown_where_they_differ(store):
    store.open_process("p", {"state": f"<{'a' * 500},finalizer=<float32>,{'b' * 500}>"})
    with pytest.raises(
        StoreMismatchError, match=r'"?\.\.\.a+,finalizer=<float32>,b+\.\.\. in the store'
    ) as caught:
        store.open_process("p", {"state": f"<{'a' * 500},finalizer=<int64>,{'b' * 500}>"})
    assert "finalizer=<int64>" in str(caught.value)


def read_only(array):
    view = array[:]
    view.flags.writeable = False
    return view


def fixed(array):
    array.flags.writeable = False
    return array


def test_a_writable_array_can_be_written():
    assert can_be_written(np.zeros(3))
    assert can_be_written(kernels.empty((3,), np.dtype(np.float32)))


@pytest.mark.parametrize(
    "array",
    [fixed(np.zeros(3)), read_only(fixed(np.zeros(3))), fixed(kernels.empty((3,), np.dtype(np.float32)))],
    ids=["array", "view", "of a kernel"],
)
def test_a_read_only_array_cannot_be_written(array):
    assert not can_be_written(array)


@pytest.mark.parametrize("data", [b"abcd", memoryview(b"abcd")], ids=["bytes", "memoryview"])
def test_bytes_cannot_be_written(data):
    assert not can_be_written(np.frombuffer(data, np.uint8))


def test_a_read_only_flag_on_foreign_memory_is_trusted():
    assert not can_be_written(fixed(np.frombuffer(bytearray(b"abcd"), np.uint8)))


def test_an_array_is_found_behind_a_view():
    assert can_be_written(read_only(read_only(np.zeros(3))))


def test_giving_up_an_array_includes_its_bases():
    array = np.zeros(6)
    view = array[1:].reshape(5, 1)
    give_up(view)
    assert not can_be_written(view)
    assert not array.flags.writeable


def test_a_file_can_be_written_by_others(tmp_path):
    (tmp_path / "file").write_bytes(bytes(16))
    assert can_be_written(np.memmap(tmp_path / "file", mode="r"))
    with (tmp_path / "file").open("rb") as file:
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    assert can_be_written(np.frombuffer(mapped, np.uint8))
