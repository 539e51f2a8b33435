"""Stores that each break one promise, which the suite must name.

`BAD` pairs a check with the store that must fail it. `Kept` and `Files` pass all checks.
"""

from __future__ import annotations

import os
import pickle
import zlib

import numpy as np

from fedplug.errors import StoreError
from fedplug.stores.base import ProcessState, StateStore
from fedplug.stores.memory import MemoryStore
from fedplug.stores.turns import Turn, in_turn

_ROOMS = {}
_OPEN = set()


def forwarded(name):
    """Returns a method that calls that of the inner process state, if the store is open."""
    return lambda self, *arguments, **keywords: getattr(self.opened(), name)(*arguments, **keywords)


class Through(ProcessState):
    """Forwards all calls to another process state."""

    def __init__(self, inner, store):
        self.inner, self.store = inner, store

    signature = property(lambda self: self.opened().signature)
    last_round = property(lambda self: self.opened().last_round)
    metadata = property(lambda self: self.opened().metadata)
    client_ids = forwarded("client_ids")
    read_clients = forwarded("read_clients")
    read_server = forwarded("read_server")
    commit = forwarded("commit")
    damage = forwarded("damage")

    def opened(self):
        self.store.check()
        return self.inner


class Kept(StateStore):
    """A memory store per folder, which outlives this object. Passes all checks."""

    name = "kept"
    process_type = Through

    def __init__(self, folder):
        self.claim(folder)
        self.folder, self.inner = folder, _ROOMS.setdefault(folder, MemoryStore())

    def claim(self, folder):
        if folder in _OPEN:
            raise StoreError(f"{folder} is open")
        _OPEN.add(folder)

    @classmethod
    def from_url(cls, url):
        return cls(url.removeprefix("kept://"))

    def get_config(self):
        return {"folder": str(self.folder)}

    def check(self):
        if self.inner is None:
            raise StoreError("the store is closed")

    def open_process(self, process_id, signature=None):
        self.check()
        return self.process_type(self.inner.open_process(process_id, signature), self)

    def processes(self):
        self.check()
        return self.inner.processes()

    def close(self):
        self.inner = None
        _OPEN.discard(self.folder)


class Filed(Through):
    """The process state of `Files`, which writes its files after each commit."""

    @property
    def turn(self):
        return self.store.turn

    @in_turn
    def commit(self, *arguments, **keywords):
        Through.commit(self, *arguments, **keywords)
        self.store.save()


class Files(Kept):
    """A store in one file, rewritten by each change, and a manifest that names it. Passes all checks."""

    process_type = Filed

    def __init__(self, folder):
        self.claim(folder)
        self.folder, self.inner, self.turn = folder, None, Turn(str(folder))
        try:
            self.inner = self.load()
        except BaseException:
            self.close()
            raise

    def load(self):
        if not (self.folder / "manifest").exists():
            return MemoryStore()
        name, checksum = (self.folder / "manifest").read_text().split()
        content = (self.folder / name).read_bytes()
        self.check_content(content, int(checksum))
        return pickle.loads(content)

    def check_content(self, content, checksum):
        if zlib.crc32(content) != checksum:
            raise StoreError(f"a file in {self.folder} is damaged")

    @in_turn
    def open_process(self, process_id, signature=None):
        process = Kept.open_process(self, process_id, signature)
        self.save()
        return process

    def save(self):
        name, content = f"data{len(os.listdir(self.folder))}", pickle.dumps(self.inner)
        manifest = f"{name} {zlib.crc32(content)}".encode()
        for path, what in self.in_order((name, content), ("manifest", manifest)):
            part = self.folder / f"{path}.part"
            part.write_bytes(what)
            part.replace(self.folder / path)

    def in_order(self, data, manifest):
        return data, manifest


def store(name, process=None, base=Kept, **methods):
    """Returns a bad store: ``base`` with some methods replaced, in the store or in its process state."""
    extra = {"process_type": type(f"{name}Process", (Through,), process)} if process else {}
    return type(name, (base,), {**methods, **extra})


