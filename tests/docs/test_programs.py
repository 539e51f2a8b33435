"""The Python on each of these pages is one program without TensorFlow, and prints what the page shows."""

from __future__ import annotations

import pytest
from pages import ROOT, blocks, printed

PAGES = {
    "codec.md": 8,
    "five-minutes.md": 4,
    "error-feedback.md": 2,
    "which-encoder.md": 1,
    "stores.md": 1,
    "stages.md": 1,
    "index.md": 1,
    "secure-aggregation.md": 1,
    "sending-models.md": 2,
}
BEFORE = {
    "stores.md": "import numpy as np\narray, weights = np.ones(3), np.zeros(3)\n",  # what a reader has
}
AFTER = "import sys\nassert 'tensorflow' not in sys.modules"


@pytest.mark.parametrize("name", PAGES)
def test_the_examples_run_one_after_the_other_without_tensorflow(name, tmp_path):
    page = (ROOT / "docs" / name).read_text(encoding="utf-8")
    parts = blocks(page, "python")
    assert len(parts) == PAGES[name]
    shown = "".join(blocks(page, "text"))
    assert printed([BEFORE.get(name, ""), *parts, AFTER], tmp_path) == shown
