"""The catalogue as plain data, and observers: told what they ask for, and never in anybody's way."""

from __future__ import annotations

import json
import logging
import sys
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from fedplug.registry import hookspecs, resolve
from fedplug.registry.catalog import Entry, settle_clashes

OBSERVER = Path(__file__).with_name("observer_plugin.py").read_text(encoding="utf-8")
BROKEN = """
    from fedplug.registry.hookspecs import hookimpl

    @hookimpl
    def fedplug_round_finished():
        raise RuntimeError("boom")
"""
FACTS = {
    "process": None,
    "process_id": "default",
    "round_num": 3,
    "metrics": {"aggregator": {"uplink_bytes": 7}},
}

entries = st.builds(
    Entry,
    kind=st.sampled_from(["encoder", "store"]),
    name=st.sampled_from(["a", "b"]),
    distribution=st.sampled_from(["x", "y", "z"]),
    version=st.just("1"),
    builtin=st.booleans(),
    status=st.sampled_from(["ok", "broken"]),
)


@settings(max_examples=100)
@given(st.lists(entries, max_size=6), st.randoms(use_true_random=False))
def test_a_name_has_one_owner_whatever_the_order_of_installation(found, random):
    shuffled = list(found)
    random.shuffle(shuffled)

    def winners(items):
        usable = [entry for entry in settle_clashes(items) if entry.status == "ok"]
        return sorted((entry.kind, entry.name, entry.distribution, entry.builtin) for entry in usable)

    assert winners(found) == winners(shuffled)
    plugins = [(kind, name) for kind, name, _, builtin in winners(found) if not builtin]
    assert len(set(plugins)) == len(plugins)


def test_every_entry_is_json():
    facts = [entry.to_json() for entry in resolve.catalog().entries]
    assert json.loads(json.dumps(facts)) == facts


def test_every_hook_declares_one_kind_of_component_or_observes_one_thing():
    hooks = {name for name in vars(hookspecs) if name.startswith("fedplug_")}
    declaring = {hook for hook, _ in resolve.KINDS.values()}
    assert declaring | set(resolve.OBSERVED.values()) == hooks
    assert all(vars(hookspecs)[hook].__doc__ for hook in hooks)


def test_an_observer_gets_the_arguments_it_names(install):
    module = install("acme-watch", OBSERVER)
    resolve.notify("fedplug_round_finished", **FACTS)
    assert sys.modules[module].seen == [(3, 7)]


def test_an_observer_receives_only_its_events(install):
    module = install("acme-watch", OBSERVER)
    resolve.notify("fedplug_process_built", process=None)
    assert sys.modules[module].seen == []


def test_an_observer_that_raises_is_logged_and_the_next_one_is_called(install, caplog):
    install("a-broken-watch", BROKEN)
    module = install("acme-watch", OBSERVER)
    with caplog.at_level(logging.ERROR, logger="fedplug"):
        resolve.notify("fedplug_round_finished", **FACTS)
    assert "fedplug_round_finished of a-broken-watch 1.0 raised" in caplog.text
    assert "boom" in caplog.text
    assert len(sys.modules[module].seen) == 1


def test_observers_are_listed_and_two_of_them_are_no_clash(install, monkeypatch):
    monkeypatch.setenv(resolve.ALLOW_VARIABLE, "a-broken-watch,acme-watch")  # there are installed ones
    install("a-broken-watch", BROKEN)
    install("acme-watch", OBSERVER)
    found = [entry for entry in resolve.catalog().entries if entry.kind == "observer"]
    assert [(entry.name, entry.distribution, entry.status) for entry in found] == [
        ("round_finished", "a-broken-watch", "ok"),
        ("round_finished", "acme-watch", "ok"),
    ]
    assert found[1].spec.summary == "Writes down what every round sent."
