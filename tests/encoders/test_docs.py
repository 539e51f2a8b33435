"""Tests that docs/encoders.md and the table of measurements describe every installed encoder correctly."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

from fedplug.encoders import Pipeline, Sparsifier
from fedplug.registry import resolve

ROOT = Path(__file__).parents[2]
WHOLE_MODELS = ["auto", "rules", "budget"]
AROUND_OTHERS = ["ef21"]  # its wire id is that of its inner encoder
WRITTEN_WITH_BARS = ["pipeline"]
# Measured as part of topk(0.01), randomk(0.01), and qsgd with a budget; gaps is in entropy.md,
# sharedk in learning.md, planes in lossless.md.
MEASURED_WITH_OTHERS = ["seeded", "mixed_qsgd", "gaps", "sharedk", "planes"]
NAMES = [
    n for n in resolve.catalog().names("encoder") if n not in WRITTEN_WITH_BARS + WHOLE_MODELS + AROUND_OTHERS
]
EXAMPLES = {"threshold": [1], **{n: [0.1] for n in ("topk", "randomk", "stc", "dgc", "sharedk")}}
KEYWORDS = {"sharedk": {"clients": 4}}


def row(name):
    """The texts in backticks in the first two cells of a component's row in the table; "" is none."""
    text = (ROOT / "docs" / "encoders.md").read_text(encoding="utf-8")
    (found,) = re.findall(rf"^\| `({name}\b[^`]*)`[^|]*\| (?:`([^`]*)` \|)?", text, flags=re.MULTILINE)
    return found


@pytest.mark.parametrize("name", NAMES + WHOLE_MODELS + AROUND_OTHERS)
def test_the_page_has_the_arguments_and_the_wire_id_of_every_encoder(name):
    signature, wire_id = row(name)
    made = resolve.resolve("encoder", name)
    assert re.findall(r"[(,] *(\w+)", signature) == list(inspect.signature(made).parameters)
    if name in NAMES:
        component = made(*EXAMPLES.get(name, ()), **KEYWORDS.get(name, {}))
        alone = Pipeline([component]) if isinstance(component, Sparsifier) else component
        assert wire_id == alone.wire_id


def test_the_code_on_the_page_runs():
    text = (ROOT / "docs" / "encoders.md").read_text(encoding="utf-8")
    exec("\n".join(re.findall(r"```python\n(.*?)```", text, re.DOTALL)), {})


@pytest.mark.parametrize("name", AROUND_OTHERS)
def test_every_encoder_around_others_is_measured(name):
    code = (ROOT / "benchmarks" / "feedback.py").read_text(encoding="utf-8")
    assert re.search(rf": f?[\"']{name}\(", code)


@pytest.mark.parametrize("name", [name for name in NAMES if name not in MEASURED_WITH_OTHERS])
def test_every_encoder_is_measured(name):
    table = (ROOT / "benchmarks" / "results" / "encoders.md").read_text(encoding="utf-8")
    measured = "".join(line.split("` |")[0] for line in table.splitlines() if line.startswith("| `"))
    assert re.search(rf"\b{name}\b", measured)
