"""Tests that a lost connection loses at most the round being committed, and that its result is known."""

from __future__ import annotations

import os
import signal

import numpy as np
import pytest

import fedplug
from fedplug.errors import StoreError, StoreInUseError
from fedplug.testing.rounds import round_of


@pytest.fixture
def way(server, proxy):
    with proxy(server.port) as opened:
        yield opened


@pytest.fixture
def by_the_way(server, way, url):
    """The same store, by a way that can be cut."""
    return url.replace(f":{server.port}", f":{way.port}")


@pytest.fixture
def process(by_the_way):
    """At round 0, with client 'a'."""
    with fedplug.open_store(by_the_way) as store:
        process = store.open_process("p", {})
        process.commit(0, **round_of(0, ["a"]))
        yield process


@pytest.mark.parametrize("moment", [b"COPY state", b"INSERT INTO round", b"DELETE FROM state", b"COMMIT"])
def test_a_connection_lost_in_a_commit_leaves_the_round_before_and_a_retry_works(process, way, moment):
    way.cut_before = moment
    with pytest.raises(StoreError, match=r"round 1 of process 'p' was not .*(lost|closed|intact)") as caught:
        process.commit(1, **round_of(1, ["a", "b"]))
    assert "\n" not in str(caught.value)
    assert way.cut_before is None
    assert (process.last_round, process.client_ids()) == (0, ["a"])
    process.commit(1, **round_of(1, ["a", "b"]))
    assert process.read_clients(["b"])["b"]["w"][0] == 1
    process.verify()


def test_a_connection_lost_after_the_round_was_permanent_is_found_out_and_is_no_error(process, way):
    way.cut_after = b"COMMIT"
    process.commit(1, **round_of(1, ["b"]))
    assert way.cut_after is None
    assert (process.last_round, process.client_ids()) == (1, ["a", "b"])


def test_a_client_that_lost_the_server_learns_that_the_commit_is_uncertain(process, way, url):
    way.cut_after = b"COMMIT"
    way.close()  # the connection that there is goes on
    with pytest.raises(StoreError, match=r"lost while round 1 .* `last_round` shows whether"):
        process.commit(1, **round_of(1, ["b"]))
    with fedplug.open_store(url) as store:
        assert store.open_process("p").last_round == 1


def test_a_lost_connection_is_made_again_by_the_next_use(process, server):
    server.sql(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'fedplug%'"
    )
    with pytest.raises(StoreError, match=r"terminat|closed"):
        process.read_server()
    assert process.read_server()["w"][0] == 0


def test_a_store_that_another_had_meanwhile_is_not_used_on(process, way, server, url):
    way.cut_before = b"COMMIT"
    with pytest.raises(StoreError):
        process.commit(1, **round_of(1, ["a"]))
    process._session.close()  # as if the program had been away for long
    process._session._closed = False
    with fedplug.open_store(url) as store:
        with pytest.raises(StoreInUseError, match=r"in use by fedplug, process \d+"):
            process.read_server()
        store.open_process("p").commit(1, **round_of(1, ["b"]))
    with pytest.raises(StoreInUseError, match="was opened by another user while the connection was lost"):
        process.commit(1, **round_of(1, ["a"]))


def test_a_server_that_no_longer_answers_is_given_up_after_the_timeout(server, new_url):
    with fedplug.open_store(new_url(timeout=3)) as store:
        process = store.open_process("p", {})
        process.commit(0, **round_of(0, ["a"]))
        pid = process._session._backend[0]
        os.kill(pid, signal.SIGSTOP)
        try:
            with pytest.raises(StoreError, match=r"nothing was heard for 3 s"):
                process.commit(1, **round_of(1, ["a"]) | {"server_state": {"w": np.zeros(2_000_000)}})
        finally:
            os.kill(pid, signal.SIGCONT)
        process.commit(1, **round_of(1, ["a"]))
        assert process.last_round == 1


def test_a_network_that_swallows_everything_is_given_up_after_the_timeout(way, by_the_way):
    with fedplug.open_store(f"{by_the_way}&timeout=3") as store:
        process = store.open_process("p", {})
        way.mute = True
        with pytest.raises(StoreError, match=r"nothing was heard for 3 s"):
            process.read_server()


def test_an_error_while_states_are_created_changes_nothing(process):
    class Broken(dict):
        def items(self):
            yield "a", {"w": np.zeros(3)}
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        process.commit(1, client_states=Broken(a=0), server_state={})
    assert process.read_clients(["a"])["a"]["w"].shape == (100,)
    process.commit(1, **round_of(1, ["a"]))
    assert process.read_clients(["a"])["a"]["w"][0] == 1
