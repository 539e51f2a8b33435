"""Observers: told what they ask for, and never in anybody's way."""

from __future__ import annotations

import logging
import sys
from pathlib import Path

from fedplug.registry import resolve

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
