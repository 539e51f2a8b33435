"""The programs of docs/gpu.md and of the README run."""

import re
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[1]


def program(page):
    return "".join(re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL))


def test_docs_gpu_md(device):
    found = {}
    exec(program(PACKAGE.parents[1] / "docs" / "gpu.md"), found)
    assert found["payloads"].keys() == {"kernel"}


def test_readme(device):
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("this PyTorch sees no CUDA device")
    found = {}
    exec(program(PACKAGE / "README.md"), found)
    assert int((found["total"] != 0).sum()) == found["found"].row_splits[1]
