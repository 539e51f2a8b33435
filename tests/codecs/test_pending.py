"""Tests that a pending state is settled once, by its own message, and survives the end of a process."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedplug.codecs.pending import Pending, StoredPending
from fedplug.errors import StoreError
from fedplug.stores.memory import MemoryStore

STEPS = st.lists(st.booleans() | st.just("propose"), max_size=20)


@given(STEPS)
def test_a_state_is_that_after_the_last_accepted_message(steps):
    residual, accepted, sent = Pending(0), 0, None
    for number, step in enumerate(steps, 1):
        if step == "propose":
            residual, sent = residual.propose(number), number
        else:
            residual, accepted, sent = (
                residual.settle(accepted=step),
                sent if step and sent is not None else accepted,
                None,
            )
        assert (residual.state, residual.after) == (accepted, sent)
        assert residual.latest == (accepted if sent is None else sent)


@given(STEPS)
def test_a_spare_state_is_not_needed(steps):
    residual = Pending(0)
    for number, step in enumerate(steps, 1):
        residual = residual.propose(number) if step == "propose" else residual.settle(accepted=step)
        assert residual.spare not in (residual.state, residual.after) or residual.spare is None


def opened(store):
    return StoredPending(store.open_process("client", {}))


def state(number):
    return {"residual": {"w": np.full(2, number)}}


def number_of(kept):
    found = kept.read("residual")
    return None if found is None else int(found["w"][0])


@given(st.lists(st.sampled_from(["commit", "accept", "refuse", "restart", "fail", "reopen"]), max_size=25))
def test_a_stored_state_is_that_after_the_last_message_that_was_accepted_before_a_commit(steps):
    store = MemoryStore()
    kept = opened(store)
    stored = now = (None, None)  # the receipts before and after the last message
    for number, step in enumerate(steps):
        before, after = stored
        if step == "commit":
            kept.commit(state(number), f"{number}")
            stored = now = (now[0], f"{number}")
        elif step == "restart":
            kept, now = opened(store), stored
        elif step == "reopen":
            kept.reopen()
            now = now if now[0] == after else stored
        elif step == "fail":
            with pytest.raises(StoreError):
                kept.commit({"residual": {"w": np.array(["a text"])}}, f"{number}")
        elif after is None or now[0] == after:  # an acceptance is final
            assert not kept.settle([after])
        else:
            assert kept.settle([after] if step == "accept" else ["another"]) is (step == "accept")
            now = (after if step == "accept" else before, None)
        assert (kept.accepted, kept.pending, kept.sent) == (*now, stored[1])
        assert number_of(kept) == (None if now[0] is None else int(now[0]))


def test_a_commit_without_a_message_stores_the_decision():
    store = MemoryStore()
    kept = opened(store)
    kept.commit(state(1), "1", metadata={"name": "a"})
    kept.settle(["1"])
    kept.commit(server_state={"model": np.ones(2)})
    again = opened(store)
    assert (again.accepted, again.pending, number_of(again), again.metadata) == ("1", None, 1, {"name": "a"})
    again.forget()
    again.commit()
    assert (opened(store).accepted, opened(store).read("residual")) == (None, None)


def test_an_object_knows_that_another_one_has_committed():
    store = MemoryStore()
    kept, other = opened(store), opened(store)
    other.commit(state(1), "1")
    assert (kept.is_newest, other.is_newest) == (False, True)
