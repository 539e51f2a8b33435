"""`fedplug plugins list` and `fedplug plugins show`, with whole and broken plugins."""

from __future__ import annotations

import json
import os
import re

import pytest

from fedplug.cli import main


@pytest.fixture
def _acme(install, install_encoder):
    install_encoder("acme-codec", "acme", version="2.5")
    install("broken-codec", "import a_module_that_is_not_there")


@pytest.mark.usefixtures("_acme")
def test_list_shows_every_component_and_every_problem_with_its_fix(capsys):
    assert main(["plugins", "list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["KIND", "NAME", "FROM", "STATUS", "SUMMARY"]
    assert any(line.split()[:5] == ["encoder", "acme", "acme-codec", "2.5", "ok"] for line in lines)
    assert any(
        line.split()[:5] == ["plugin", "broken_codec", "broken-codec", "1.0", "broken"] for line in lines
    )
    assert any("No module named 'a_module_that_is_not_there'" in line for line in lines)
    assert any("fix: " in line and "pip uninstall broken-codec" in line for line in lines)


@pytest.mark.usefixtures("_acme")
def test_list_as_json_says_the_same(capsys):
    assert main(["plugins", "list", "--json"]) == 0
    found = {(entry["kind"], entry["name"]): entry for entry in json.loads(capsys.readouterr().out)}
    assert found["encoder", "topk"]["target"] == "fedplug.encoders.sparsifiers:TopK"
    assert found["encoder", "acme"]["version"] == "2.5"
    assert found["plugin", "broken_codec"]["status"] == "broken"


@pytest.mark.usefixtures("_acme")
@pytest.mark.parametrize("name", ["acme", "acme-codec"])
def test_show_takes_a_component_or_a_distribution(name, capsys):
    assert main(["plugins", "show", name]) == 0
    facts = dict(line.split(":", 1) for line in capsys.readouterr().out.splitlines())
    assert facts["distribution"].strip() == "acme-codec"
    assert facts["target"].strip() == "collections:OrderedDict"


@pytest.mark.usefixtures("_acme")
def test_list_and_show_report_where_an_encoder_executes(capsys):
    assert main(["plugins", "list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    told = {line.split()[1]: line.partition(" (")[2] for line in lines if "encoder " in line}
    assert [told[name] for name in ("acme", "topk", "identity")] == [
        "TensorFlow only)",
        "also on CUDA devices)",
        "",
    ]
    assert main(["plugins", "list", "--json"]) == 0
    executes_on = {each["name"]: each["executes_on"] for each in json.loads(capsys.readouterr().out)}
    assert executes_on["acme"] == ["tensorflow"]
    assert executes_on["topk"] == ["numpy", "tensorflow", "cuda"]
    assert executes_on["mean"] == []
    assert main(["plugins", "show", "topk"]) == 0
    assert "executes_on:  numpy, tensorflow, cuda" in capsys.readouterr().out.splitlines()


@pytest.mark.needs("fedplug.encoders")
def test_show_reports_why_a_component_cannot_be_created(install_encoder, capsys):
    install_encoder("abstract-codec", "abstract", "fedplug.encoders:Encoder")
    assert main(["plugins", "show", "abstract"]) == 0
    problem = capsys.readouterr().out.splitlines()[-1]
    assert problem.startswith("problem:      ConfigError: encoder 'abstract' rejects its arguments: ")


@pytest.mark.needs("fedplug.encoders")
def test_show_lists_the_promises_of_a_configured_encoder(capsys):
    assert main(["plugins", "show", "topk"]) == 0
    lines = capsys.readouterr().out.splitlines()
    arguments = "(fraction=None, *, count=None, chunk=None, decay=1.0, error_feedback=True, scope='tensor')"
    assert f"arguments:    {arguments}" in lines
    table = [re.split("  +", line) for line in lines]
    assert ["MADE AS", "WIRE ID", "NEEDS", "PROMISES", "DTYPES"] in table
    assert ["topk(0.3)", "sparse/1", "client_state", "-", "all floats"] in table
    assert ["topk(0.3, error_feedback=False)", "sparse/1", "-", "bounded_sensitivity", "all floats"] in table


@pytest.mark.needs("fedplug.tff.aggregators")
def test_show_lists_the_promises_of_an_aggregator(capsys):
    assert main(["plugins", "show", "mean"]) == 0
    assert re.search(r"^mean +- +- +unbiased, commutes_with_sum, ", capsys.readouterr().out, re.MULTILINE)


@pytest.mark.needs("fedplug.schedules")
def test_show_lists_the_arguments_of_a_schedule(capsys):
    assert main(["plugins", "show", "linear"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[-2:] == ["arguments:    (start, end, rounds)", "made as:      linear(0.1, 0.01, 20)"]


@pytest.mark.needs("tensorflow")
def test_show_works_for_stores_without_tensorflow(python):
    program = (
        "import sys; from fedplug.cli import main; main(['plugins', 'show', 'sqlite']); "
        "assert 'tensorflow' not in sys.modules"
    )
    assert python("-c", program).stdout.splitlines()[-2:] == [
        "arguments:    (path, keep_rounds=1, *, looking=False)",
        "made as:      sqlite:///{folder}",
    ]


@pytest.mark.parametrize("command", ["show", "check"])
def test_an_unknown_name_without_a_similar_one_says_how_to_list_them(command, capsys):
    assert main(["plugins", command, "zzz"]) == 2
    message = capsys.readouterr().err
    assert "none of the" in message
    assert "`fedplug plugins list` lists them" in message
    assert "topk" not in message


@pytest.mark.needs("tensorflow")
def test_check_reports_a_component_that_cannot_be_created_and_continues(install_encoder, capsys):
    install_encoder("abstract-codec", "abstract", "fedplug.encoders:Encoder")
    assert main(["plugins", "check", "abstract"]) == 1
    output = capsys.readouterr().out
    assert "ok    every class can be imported" in output
    assert "  fail  it can be made\n        ConfigError: encoder 'abstract' rejects its arguments: " in output


@pytest.mark.parametrize(
    ("command", "name", "nearest"),
    [("show", "tpok", "topk"), ("check", "tpok(0.1)", "topk"), ("check", "sqlite(3)", "sqlite")],
)
def test_an_unknown_name_names_the_nearest(command, name, nearest, capsys):
    assert main(["plugins", command, name]) == 2
    message = f"unknown component or distribution '{name.partition('(0')[0]}'; did you mean '{nearest}'?\n"
    assert capsys.readouterr().err == f"fedplug: error: {message}"


@pytest.mark.needs("fedplug.tff.aggregators")
@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("topk(fractoin=1)", "unknown argument 'fractoin' in encoder 'topk'; did you mean 'fraction'?"),
        ("mean('modal')", "mean weights is 'modal'; it must be one of examples, uniform"),
        (
            "rice | topk(0.1)",
            "the stages of a pipeline are sparsifier | quantizer | entropy coder | index coder",
        ),
    ],
)
def test_a_mistyped_argument_is_an_error_and_not_a_failed_check(name, message, capsys):
    assert main(["plugins", "check", name]) == 2
    printed = capsys.readouterr()
    assert message in printed.err
    assert not printed.out


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the commands import plugins in a forked process first")
@pytest.mark.parametrize(
    ("command", "source", "does"),
    [
        (("list",), "import os; os._exit(3)", "ends the process: exit status 3"),
        (("show", "topk"), "import os; os.kill(os.getpid(), 9)", "ends the process: Killed"),
        (("check", "topk"), "import time; time.sleep(3600)", "is not imported within 2 s"),
    ],
)
def test_a_plugin_that_cannot_be_survived_is_named(command, source, does, install, tmp_path, python):
    install("fatal-codec", source)
    program = "import sys; from fedplug.cli import main; from fedplug.registry import probe; "
    program += f"probe._SECONDS = 2; sys.exit(main(['plugins', *{command!r}]))"
    # No other plugin is imported: on a busy machine it might take longer than 2 s.
    result = python("-c", program, PYTHONPATH=str(tmp_path), FEDPLUG_PLUGINS="fatal-codec")
    assert result.returncode == 2
    assert result.stdout == ""
    assert result.stderr.startswith(
        f"fedplug: error: the plugin fatal-codec 1.0 {does}; `pip uninstall fatal-codec`"
    )
