"""The Python of the README and of the page about TFF runs, in order, as one program a page."""

from __future__ import annotations

import pytest
from pages import ROOT, blocks, printed


def test_the_readme_shows_a_program_that_needs_no_tensorflow(tmp_path) -> None:
    _, program = blocks((ROOT / "README.md").read_text(encoding="utf-8"), "python")
    check = "import sys\nprint(mean['kernel'].shape, 'tensorflow' in sys.modules)"
    assert printed([program, check], tmp_path) == "(300, 40) False\n"


def test_the_two_lines_for_flower_are_those_of_the_package() -> None:
    flower, _ = blocks((ROOT / "README.md").read_text(encoding="utf-8"), "python")
    package = (ROOT / "plugins/fedplug-flower/README.md").read_text(encoding="utf-8")
    assert len(flower.splitlines()) == 2
    assert [line for line in flower.splitlines() if line not in package] == []


@pytest.mark.slow
@pytest.mark.needs("tensorflow_federated")
def test_the_page_about_tff_is_one_program(tmp_path) -> None:
    parts = blocks((ROOT / "docs" / "tff.md").read_text(encoding="utf-8"), "python")
    assert len(parts) == 7
    checks = ["process.next(process.initialize(), [client(0)])", "assert len(values) == 10_000"]
    # TensorFlow and TFF warn of themselves.
    assert "uplink_bytes" in printed([*parts, *checks], tmp_path, warnings="default")
