"""The promises of `fedplug.stores.base`, kept by every built-in store."""

import ml_dtypes
import numpy as np
import pytest

from fedplug.errors import StoreError, StoreMismatchError
from fedplug.stores.memory import MemoryStore
from fedplug.stores.sqlite import SqliteStore

SIGNATURE = {"model": [["w", [3, 2], "float32"]], "encoder": {"name": "topk", "fraction": 0.01}}

DTYPES = [
    *(np.bool_, np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64),
    *(np.float16, np.float32, np.float64, np.complex64),
    *(ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2),
]

ODD_TEXTS = [
    "",
    "/",
    "../../up",
    "a/b",
    "a\\b",
    "nul\0byte",
    "ümläut 🙂",
    "'; DROP TABLE blobs; --",
    "x" * 5000,
]
ODD_TEXTS += ["server", "client:server", "__metadata__", "%", "new\nline", " "]


@pytest.fixture(params=["memory", "sqlite"])
def store(request, tmp_path):
    with MemoryStore() if request.param == "memory" else SqliteStore(tmp_path / "store") as opened:
        yield opened


@pytest.fixture
def process(store):
    return store.open_process("p", SIGNATURE)


def test_a_new_process_is_empty(process):
    assert process.last_round is None
    assert process.metadata is None
    assert process.client_ids() == []
    assert process.read_clients(["a"]) == {}
    assert process.read_server() is None
    process.verify()


def test_a_committed_round_is_read_back(process, assert_same):
    client = {"b": np.arange(6, dtype=np.float32).reshape(3, 2), "a": np.array([True, False])}
    server = {"weights": np.ones((2, 2)), "clock": np.array(7)}
    process.commit(5, client_states={"c": client}, server_state=server, metadata={"accuracy": [0.5, None]})
    assert process.last_round == 5
    assert process.metadata == {"accuracy": [0.5, None]}
    assert_same(process.read_clients(["c"])["c"], client)
    assert_same(process.read_server(), server)
    process.verify()


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: np.dtype(dtype).name)
@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (5,), (2, 3)], ids=str)
def test_every_dtype_and_shape_comes_back_bit_for_bit(process, assert_same, dtype, shape):
    array = np.random.default_rng(0).integers(0, 100, shape).astype(dtype)
    process.commit(0, client_states={"c": {"x": array}}, server_state={})
    assert_same(process.read_clients(["c"])["c"], {"x": array})


def test_nan_infinity_and_negative_zero_keep_their_bits(process, assert_same):
    state = {"x": np.array([0x7FC12345, 0xFF800000, 0x80000000, 0x00000001], np.uint32).view(np.float32)}
    process.commit(0, client_states={}, server_state=state)
    assert_same(process.read_server(), state)


@pytest.mark.parametrize(
    "array",
    [
        np.arange(12.0).reshape(3, 4).T,
        np.arange(12.0)[::-2],
        np.broadcast_to(np.float32(3), (4, 4)),
        np.arange(5, dtype=">f8"),
    ],
    ids=["transposed", "strided", "broadcast", "big-endian"],
)
def test_the_memory_layout_of_an_array_does_not_matter(process, array):
    process.commit(0, client_states={}, server_state={"x": array})
    found = process.read_server()["x"]
    np.testing.assert_array_equal(found, array)
    assert found.dtype == array.dtype.newbyteorder("=")


@pytest.mark.parametrize("text", ODD_TEXTS, ids=ascii)
def test_any_text_is_a_process_id_a_client_id_and_a_tensor_name(store, assert_same, text):
    process = store.open_process(text, SIGNATURE)
    state = {text: np.arange(3)}
    process.commit(0, client_states={text: state}, server_state=state)
    assert store.processes() == [text]
    assert process.client_ids() == [text]
    assert_same(process.read_clients([text])[text], state)
    assert_same(process.read_server(), state)


@pytest.mark.parametrize("bad", ["\ud800", 7, None, b"c"], ids=ascii)
def test_what_is_not_text_is_no_name(store, process, bad):
    with pytest.raises(StoreError, match="process id"):
        store.open_process(bad, SIGNATURE)
    with pytest.raises(StoreError, match="client id"):
        process.commit(0, client_states={bad: {}}, server_state={})
    with pytest.raises(StoreError, match="client id"):
        process.read_clients([bad])
    with pytest.raises(StoreError, match="tensor name"):
        process.commit(0, client_states={}, server_state={bad: np.zeros(1)})
    assert process.last_round is None


@pytest.mark.parametrize("array", [np.array([{}]), np.array(["text"]), np.zeros(2, np.complex128)], ids=str)
def test_a_dtype_that_cannot_be_stored_is_refused_with_its_name_and_nothing_is_committed(
    process, round_of, array
):
    process.commit(0, **round_of(0, ["good"]))
    with pytest.raises(StoreError, match=f"'x' has dtype {array.dtype}.*float32"):
        process.commit(1, client_states={"good": {}, "bad": {"x": array}}, server_state={})
    assert process.last_round == 0
    assert process.client_ids() == ["good"]
    assert process.read_clients(["good"])["good"].keys() == {"w"}


def test_clients_that_are_not_named_keep_their_state(process, round_of, assert_same):
    process.commit(0, **round_of(0, ["a", "b"]))
    process.commit(1, **round_of(1, ["b", "c"]))
    found = process.read_clients(["a", "b", "c"])
    assert {client: state["w"][0] for client, state in found.items()} == {"a": 0, "b": 1, "c": 1}


