"""The configuration file: what is read, and that every mistake is named with its place."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from fedplug.errors import ConfigError, UnknownNameError
from fedplug.tff.experiment.config import ExperimentConfig, load_config, selected_runs

GOOD = """
name = "small"
rounds = 2
[[runs]]
name = "one"
"""
EXAMPLES = Path(__file__).parents[3] / "examples"


def load(text: str, tmp_path: Path, *settings: str) -> ExperimentConfig:
    path = tmp_path / "config.toml"
    path.write_text(text, encoding="utf-8")
    return load_config(path, settings)


def test_the_digits_example_is_valid_and_leads_with_auto_both_ways() -> None:
    config = load_config(EXAMPLES / "digits.toml")
    assert config.runs[0].broadcast_encoder == "auto"
    assert [run.encoder for run in config.runs] == [
        "auto",
        "identity",
        "topk(0.01)",
        "topk(0.01, error_feedback=False)",
    ]


def test_a_byte_order_mark_is_no_part_of_the_text(tmp_path: Path) -> None:
    assert load("\ufeff" + GOOD, tmp_path) == load(GOOD, tmp_path)


@pytest.mark.parametrize("value", [5000 * "[" + 5000 * "]", 5000 * "{a = "])
def test_a_setting_that_is_nested_too_deeply_is_text(tmp_path: Path, value: str) -> None:
    with pytest.raises(ConfigError, match=r"rounds is .*; it must be a whole number"):
        load(GOOD, tmp_path, f"rounds={value}")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name = ", "not valid TOML"),
        ("a = " + 5000 * "[" + 5000 * "]", "nested too deeply"),
        ("a = " + 5000 * "{b = " + "1" + 5000 * "}", "nested too deeply"),
        (GOOD + "[[runs]]\nname = 'deep'\nencoder" + 3000 * ".a" + " = 1", "nested too deeply"),
        ("rounds = 3", "lacks the key 'name'"),
        ("name = 'x'", "lacks the key 'rounds'"),
        ("name = 'x'\nrounds = 3", r"there is no \[\[runs\]\]"),
        (GOOD.replace("rounds = 2", "rounds = 2\nrepeats = 0"), "repeats is 0; it must be at least 1"),
        (
            GOOD.replace("rounds = 2", "rounds = 2\ntarget_accuracy = 90"),
            "target_accuracy is 90.0; it must be between 0 and 1",
        ),
        (GOOD.replace("rounds = 2", "rounds = 0"), "rounds is 0; it must be at least 1"),
        (GOOD.replace("rounds = 2", "rounds = 2.5"), "rounds is 2.5; it must be a whole number"),
        (GOOD.replace("rounds = 2", "rounds = true"), "rounds is True; it must be a whole number"),
        (
            GOOD.replace("rounds = 2", "rounds = 2\nclients_per_round = 41"),
            "between 1 and the number of clients, 40",
        ),
        (GOOD.replace("small", "../up"), "name is '../up'"),
        (GOOD + "[data]\nclients = 0", r"\[data\] of .*: clients is 0; it must be at least 1"),
        (GOOD + "[data]\ndirichlet = 'x'", "dirichlet is 'x'; it must be a number"),
        (GOOD.replace("[[runs]]", "data = 3\n[[runs]]"), "data is 3; it must be a table"),
        (GOOD + "[model]\nhidden = 3", "a list of whole numbers"),
        (GOOD + "[model]\nhidden = [0]", "hidden"),
        (GOOD + "[model]\nhidden = [true]", r"hidden is \[True\]; it must be whole numbers"),
        (GOOD + "[data]\ndirichlet = inf", "dirichlet is inf; it must be finite"),
        (GOOD + "[client_optimizer]\nlearning_rate = 0", r"\[client_optimizer\] of .*: learning_rate is 0.0"),
        (GOOD + "[[runs]]\nname = 'one'", "different for every run"),
        (GOOD + "encoder = 3", "encoder is 3; it must be an expression or rules"),
        (GOOD + "[[runs]]\nencoder = 'topk(0.1)'", r"\[\[runs\]\] number 2 of .* lacks the key 'name'"),
        (
            GOOD + "proximal_strength = -1",
            r"\[\[runs\]\] number 1 of .*: proximal_strength is -1.0; it must be at least 0",
        ),
        (GOOD + "min_size = -1", r"\[\[runs\]\] number 1 of .*: min_size is -1"),
        (GOOD + "[data]\nsource = 'npz'", r"\[data\] of .*: path is ''; it must be the path of a file"),
        (GOOD + "[data]\npath = 'x'", "path is 'x'; it must be left out, because source is 'digits'"),
        (GOOD + "[data]\nalpha = 0.5", "alpha is 0.5; it must be left out, because source is 'digits'"),
        (GOOD + "[data]\narguments = { a = 1 }", "arguments is {'a': 1}; it must be left out"),
        (GOOD + "[data]\narguments = 1", "arguments is 1; it must be a table"),
        (GOOD + "[data]\nsource = 'synthetic'\nbeta = -1", "beta is -1.0; it must be at least 0"),
        (
            GOOD + "[model]\nbuild = 'a:b'\nhidden = [3]",
            r"hidden is \[3\]; it must be left out, because 'a:b'",
        ),
        (GOOD + "[model]\nmetrics = 'mse'", "metrics is 'mse'; it must be a list of names"),
        (GOOD + "[model]\nmetrics = [1]", r"metrics is \[1\]; it must be names of metrics"),
    ],
)
def test_every_mistake_is_named(text, message, tmp_path) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        load(text, tmp_path)
    assert "\n" not in str(caught.value)
    assert "config.toml" in str(caught.value)


@pytest.mark.parametrize(
    ("text", "nearest"),
    [
        (GOOD.replace("rounds", "round"), "rounds"),
        (GOOD + "[data]\nclient = 3", "clients"),
        (GOOD + "[modle]\nhidden = [1]", "model"),
        (GOOD + "[data]\nsource = 'digit'", "digits"),
        (GOOD + "[data]\npartition = 'dirichlt'", "dirichlet"),
    ],
)
def test_an_unknown_name_gets_the_nearest_one(text, nearest, tmp_path) -> None:
    with pytest.raises(UnknownNameError, match=f"did you mean '{nearest}'") as caught:
        load(text, tmp_path)
    assert "config.toml" in str(caught.value)


def test_the_page_has_every_key_with_its_default_and_a_file_that_is_read(tmp_path) -> None:
    page = (EXAMPLES.parent / "docs/experiments.md").read_text(encoding="utf-8")
    example = page.partition("```toml\n")[2].partition("```")[0]
    assert [run.name for run in load(example, tmp_path).runs] == ["no compression", "1 %, 8 bits, both ways"]
    cells = [line.split("|")[1:3] for line in page.splitlines() if line.startswith("| `")]
    told = {
        key: default.strip(' `"')
        for keys, defaults in cells
        for key, default in zip(
            re.findall(r"`(\w+)`", keys), re.split(r", (?![^[]*\])", defaults), strict=False
        )
    }
    defaults = load(GOOD, tmp_path).as_dict()
    for table in ("data", "model", "server_optimizer"):
        defaults.update(defaults.pop(table))
    defaults.update(defaults.pop("runs")[0])
    for key in ("client_optimizer", "name", "rounds"):
        del defaults[key]
    assert {told.pop(key) for key in ("loss",)} == {"by the labels"}
    for key, value in defaults.items():
        if key == "loss":
            continue
        if isinstance(value, bool):
            value = str(value).lower()  # as TOML has it
        default = f"{value:g}" if isinstance(value, float) else str(value) or "none"
        assert told[key].rstrip('`"') == default, key


def test_a_missing_file_is_named(tmp_path) -> None:
    with pytest.raises(ConfigError, match=r"cannot read the configuration .*nowhere"):
        load_config(tmp_path / "nowhere.toml")


def test_a_file_that_is_not_text_is_named(tmp_path) -> None:
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match=r"binary\.toml is not text in UTF-8"):
        load_config(tmp_path / "binary.toml")


def test_a_setting_replaces_a_value_of_the_file(tmp_path) -> None:
    config = load(GOOD, tmp_path, "rounds=20", "data.clients = 12", "data.partition=iid", "model.hidden=[3]")
    assert (config.rounds, config.data.clients, config.data.partition) == (20, 12, "iid")
    assert config.model.hidden == (3,)


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("round=3", "unknown key 'round' in .*config.toml with --set round=3; did you mean 'rounds'"),
        (
            "data.client=3",
            r"unknown key 'client' in \[data\] of .*--set data.client=3; did you mean 'clients'",
        ),
        ("rounds=many", "rounds is 'many'; it must be a whole number"),
        ("rounds", "--set 'rounds' must have the form KEY=VALUE"),
        ("rounds.a=3", "--set 'rounds.a=3' must name a key of a table, but rounds is not a table"),
    ],
)
def test_an_invalid_setting_is_named(tmp_path, setting, message) -> None:
    with pytest.raises(ConfigError, match=message):
        load(GOOD, tmp_path, setting)


def test_patterns_select_runs_by_name(tmp_path) -> None:
    two = load(GOOD + "[[runs]]\nname = 'top-k 1 %'\n", tmp_path)
    one = load(GOOD, tmp_path)
    assert selected_runs([two, one], []) == [("one", "top-k 1 %"), ("one",)]
    assert selected_runs([two, one], ["top-k*"]) == [("top-k 1 %",), ()]
    with pytest.raises(
        ConfigError, match=r"--only 'topk\*' matches no run; the runs are 'one', 'top-k 1 %', 'one'"
    ):
        selected_runs([two, one], ["topk*"])
