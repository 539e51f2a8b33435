"""The folder of an experiment that every later release must continue."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from fedplug.tff import experiment

pytestmark = [pytest.mark.needs("tensorflow_federated"), pytest.mark.needs("matplotlib")]

GOLDEN = Path(__file__).with_name("golden")


def test_an_experiment_of_an_earlier_release_continues(tmp_path, capsys):
    shutil.copytree(GOLDEN / "run", tmp_path / "golden")
    config = tmp_path / "run.toml"
    config.write_text((GOLDEN / "run.toml").read_text().replace("rounds = 2", "rounds = 3"))
    experiment.main(config, tmp_path)
    assert "resuming after 2 of 3 rounds" in capsys.readouterr().out
    before, after = (
        list(map(json.loads, (folder / "metrics.jsonl").read_text().splitlines()))
        for folder in (GOLDEN / "run", tmp_path / "golden")
    )
    assert after[:2] == before
    assert after[2]["round"] == 3
