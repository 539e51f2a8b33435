"""The code in docs/plugins.md is code that is tested, and its tables name everything there is."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest

from fedplug.registry import hookspecs, resolve
from fedplug.registry.specs import Capabilities

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs/plugins.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.strip().splitlines()[1])
def test_every_block_is_part_of_a_plugin(block):
    sources = [*ROOT.glob("plugins/*/fedplug_*/plugin.py"), Path(__file__).with_name("observer_plugin.py")]
    assert any(block in source.read_text(encoding="utf-8") for source in sources)


@pytest.mark.parametrize(
    "names",
    [
        [name for name in vars(hookspecs) if name.startswith("fedplug_")],
        [field.name for field in dataclasses.fields(Capabilities)],
        [resolve.ALLOW_VARIABLE],
    ],
    ids=["hooks", "capabilities", "variables"],
)
def test_every_hook_capability_and_variable_is_documented(names):
    assert [name for name in names if f"`{name}`" not in TEXT] == []
