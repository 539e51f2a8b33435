"""The recipes of the README can be built beside the examples' training scripts."""

from __future__ import annotations

import re
from pathlib import Path

PACKAGE = Path(__file__).parents[1]


def test_the_recipes_of_the_readme_can_be_built(monkeypatch):
    page = (PACKAGE / "README.md").read_text(encoding="utf-8")
    torch_recipe, both_ways, numpy_recipe = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    monkeypatch.chdir(PACKAGE / "examples/digits")
    monkeypatch.syspath_prepend(".")
    exec("from model import Digits\n" + torch_recipe + both_ways, {})
    monkeypatch.chdir(PACKAGE / "examples/numpy")
    exec(numpy_recipe, {})
