"""`fedplug plugins list` and `fedplug plugins show`, with whole and broken plugins."""

from __future__ import annotations

import json

import pytest

from fedplug.cli import main


@pytest.fixture
def _acme(install, install_encoder):
    install_encoder("acme-codec", "acme", version="2.5")
    install("broken-codec", "import a_module_that_is_not_there")


@pytest.mark.usefixtures("_acme")
def test_list_shows_every_part_and_every_problem_with_its_fix(capsys):
    assert main(["plugins", "list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["KIND", "NAME", "FROM", "STATUS", "SUMMARY"]
    assert any(line.split()[:5] == ["encoder", "acme", "acme-codec", "2.5", "ok"] for line in lines)
    assert any(
        line.split()[:5] == ["plugin", "broken_codec", "broken-codec", "1.0", "broken"] for line in lines
    )
    assert any(line.endswith("No module named 'a_module_that_is_not_there'") for line in lines)
    assert any("fix: " in line and "pip uninstall broken-codec" in line for line in lines)


@pytest.mark.usefixtures("_acme")
def test_list_as_json_says_the_same(capsys):
    assert main(["plugins", "list", "--json"]) == 0
    found = {(entry["kind"], entry["name"]): entry for entry in json.loads(capsys.readouterr().out)}
    assert found["encoder", "topk"]["target"] == "fedplug.encoders.topk:TopK"
    assert found["encoder", "acme"]["version"] == "2.5"
    assert found["plugin", "broken_codec"]["status"] == "broken"


@pytest.mark.usefixtures("_acme")
@pytest.mark.parametrize("name", ["acme", "acme-codec"])
def test_show_takes_a_part_or_a_distribution(name, capsys):
    assert main(["plugins", "show", name]) == 0
    facts = dict(line.split(":", 1) for line in capsys.readouterr().out.splitlines())
    assert facts["distribution"].strip() == "acme-codec"
    assert facts["target"].strip() == "collections:OrderedDict"


def test_show_of_an_unknown_name_names_the_nearest(capsys):
    assert main(["plugins", "show", "tpok"]) == 2
    assert capsys.readouterr().err == "fedplug: error: unknown plugin 'tpok'; did you mean 'topk'?\n"
