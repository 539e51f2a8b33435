"""The Python of pages and READMEs runs, in order, as one program a page."""

from __future__ import annotations

import numpy as np
import pytest
from pages import ROOT, blocks, printed

import fedplug

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
"""Each prints what it shows and needs no TensorFlow; with the number of its blocks."""
BEFORE = {
    "stores.md": "import numpy as np\narray, weights = np.ones(3), np.zeros(3)\n",  # what a reader has
}
AFTER = "import sys\nassert 'tensorflow' not in sys.modules"
ALONE = ("fedplug-baselines", "fedplug-mlflow", "fedplug-robust", "fedplug-sketch", "fedplug-tensorboard")
"""The READMEs of these are programs that need nothing else; the tests of other packages run theirs."""
README = (ROOT / "README.md").read_text(encoding="utf-8")
OBSERVE = (ROOT / "docs" / "observe.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_a_program_that_prints_what_it_shows(name, tmp_path):
    page = (ROOT / "docs" / name).read_text(encoding="utf-8")
    parts = blocks(page, "python")
    assert len(parts) == PAGES[name]
    shown = "".join(blocks(page, "text"))
    assert printed([BEFORE.get(name, ""), *parts, AFTER], tmp_path) == shown


def test_the_readme_shows_a_program(tmp_path):
    _, program = blocks(README, "python")
    assert printed([program, "print(mean['kernel'].shape)", AFTER], tmp_path) == "(300, 40)\n"


def test_the_two_lines_for_flower_are_those_of_the_package():
    flower, _ = blocks(README, "python")
    package = (ROOT / "plugins/fedplug-flower/README.md").read_text(encoding="utf-8")
    assert len(flower.splitlines()) == 2
    assert [line for line in flower.splitlines() if line not in package] == []


def test_the_page_about_observing_is_a_program(tmp_path):
    program = blocks(OBSERVE, "python")
    assert len(program) == 2
    check = "assert 'dense/kernel/nmse' in numbers"
    assert printed([*program, check, AFTER], tmp_path).startswith("dense/kernel ")


def test_every_number_of_a_tensor_is_in_the_table():
    metrics = fedplug.TensorMetrics()
    fedplug.codec("topk(0.1)").encode_model({"x": np.ones(100)}, metrics=metrics)
    assert [key for key in metrics.value()["x"] if f"| `{key}` |" not in OBSERVE] == []


@pytest.mark.slow
@pytest.mark.needs("tensorflow_federated")
def test_the_page_about_tff_is_one_program(tmp_path):
    parts = blocks((ROOT / "docs" / "tff.md").read_text(encoding="utf-8"), "python")
    assert len(parts) == 7
    checks = ["process.next(process.initialize(), [client(0)])", "assert len(values) == 10_000"]
    # TensorFlow and TFF warn of themselves.
    assert "uplink_bytes" in printed([*parts, *checks], tmp_path, warnings="default")


def of_readme(package):
    return blocks((ROOT / "plugins" / package / "README.md").read_text(encoding="utf-8"), "python")


@pytest.mark.needs("tensorflow_federated")
def test_the_readmes_are_programs(tmp_path):
    parts = [part for package in ALONE for part in of_readme(package)]
    assert len(parts) == 6
    printed(parts, tmp_path, warnings="default")
    assert list((tmp_path / "logs/client 7").iterdir())


def test_every_readme_of_a_package_is_run_by_a_test():
    for folder in sorted((ROOT / "plugins").iterdir()):
        if of_readme(folder.name) and folder.name not in ALONE:
            tests = [path.read_text(encoding="utf-8") for path in folder.glob("tests/test_*.py")]
            assert any('"README.md"' in text for text in tests), folder.name
