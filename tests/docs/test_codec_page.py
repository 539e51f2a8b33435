"""The Python in docs/codec.md runs, in order, as one program, and needs no TensorFlow."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "codec.md"


def test_the_examples_run_one_after_the_other_without_tensorflow(tmp_path):
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert len(blocks) == 6
    check = "import sys\nassert 'tensorflow' not in sys.modules"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", "\n".join([*blocks, check])],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
