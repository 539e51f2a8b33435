"""docs/encoders.md and the table of measurements speak of every encoder that is installed, and rightly."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

from fedplug import manager

ROOT = Path(__file__).parents[2]
NAMES = [name for name in manager.catalog().names("encoder") if name != "pipeline"]
EXAMPLES = {"topk": [0.1], "randomk": [0.1], "stc": [0.1], "dgc": [0.1], "threshold": [1]}


def row(name):
    """The first two cells of the table's row about a part, what is between backticks in them."""
    text = (ROOT / "docs" / "encoders.md").read_text(encoding="utf-8")
    (found,) = re.findall(rf"^\| `({name}\b[^`]*)`[^|]*\| `([^`]*)` \|", text, flags=re.MULTILINE)
    return found


@pytest.mark.parametrize("name", NAMES)
def test_the_page_has_the_wire_id_and_the_arguments_of_every_encoder(name):
    signature, wire_id = row(name)
    part = manager.resolve("encoder", name)
    assert wire_id == part(*EXAMPLES.get(name, ())).wire_id
    assert re.findall(r"[(,] *(\w+)", signature) == list(inspect.signature(part).parameters)


@pytest.mark.parametrize("name", NAMES)
def test_every_encoder_is_measured(name):
    table = (ROOT / "benchmarks" / "results" / "encoders.md").read_text(encoding="utf-8")
    measured = "".join(line.split("` |")[0] for line in table.splitlines() if line.startswith("| `"))
    assert re.search(rf"\b{name}\b", measured)