def test_a_commit_replaces_a_clients_state_as_a_whole(process):
    process.commit(0, client_states={"c": {"old": np.zeros(2)}}, server_state={"old": np.zeros(2)})
    process.commit(1, client_states={"c": {"new": np.zeros(2)}}, server_state={"new": np.zeros(2)})
    assert process.read_clients(["c"])["c"].keys() == {"new"}
    assert process.read_server().keys() == {"new"}


def test_a_state_without_tensors_is_a_state(process):
    process.commit(0, client_states={"c": {}}, server_state={})
    assert process.read_clients(["c"]) == {"c": {}}
    assert process.read_server() == {}


def test_clients_are_read_in_the_order_asked_for_and_listed_sorted(process, round_of):
    process.commit(0, **round_of(0, ["b", "ä", "a", "B"]))
    assert process.client_ids() == ["B", "a", "b", "ä"]
    assert list(process.read_clients(["b", "nobody", "ä", "B"])) == ["b", "ä", "B"]


def test_changing_arrays_handed_in_or_out_changes_nothing_in_the_store(process):
    array = np.zeros(3)
    process.commit(0, client_states={"c": {"x": array}}, server_state={"x": array})
    array += 1
    process.read_clients(["c"])["c"]["x"] += 2
    process.read_server()["x"] += 3
    assert process.read_clients(["c"])["c"]["x"].tolist() == [0, 0, 0]
    assert process.read_server()["x"].tolist() == [0, 0, 0]


@pytest.mark.parametrize("wrong", [3, 4, 6, -1])
def test_only_the_next_round_may_be_committed(process, round_of, wrong):
    process.commit(4, **round_of(4, ["a"]))
    with pytest.raises(StoreError, match=f"next commit is round 5, not {wrong}"):
        process.commit(wrong, **round_of(9, ["a"]))
    process.commit(5, **round_of(5, ["a"]))
    assert process.metadata == {"round": 5}


def test_a_round_number_is_an_integer_of_any_type(process):
    process.commit(np.int64(3), client_states={}, server_state={})
    assert process.last_round == 3
    with pytest.raises(StoreError, match="integer"):
        process.commit(4.0, client_states={}, server_state={})


def test_metadata_that_is_not_json_is_refused_and_nothing_is_committed(process):
    with pytest.raises(StoreError, match="metadata must be a JSON value"):
        process.commit(0, client_states={}, server_state={}, metadata={"x": np.zeros(1)})
    assert process.last_round is None


def test_processes_do_not_see_each_others_state(store, round_of):
    first, second = (store.open_process(name, SIGNATURE) for name in ["b", "a"])
    first.commit(0, **round_of(0, ["c"]))
    second.commit(7, **round_of(7, ["c", "d"]))
    assert store.processes() == ["a", "b"]
    assert first.last_round == 0
    assert first.client_ids() == ["c"]
    assert first.read_clients(["c"])["c"]["w"][0] == 0
    assert second.read_server()["w"][0] == 7


def test_two_handles_of_one_process_see_the_same_rounds(store, round_of):
    one, other = (store.open_process("p", SIGNATURE) for _ in range(2))
    one.commit(0, **round_of(0, ["c"]))
    other.commit(1, **round_of(1, ["c"]))
    assert one.last_round == 1
    assert one.read_clients(["c"])["c"]["w"][0] == 1


def test_a_signature_is_compared_as_json_whatever_its_order(store):
    store.open_process("p", {"a": (1, 2), "b": {"x": 1, "y": 2}})
    store.open_process("p", {"b": {"y": 2, "x": 1}, "a": [1, 2]})


def test_another_signature_is_refused_naming_what_differs_and_what_to_do(store, process):
    other = {"model": [["w", [3, 3], "float32"]], "encoder": {"name": "topk", "count": 5}}
    with pytest.raises(StoreMismatchError) as caught:
        store.open_process("p", other)
    message = str(caught.value)
    assert "process 'p'" in message
    assert "encoder.count is absent in the store and 5 here" in message
    assert "encoder.fraction is 0.01 in the store and absent here" in message
    assert "model[0][1][1] is 2 in the store and 3 here" in message
    assert "another process id" in message
    assert "\n" not in message


def test_only_the_first_differences_of_a_signature_are_shown(store):
    store.open_process("p", {f"k{i}": "v" * 1000 for i in range(100)})
    with pytest.raises(StoreMismatchError) as caught:
        store.open_process("p", {})
    assert len(str(caught.value)) < 700


def test_a_signature_that_is_not_json_is_refused(store):
    with pytest.raises(StoreError, match="signature must be a JSON value"):
        store.open_process("q", {"model": object()})
    assert store.processes() == []


def test_a_closed_store_refuses_everything_but_closing(store, process, round_of):
    process.commit(0, **round_of(0, ["c"]))
    store.close()
    store.close()
    for use in [
        store.processes,
        lambda: store.open_process("p", SIGNATURE),
        lambda: process.last_round,
        lambda: process.metadata,
        process.client_ids,
        lambda: process.read_clients(["c"]),
        process.read_server,
        lambda: process.commit(1, **round_of(1, ["c"])),
        process.verify,
    ]:
        with pytest.raises(StoreError, match="closed"):
            use()