def commit(**changes):
    """Returns a commit that passes some of its arguments through functions first."""

    def method(self, round_num, **arguments):
        arguments["round_num"] = round_num
        for name, change in changes.items():
            arguments[name] = change(self, arguments.get(name))
        Through.commit(self, **arguments)

    return {"commit": method}


def _float32_only(self, server):
    return {
        k: v.astype(np.float32) if v.dtype == np.float64 and v.shape == (5,) else v for k, v in server.items()
    }


def _memory_order(self, server):
    """Writes elements in memory order and ignores the strides."""
    return {k: np.ravel(v, order="K").reshape(v.shape) for k, v in server.items()}


def _short_names(self, clients):
    return {c[:100] if isinstance(c, str) else c: s for c, s in clients.items()}


def _str_names(self, clients):
    return {c if c is not None else "None": s for c, s in clients.items()}


def _half(self, number, *, client_states, **others):
    try:
        Through.commit(self, number, client_states=client_states, **others)
    except StoreError:
        good = {c: s for c, s in client_states.items() if c == "good"}
        if good and number == 1:
            Through.commit(self, number, client_states=good, server_state={})
        raise


def _forgets_others(self, clients):
    empty = {client: {} for client in self.client_ids() if client == "a" and "c" in clients}
    return {**empty, **clients}


def _merges_server(self, server):
    return {**(self.read_server() or {}), **server}


def _skips_empty(self, clients):
    return {c: s for c, s in clients.items() if s or c != "c"}


def _any_round(self, number):
    last = self.last_round
    return number if last is None or number != 6 else last + 1


def _keeps(self, client_ids):
    """Returns the same arrays on every read of the same state."""
    found = Through.read_clients(self, client_ids)
    cache = self.__dict__.setdefault("cache", {})
    return {c: cache.setdefault((c, pickle.dumps(s)), s) for c, s in found.items()}


def _sorted_reads(self, client_ids):
    return dict(sorted(Through.read_clients(self, client_ids).items()))


def _one_buffer(self, clients):
    """Collects the states of a round in a dictionary of the whole store."""
    buffer = self.store.__dict__.setdefault("buffer", {})
    buffer.clear()
    for client in clients:
        buffer[client] = clients[client]
    return {client: buffer[client] for client in clients}


def _checks_before(self, number, **states):
    """Checks the number of a round before it reads the states, and not again."""
    last = self.last_round
    try:
        Through.commit(self, number, **states)
    except StoreError:
        if self.last_round == last:  # else another thread has committed meanwhile
            raise


def _starts_with_nobody(self):
    return Through.client_ids(self) if self.last_round is not None else ["nobody"]


def _one_server(self):
    """Returns the server state of the process that committed last."""
    state = Through.read_server(self)
    return state if state is None else self.store.inner.open_process("a", SIGNATURE).read_server() or state


SIGNATURE = {"model": [["w", [3, 2], "float32"]], "encoder": {"name": "topk", "fraction": 0.01}}


def _own_round(self):
    return self.__dict__.setdefault("seen", Through.last_round.fget(self))


def _own_commit(self, number, **arguments):
    Through.commit(self, number, **arguments)
    self.seen = int(number)


def _text_signature(self, process_id, signature=None):
    """Compares the text of the signature, including the order."""
    texts = _TEXTS.setdefault(self.inner, {})
    if signature and texts.setdefault(process_id, str(signature)) != str(signature) and "a" in signature:
        raise StoreError("another signature")
    return Kept.open_process(self, process_id, signature)


_TEXTS = {}


def _silent_signature(self, process_id, signature=None):
    try:
        return Kept.open_process(self, process_id, signature)
    except StoreError as error:
        if signature is None:
            raise
        raise type(error)("this store holds something else") from None


def _looking_makes_one(self, process_id, signature=None):
    known = process_id in self.processes()
    return Kept.open_process(self, process_id, signature if known or signature else {})


