"""The errors of the built-in stores; test_conformance.py tests their promises."""

import numpy as np
import pytest

from fedplug.errors import StoreError, StoreMismatchError
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
