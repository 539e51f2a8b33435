"""The catalogue as plain data."""

from __future__ import annotations

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from fedplug.registry import hookspecs, resolve
from fedplug.registry.catalog import Entry, settle_clashes

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
def test_the_owner_of_a_name_does_not_depend_on_the_order_of_installation(found, random):
    shuffled = list(found)
    random.shuffle(shuffled)

    def winners(items):
        usable = [entry for entry in settle_clashes(items) if entry.status == "ok"]
        return sorted((entry.kind, entry.name, entry.distribution, entry.builtin) for entry in usable)

    assert winners(found) == winners(shuffled)


@settings(max_examples=100)
@given(st.lists(entries, max_size=6))
def test_no_two_plugins_share_a_usable_name(found):
    usable = [entry for entry in settle_clashes(found) if entry.status == "ok" and not entry.builtin]
    assert len({(entry.kind, entry.name) for entry in usable}) == len(usable)


def test_every_entry_is_json():
    facts = [entry.to_json() for entry in resolve.catalog().entries]
    assert json.loads(json.dumps(facts)) == facts


def test_every_hook_declares_one_kind_of_component_or_observes_one_thing():
    hooks = {name for name in vars(hookspecs) if name.startswith("fedplug_")}
    declaring = {hook for hook, _ in resolve.KINDS.values()}
    assert declaring | set(resolve.OBSERVED.values()) == hooks
    assert all(vars(hookspecs)[hook].__doc__ for hook in hooks)
