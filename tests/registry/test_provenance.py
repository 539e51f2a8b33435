"""Records of distributions, and the advice if one is missing."""

from __future__ import annotations

import json

import fedplug
from fedplug.registry import provenance


def test_every_component_in_a_configuration_is_recorded_once_with_its_distribution(install_encoder):
    install_encoder("acme-codec", "acme", version="2.5")
    stages = [{"name": "acme", "config": {"fraction": {"name": "linear", "config": {}}}}] * 2
    found = provenance.records("encoder", "pipeline", {"stages": stages})
    assert [(record["kind"], record["name"], record["distribution"]) for record in found] == [
        ("encoder", "pipeline", "fedplug"),
        ("encoder", "acme", "acme-codec"),
        ("schedule", "linear", "fedplug"),
    ]
    assert found[1]["version"] == "2.5"
    assert json.loads(json.dumps(found)) == found
    assert provenance.distributions(found) == ["acme-codec"]


def test_a_class_that_is_not_registered_has_no_record():
    assert provenance.records("encoder", "of_my_own", {}) == []


def test_a_missing_package_is_named_with_its_version_and_the_command():
    records = [
        {"kind": "encoder", "name": "gone", "distribution": "gone-codec", "version": "1.2"},
        {"kind": "encoder", "name": "topk", "distribution": "fedplug", "version": fedplug.__version__},
    ]
    assert provenance.install_hint(records) == (
        "it was made with gone-codec 1.2, which is not installed: `pip install gone-codec==1.2`"
    )
    assert provenance.install_hint(records[1:]) == ""
