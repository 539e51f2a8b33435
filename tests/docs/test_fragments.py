"""Code that is no program of its own is part of a file that is tested; and no page's code is forgotten."""

from __future__ import annotations

from pathlib import Path

import pytest
from pages import ROOT, blocks

EXAMPLE = ROOT / "plugins/fedplug-flower/examples/digits"
"""The app that plugins/fedplug-flower/tests/test_processes.py runs, in the simulation and on a SuperLink."""
FLOWER = (ROOT / "docs/flower-five-minutes.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("block", [*blocks(FLOWER, "python"), *blocks(FLOWER, "toml")])
def test_the_code_for_flower_is_that_of_the_example(block):
    sources = [*EXAMPLE.glob("digits_app/*.py"), EXAMPLE / "pyproject.toml"]
    assert any(block in source.read_text(encoding="utf-8") for source in sources)


def test_the_code_for_secagg_is_that_of_the_example():
    page = (ROOT / "docs/flower.md").read_text(encoding="utf-8")
    example = {line.strip() for line in (EXAMPLE / "secagg.py").read_text(encoding="utf-8").splitlines()}
    lines = [line for block in blocks(page, "python") for line in block.splitlines()]
    assert len(lines) == 7
    assert [line for line in lines if line not in example] == []


def test_the_commands_for_flower_are_those_of_the_package():
    readme = (ROOT / "plugins/fedplug-flower/README.md").read_text(encoding="utf-8")
    commands = [
        line
        for line in FLOWER.splitlines()
        if line.startswith(("pip ", "export ", "cd ", "flwr ", "accuracy "))
    ]
    assert len(commands) == 5
    assert [line for line in commands if line.split("  #")[0].rstrip() not in readme] == []


def test_a_table_on_a_page_has_the_numbers_that_were_measured():
    page = (ROOT / "docs/which-encoder.md").read_text(encoding="utf-8")
    results = (ROOT / "benchmarks/results/which_encoder.md").read_text(encoding="utf-8")
    measured = [line for line in results.splitlines() if line.startswith("| `")]
    assert len(measured) > 10
    assert [line for line in measured if line not in page.splitlines()] == []
    for encoder, ratio in (("topk(0.01, scope='model') \\| qsgd(8)", 156), ("qsgd(4) \\| rans", 8)):
        [row] = [line for line in measured if line.startswith(f"| `{encoder}` |")]
        assert f"| {ratio}x |" in row
        assert f"{ratio} times fewer" in page or f"and {ratio} times" in page


def test_the_effect_on_learning_is_reported_as_measured():
    page = (ROOT / "docs/which-encoder.md").read_text(encoding="utf-8").splitlines()
    results = (ROOT / "benchmarks/results/learning.md").read_text(encoding="utf-8")
    measured = [line for line in results.splitlines() if line.startswith("| ") and "---" not in line]
    assert len(measured) > 10
    assert [line for line in measured if line not in page] == []
    page = (ROOT / "docs/secure-aggregation.md").read_text(encoding="utf-8")
    under_masks = page.partition("## What it costs")[2].partition("\n## ")[0].splitlines()
    seeds = (ROOT / "benchmarks/results/masks.md").read_text(encoding="utf-8").splitlines()
    shown = [line for line in under_masks if line.startswith("|")]
    assert len(shown) > 10
    assert [line for line in shown if line not in seeds] == []


def test_every_page_with_python_is_named_by_a_test():
    tests = [*ROOT.glob("tests/**/*.py"), *ROOT.glob("plugins/*/tests/*.py")]
    text = "".join(path.read_text(encoding="utf-8") for path in tests if path != Path(__file__))
    pages = [
        page.name
        for page in (ROOT / "docs").glob("*.md")
        if blocks(page.read_text(encoding="utf-8"), "python")
    ]
    here = ("flower.md", "flower-five-minutes.md")
    assert [name for name in pages if name not in text and name not in here] == []
