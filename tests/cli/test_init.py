"""``fedplug init``: what it writes is a configuration that has every key."""

from __future__ import annotations

import dataclasses

from fedplug.cli import main
from fedplug.tff.experiment.config import (
    DataConfig,
    ExperimentConfig,
    ModelConfig,
    OptimizerConfig,
    RunConfig,
    load_config,
)


def test_the_file_is_a_configuration_with_its_own_name(tmp_path, capsys):
    path = tmp_path / "my question.toml"
    assert main(["init", str(path)]) == 0
    assert capsys.readouterr().out == f"{path}; run it with: fedplug run {path}\n"
    config = load_config(path)
    assert config.name == "my-question"
    assert len(config.runs) == 2


def test_a_name_outside_unicode_is_escaped(tmp_path):
    path = tmp_path / "\udcff.toml"  # the byte 255
    assert main(["init", str(path)]) == 0
    assert r"\udcff.toml" in path.read_text(encoding="utf-8")


def test_the_file_has_every_key_and_comments_show_the_defaults(tmp_path):
    path = tmp_path / "all.toml"
    assert main(["init", str(path)]) == 0
    text = path.read_text(encoding="utf-8")
    written = {line.lstrip("# ").partition(" =")[0] for line in text.splitlines() if " = " in line}
    for table in (ExperimentConfig, DataConfig, ModelConfig, OptimizerConfig, RunConfig):
        for field in dataclasses.fields(table):
            if field.default is not dataclasses.MISSING and field.name != "runs":
                assert field.name in written, field.name
    commented = [line for line in text.splitlines() if line.startswith("# ") and " = " in line]
    kept = [line for line in commented if not line.startswith(("# source", "# What"))]
    once = path.with_name("once.toml")
    once.write_text(text, encoding="utf-8")
    for line in kept:  # uncommented one after the other, the meaning stays
        text = text.replace(line, line.removeprefix("# "))
    path.write_text(text, encoding="utf-8")
    assert load_config(path) == load_config(once)


def test_nothing_is_overwritten(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "experiment.toml").write_text("mine", encoding="utf-8")
    assert main(["init"]) == 2
    assert "experiment.toml already exists; remove it, or name another file" in capsys.readouterr().err
    assert (tmp_path / "experiment.toml").read_text(encoding="utf-8") == "mine"


def test_a_folder_that_is_not_there_is_one_line(tmp_path, capsys):
    assert main(["init", str(tmp_path / "there/is/no/folder.toml")]) == 2
    assert capsys.readouterr().err.count("\n") == 1
