"""Tests that docs/write-a-plugin.md shows the code that `fedplug plugins new acme` writes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from fedplug.cli import main

TUTORIAL = Path(__file__).parents[2] / "docs" / "write-a-plugin.md"
BLOCKS = re.findall(r"```(?:python|toml)\n(.*?)```", TUTORIAL.read_text(encoding="utf-8"), re.DOTALL)


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.strip().splitlines()[0])
def test_every_block_is_part_of_the_written_package(block, tmp_path, capsys):
    assert main(["plugins", "new", "acme", "--dir", str(tmp_path)]) == 0
    files = [path for path in (tmp_path / "fedplug-acme").rglob("*") if path.is_file()]
    assert any(block in path.read_text(encoding="utf-8") for path in files)


def test_the_tutorial_shows_code():
    assert len(BLOCKS) >= 5
