"""Any sequence of commits, openings, processes and ways back agrees with a dictionary that does the same."""

import copy
import pathlib
import tempfile

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from fedplug.errors import StoreError
from fedplug.stores.sqlite import SqliteStore

NAMES = st.text(max_size=8)
IDS = st.sampled_from(["a", "b", "ü/../", "a\0", "", "client:a"])
ARRAYS = hnp.arrays(
    st.sampled_from([np.float32, np.int8, np.bool_]), hnp.array_shapes(min_dims=0, max_dims=2, min_side=0)
)
STATES = st.dictionaries(NAMES, ARRAYS, max_size=2)
JSON = st.none() | st.integers() | st.text() | st.lists(st.floats(allow_nan=False))


def plain(state):
    return {name: (array.dtype, array.shape, array.tobytes()) for name, array in state.items()}


class StoreMachine(RuleBasedStateMachine):
    @initialize()
    def start(self):
        self.folder = tempfile.TemporaryDirectory()
        self.expected = {}
        self.kept = {}  # copies of self.expected[name], by name, oldest first
        self.keep_rounds = 2
        self.open()

    def open(self):
        self.store = SqliteStore(pathlib.Path(self.folder.name) / "s", keep_rounds=self.keep_rounds)
        self.processes = {name: self.store.open_process(name, {}) for name in self.expected}

    def teardown(self):
        if hasattr(self, "store"):
            self.store.close()
            self.folder.cleanup()

    @rule(
        name=st.sampled_from(["p", "q"]), clients=st.dictionaries(IDS, STATES), server=STATES, metadata=JSON
    )
    def commit(self, name, clients, server, metadata):
        if name not in self.expected:
            self.processes[name] = self.store.open_process(name, {})
            self.expected[name] = {"round": 6, "clients": {}}
        record = self.expected[name]
        record["round"] += 1
        record["clients"] |= {client: plain(state) for client, state in clients.items()}
        record["server"], record["metadata"] = plain(server), metadata
        self.processes[name].commit(
            record["round"], client_states=clients, server_state=server, metadata=metadata
        )
        kept = self.kept.setdefault(name, [])
        kept.append(copy.deepcopy(record))
        del kept[: -self.keep_rounds]

    @rule(name=st.sampled_from(["p", "q"]), steps=st.integers(0, 3))
    def go_back(self, name, steps):
        kept = self.kept.get(name, [])
        if not kept:
            return
        to = kept[-1]["round"] - steps
        if steps >= len(kept):
            with pytest.raises(StoreError, match=f"round {to} of process '{name}' is not kept"):
                self.processes[name].rewind(to)
            return
        del kept[len(kept) - steps :]
        self.processes[name].rewind(to)
        self.expected[name] = copy.deepcopy(kept[-1])

    @rule(keep_rounds=st.integers(1, 4))
    def open_again(self, keep_rounds):
        self.store.close()
        self.keep_rounds = keep_rounds
        self.open()

    @invariant()
    def agrees(self):
        assert self.store.processes() == sorted(self.expected)
        for name, record in self.expected.items():
            process = self.processes[name]
            process.verify()
            assert process.kept_rounds() == [each["round"] for each in self.kept[name]]
            assert process.last_round == record["round"]
            assert process.metadata == record["metadata"]
            assert process.client_ids() == sorted(record["clients"])
            assert plain(process.read_server()) == record["server"]
            found = process.read_clients(record["clients"])
            assert {client: plain(state) for client, state in found.items()} == record["clients"]


TestStoreMachine = StoreMachine.TestCase
TestStoreMachine.settings = settings(max_examples=25, stateful_step_count=15, deadline=None)