def _repr_signature(self, process_id, signature=None):
    if signature and any(type(value) is object for value in signature.values()):
        signature = {"model": "object"}
    return Kept.open_process(self, process_id, signature)


def _lists_when_closed(self):
    return self.inner.processes() if self.inner else []


def _forgets(self):
    _ROOMS.pop(self.folder, None)
    Kept.close(self)


GOOD = [Kept, Files]


BAD = [
    ("test_a_new_process_is_empty", store("Nobody", {"client_ids": _starts_with_nobody})),
    (
        "test_a_committed_round_is_read_back",
        store("NoMetadata", commit(metadata=lambda self, metadata: None)),
    ),
    (
        "test_every_dtype_and_shape_comes_back_bit_for_bit",
        store("SingleOnly", commit(server_state=_float32_only)),
    ),
    (
        "test_any_text_is_a_process_id_a_client_id_and_a_tensor_name",
        store("ShortNames", commit(client_states=_short_names)),
    ),
    ("test_a_name_must_be_text", store("NamedNone", commit(client_states=_str_names))),
    ("test_a_commit_that_is_refused_changes_nothing", store("HalfACommit", {"commit": _half})),
    (
        "test_clients_that_are_not_named_keep_their_state",
        store("ForgetsOthers", commit(client_states=_forgets_others)),
    ),
    ("test_a_commit_replaces_a_state_as_a_whole", store("MergesServer", commit(server_state=_merges_server))),
    ("test_a_state_without_tensors_is_a_state", store("SkipsEmpty", commit(client_states=_skips_empty))),
    (
        "test_clients_are_read_in_the_order_asked_for_and_listed_sorted",
        store("SortedReads", {"read_clients": _sorted_reads}),
    ),
    (
        "test_changing_arrays_handed_in_or_out_changes_nothing",
        store("SharesArrays", {"read_clients": _keeps}),
    ),
    ("test_arrays_to_look_at_cannot_be_written", store("Writable", {"view_clients": Through.read_clients})),
    ("test_only_the_next_round_may_be_committed", store("AnyRound", commit(round_num=_any_round))),
    ("test_processes_do_not_see_each_others_state", store("OneServer", {"read_server": _one_server})),
    (
        "test_two_handles_of_one_process_see_the_same_rounds",
        store("RoundPerHandle", {"last_round": property(_own_round), "commit": _own_commit}),
    ),
    ("test_threads_may_use_it_at_the_same_time", store("OneBuffer", commit(client_states=_one_buffer))),
    (
        "test_of_two_threads_that_commit_one_round_one_is_refused",
        store("ChecksBefore", {"commit": _checks_before}),
    ),
    ("test_a_signature_is_compared_as_json_whatever_its_order", store("Texts", open_process=_text_signature)),
    (
        "test_a_saved_process_can_be_opened_read_only",
        store("LookingMakesOne", open_process=_looking_makes_one),
    ),
    (
        "test_another_signature_is_refused_with_the_difference",
        store("Silent", open_process=_silent_signature),
    ),
    ("test_a_signature_that_is_not_json_is_refused", store("AnySignature", open_process=_repr_signature)),
    (
        "test_a_closed_store_refuses_everything_but_closing",
        store("NeverClosed", processes=_lists_when_closed),
    ),
    ("test_committed_data_survives_reopening_the_store", store("Forgets", close=_forgets)),
    ("test_it_can_be_opened_once_at_a_time", store("OpenTwice", claim=lambda self, folder: None)),
    (
        "test_the_memory_layout_of_an_array_does_not_matter",
        store("MemoryOrder", commit(server_state=_memory_order)),
    ),
    (
        "test_a_kill_at_any_moment_of_a_commit_leaves_this_round_or_the_last_one",
        store("ManifestFirst", base=Files, in_order=lambda self, data, manifest: (manifest, data)),
    ),
    (
        "test_a_flipped_bit_in_a_state_is_noticed",
        store("Unchecked", base=Files, check_content=lambda self, content, checksum: None),
    ),
]
