"""Making parts by name: what users call on the top level of fedplug."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import fedplug
from fedplug import errors
from fedplug.encoders import Identity, Pipeline, TopK
from fedplug.errors import ConfigError, UnknownNameError
from fedplug.registry import provenance
from fedplug.registry.resolve import catalog

CONFIGURATIONS = json.loads((Path(__file__).with_name("golden") / "configurations.json").read_text())
"""Configurations that every later release must read; `fedplug.to_config` wrote them."""
NEEDS_TFF = pytest.mark.needs("tensorflow_federated")


def test_an_expression_and_keywords_make_equal_encoders():
    assert fedplug.encoder("topk(0.01)") == Pipeline([TopK(0.01)])
    assert fedplug.encoder("topk", fraction=0.01) == Pipeline([TopK(0.01)])
    few = fedplug.encoder("topk(count=5, error_feedback=False)")
    assert few == Pipeline([TopK(count=5, error_feedback=False)])
    assert fedplug.encoder("identity") == Identity()


@pytest.mark.needs("tensorflow")
def test_encoder_accepts_expressions_names_configurations_rules_and_encoders():
    topk = fedplug.encoder("topk(0.01)")
    assert fedplug.encoder(fedplug.to_config(topk)) == fedplug.encoder(topk) == topk
    assert fedplug.encoder(TopK(0.01)) == topk
    assert fedplug.encoder({"name": "topk", "config": {"fraction": 0.01}}) == topk
    assert fedplug.encoder({"*": "topk(0.01)"}) == fedplug.encoder("rules", rules={"*": "topk(0.01)"})
    assert fedplug.encoder([{"encoder": "topk(0.01)"}]) == fedplug.encoder({"*": "topk(0.01)"})
    assert fedplug.schedule("constant", value=0.5) == fedplug.schedule("constant(0.5)")
    mean = fedplug.aggregator("mean")
    assert fedplug.aggregator({"name": "mean"}) == fedplug.aggregator(mean) == mean
    assert mean.name == "mean"


@pytest.mark.parametrize("value", [3, None, object()])
def test_something_else_is_refused(value):
    with pytest.raises(ConfigError, match="encoder must be an Encoder, an expression such as"):
        fedplug.encoder(value)
    with pytest.raises(ConfigError, match=r"the aggregator is .*; it must be a Component, such as 'mean'"):
        fedplug.aggregator(value)


@pytest.mark.needs("tensorflow")
def test_a_configuration_of_another_kind_is_refused():
    with pytest.raises(ConfigError, match="is not an encoder; it must have a name and a config"):
        fedplug.encoder(fedplug.to_config(fedplug.aggregator("mean")))


def test_a_class_the_registry_does_not_know_cannot_be_written_to_a_config():
    class Mine(Identity):
        pass

    with pytest.raises(ConfigError, match=r"Mine is not a registered component; declare it in a plugin"):
        fedplug.to_config(Mine())


def test_a_wrong_argument_names_the_nearest_right_one():
    with pytest.raises(
        UnknownNameError, match="unknown argument 'fractoin' in encoder 'topk'; did you mean 'fraction'"
    ):
        fedplug.encoder("topk(fractoin=0.01)")
    with pytest.raises(UnknownNameError, match="unknown argument 'fractoin' in encoder 'topk'"):
        fedplug.encoder("topk", fractoin=0.01)


def test_too_many_arguments_are_an_error_that_names_the_valid_ones():
    with pytest.raises(
        ConfigError, match=r"encoder 'topk': too many positional arguments; it takes fraction, count="
    ):
        fedplug.encoder("topk(0.01, 5, True)")


def test_an_argument_out_of_range_is_the_encoders_own_error():
    with pytest.raises(ConfigError, match="above 0 and at most 1"):
        fedplug.encoder("topk(1.5)")
    with pytest.raises(ConfigError, match="above 0 and at most 1"):
        fedplug.encoder(f"topk({10**400})")
    with pytest.raises(ConfigError, match="must be a finite number"):
        fedplug.encoder(f"topk(linear({10**400}, 0.1, 5))")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("tpok(0.01)", "unknown encoder 'tpok'; did you mean 'topk'"),
        ("randmk(0.01)", r"did you mean 'randomk'\?$"),  # and not the less similar 'rans', too
        ("float61", r"did you mean 'float16' or 'bfloat16'\?$"),
        ("TopK(0.1)", "did you mean 'topk'"),
        ("qSgd", "did you mean 'qsgd'"),
    ],
)
def test_an_unknown_name_lists_the_nearest(text, message):
    with pytest.raises(UnknownNameError, match=message):
        fedplug.encoder(text)


@pytest.mark.parametrize(
    ("text", "remedy"),
    [
        ("linear(0.1, 0.01, 20)", r"'linear' is one of the schedules.*'topk\(linear\(0.1, 0.01, 20\)\)'"),
        ("budget(qsgd(4), 900)", r"'qsgd' is one of the encoders.*\"budget\('qsgd\(4\)', 20000\)\""),
        ("topk(0.1) | mean", "'mean' is one of the aggregators.*`fedplug.aggregator`"),
        ("sqlite", "'sqlite' is one of the stores.*`fedplug.open_store`"),
    ],
)
def test_a_component_of_another_kind_is_refused_with_how_to_write_it(text, remedy):
    with pytest.raises(ConfigError, match=remedy):
        fedplug.encoder(text)


def test_without_a_similar_name_the_message_says_how_to_list_them():
    with pytest.raises(
        UnknownNameError, match=r"none of the \d+ known names is similar; `fedplug plugins list` lists them$"
    ):
        fedplug.encoder("zzz")
    assert errors.nearest("zzz", ["b", "a"], see="ls") == "known: a, b"
    many = [f"tensor {number:03}" for number in range(100)]
    assert errors.nearest("zzz", many).endswith("tensor 011 and 88 more")
    assert errors.nearest("zzz", []) == "none is available"


def test_several_stages_make_no_aggregator():
    with pytest.raises(ConfigError, match="has 2 stages, but an aggregator has one"):
        fedplug.aggregator("mean | mean")


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"kind": "encoder"}, "lacks 'name'"),
        ({"name": "topk"}, "lacks 'kind'"),
        ({"kind": "encoder", "name": "topk", "confg": {}}, "unknown key 'confg'.*did you mean 'config'"),
        ({"kind": "encodr", "name": "topk"}, "unknown kind of component 'encodr'; did you mean 'encoder'"),
        ({"kind": "encoder", "name": "topk", "config": [1]}, "must map argument names"),
        ({"kind": "encoder", "name": "topk", "config": {1: 2}}, "must map argument names to values"),
        ("topk(0.1)", "is 'topk\\(0.1\\)'; it must be a mapping"),
        ({"kind": "encoder", "name": 3}, "the name of a component is 3; it must be text"),
    ],
)
def test_a_configuration_of_the_wrong_form_is_refused(config, message):
    with pytest.raises(ConfigError, match=message):
        fedplug.from_config(config)


@pytest.mark.needs("tensorflow_federated")
@pytest.mark.parametrize("depth", [70, 300, 20_000])
@pytest.mark.parametrize(
    "wrap",
    [
        lambda inner: {"kind": "encoder", "name": "rules", "config": {"rules": {"*": inner}}},
        lambda inner: {"kind": "encoder", "name": "rules", "config": {"rules": [{"encoder": inner}]}},
        lambda inner: {"kind": "encoder", "name": "topk", "config": {"fraction": [inner]}},
        lambda inner: {"kind": inner},
        lambda inner: {"*": inner},
        lambda inner: [{"encoder": inner}],
    ],
)
def test_a_configuration_that_is_nested_too_deeply_is_refused(wrap, depth):
    value = "topk(0.1)"
    for _ in range(depth):
        value = wrap(value)
    with pytest.raises(ConfigError, match="nested more than 64 levels deep"):
        fedplug.encoder(value)
    if isinstance(value, dict):
        with pytest.raises(ConfigError, match="nested more than 64 levels deep"):
            fedplug.from_config(value)


@pytest.mark.needs("tensorflow_federated")
def test_every_public_name_is_there():
    for name in fedplug.__all__:
        assert getattr(fedplug, name) is not None
        assert name in dir(fedplug)


def test_every_part_is_an_attribute_before_anything_is_imported(python):
    parts = [
        "codecs",
        "differences",
        "encoders",
        "errors",
        "schedules",
        "secure",
        "stores",
        "versions",
        "wire",
    ]
    program = "import fedplug\n" + "\n".join(f"fedplug.{part}" for part in parts)
    assert python("-c", program).returncode == 0


def test_a_name_that_is_not_there_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'fedplug' has no attribute 'encodr'"):
        _ = fedplug.encodr


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
