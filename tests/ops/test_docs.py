"""docs/ops.md: its program runs, learns, and sends what it says; its table names what there is."""

from __future__ import annotations

import re
from pathlib import Path

from fedplug import ops

TEXT = (Path(__file__).parents[2] / "docs" / "ops.md").read_text(encoding="utf-8")


def test_the_program_on_the_page_learns_from_the_entries_that_travel():
    (program,) = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
    names: dict = {}
    exec(program, names)
    assert names["losses"][-1] < names["losses"][0] / 4
    values, indices, row_splits = names["message"]
    assert values.shape == indices.shape == [sum(names["ks"])] == [row_splits[-1]]
    assert sum(names["ks"]) < sum(names["sizes"]) / 50
    assert any(float(abs(r.numpy()).max()) > 0 for r in names["residuals"])


def test_the_table_has_every_op_that_updates_a_variable():
    updates = {name for name in ops.__all__ if "_update" in name}
    assert updates <= set(re.findall(r"`(\w+)`", TEXT))
