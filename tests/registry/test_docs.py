"""The code in docs/plugins.md is the code of the plugin that is tested."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PLUGIN = ROOT / "plugins" / "fedplug-signsgd"
BLOCKS = re.findall(
    r"```(?:python|toml)\n(.*?)```", (ROOT / "docs/plugins.md").read_text(encoding="utf-8"), re.DOTALL
)


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.strip().splitlines()[0])
def test_every_block_is_part_of_the_plugin(block):
    sources = [*PLUGIN.glob("fedplug_signsgd/*.py"), PLUGIN / "pyproject.toml"]
    assert any(block in source.read_text(encoding="utf-8") for source in sources)
