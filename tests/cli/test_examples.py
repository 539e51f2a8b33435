"""``fedplug examples``: what is listed, run and copied."""

from __future__ import annotations

import pytest

from fedplug.cli import examples, main
from fedplug.tff import experiment


def test_every_example_is_listed_with_the_first_line_of_its_description(capsys) -> None:
    assert main(["examples", "list"]) == 0
    lines = capsys.readouterr().out.splitlines()[1:]
    assert [line.split()[0] for line in lines] == list(examples.find())
    assert "digits" in examples.find()
    assert all(len(line.split()) > 4 for line in lines)


def test_every_example_has_a_page_and_every_page_an_example() -> None:
    root = examples.find()["digits"].parents[1]
    pages = {path.stem for path in (root / "docs" / "examples").glob("*.md")} - {"README"}
    index = (root / "docs" / "examples" / "README.md").read_text(encoding="utf-8")
    assert pages == {name for name, path in examples.find().items() if path.suffix == ".py"}
    assert all(f"({page}.md)" in index for page in pages)


@pytest.mark.needs("tensorflow_federated")
@pytest.mark.parametrize("name", [n for n, path in examples.find().items() if path.suffix == ".py"])
def test_run_hands_the_arguments_to_the_program(name, capsys) -> None:
    with pytest.raises(SystemExit) as end:
        main(["examples", "run", name, "--help"])
    assert end.value.code == 0
    assert f"usage: {name}.py" in capsys.readouterr().out


def test_run_of_a_configuration_file_is_an_experiment(monkeypatch) -> None:
    paths = []
    monkeypatch.setattr(experiment, "main", paths.append)
    assert main(["examples", "run", "digits"]) == 0
    assert paths == [examples.find()["digits"]]


def test_copy_makes_the_same_file_and_never_overwrites_one(tmp_path, capsys) -> None:
    assert main(["examples", "copy", "digits", str(tmp_path)]) == 0
    copied = tmp_path / "digits.toml"
    assert capsys.readouterr().out == f"{copied}\n"
    assert copied.read_bytes() == examples.find()["digits"].read_bytes()
    assert main(["examples", "copy", "digits", str(tmp_path)]) == 2
    assert "already exists" in capsys.readouterr().err


def test_an_unknown_example_is_refused_with_the_nearest_name(capsys) -> None:
    assert main(["examples", "run", "digit"]) == 2
    assert "did you mean 'digits'" in capsys.readouterr().err
