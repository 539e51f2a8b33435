"""Configurations that every later release must read; `fedplug.to_config` wrote them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import fedplug
from fedplug.registry.resolve import catalog

CONFIGURATIONS = json.loads((Path(__file__).with_name("golden") / "configurations.json").read_text())


NEEDS_TFF = pytest.mark.needs("tensorflow_federated")


@pytest.mark.parametrize(
    ("expression", "configuration"),
    [
        pytest.param(*pair, marks=[NEEDS_TFF] if pair[1]["kind"] == "aggregator" else [])
        for pair in CONFIGURATIONS.items()
    ],
)
def test_a_configuration_of_an_earlier_release_makes_an_equal_component(expression, configuration):
    made = getattr(fedplug, configuration["kind"])(expression)
    assert fedplug.from_config(configuration) == made


def test_every_built_in_component_has_a_configuration():
    text = json.dumps(CONFIGURATIONS)
    for entry in catalog().entries:
        if entry.builtin and entry.kind in ("aggregator", "encoder", "schedule"):
            assert f'"name": "{entry.name}"' in text
