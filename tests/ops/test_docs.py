"""docs/ops.md: its program runs and learns, and its table names existing ops."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from fedplug import ops

TEXT = (Path(__file__).parents[2] / "docs" / "ops.md").read_text(encoding="utf-8")


def test_the_program_on_the_page_learns_from_the_entries_that_travel():
    (program,) = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
    names: dict = {}
    exec(program, names)
    assert names["losses"][-1] < names["losses"][0] / 4
    values, indices, row_splits = names["message"]
    assert values.shape == indices.shape == [names["k"]] == [row_splits[-1]]
    assert names["k"] < sum(names["sizes"]) / 50
    assert any(float(abs(r.numpy()).max()) > 0 for r in names["residuals"])


def test_the_table_for_numpy_has_the_encoders_of_both():
    table = TEXT[TEXT.index("## For those who write NumPy") :]
    named = set(re.findall(r"\bops\.(\w+)", table)) - {"md"}
    assert len(named) > 20
    assert named <= set(ops.__all__)
    assert [name for name in re.findall(r"\bnp\.(\w+)", table) if not hasattr(np, name)] == []


def test_the_table_for_numpy_is_true():
    x, y = np.array([3.0, -1.0, 0.0, 3.0], np.float32), np.array([2.0, 0.0, 5.0, 1.0], np.float32)
    pairs = [
        (np.asarray([1], x.dtype), ops.asarray([1], like=x)),
        (np.concatenate([x, y]), ops.concat([x, y])),
        (np.where(x > y, x, y), ops.where(x > y, x, y)),
        (np.flatnonzero(x), ops.nonzero(x)),
        (np.argsort(-x, kind="stable"), ops.argsort_descending(x)),
        (np.cumsum(x) - x, ops.cumulative_sum(x)),
        (np.clip(x, 0, 1), ops.clip(x, np.float32(0), np.float32(1))),
        (np.frombuffer(x.tobytes(), np.uint8), ops.to_bytes(x)),
        (x, ops.from_bytes(ops.to_bytes(x), "float32")),
        (np.array([1.5, 0, 0, 3], np.float32), ops.divide_no_nan(x, y)),
    ]
    for want, got in pairs:
        np.testing.assert_array_equal(got, want)
