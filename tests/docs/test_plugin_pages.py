"""The Python in the READMEs of packages runs; and a package's README without such a test is found."""

from __future__ import annotations

import pytest
from pages import ROOT, blocks, printed

ALONE = ("fedplug-baselines", "fedplug-mlflow", "fedplug-robust", "fedplug-sketch", "fedplug-tensorboard")
"""The READMEs of these are programs that need nothing else; the tests of other packages run theirs."""


def program(package):
    return blocks((ROOT / "plugins" / package / "README.md").read_text(encoding="utf-8"), "python")


@pytest.mark.needs("tensorflow_federated")
def test_the_readmes_are_programs(tmp_path):
    parts = [part for package in ALONE for part in program(package)]
    assert len(parts) == 6
    printed(parts, tmp_path, warnings="default")
    assert list((tmp_path / "logs/client 7").iterdir())


def test_every_readme_of_a_package_is_run_by_a_test():
    for folder in sorted((ROOT / "plugins").iterdir()):
        if program(folder.name) and folder.name not in ALONE:
            tests = [path.read_text(encoding="utf-8") for path in folder.glob("tests/test_*.py")]
            assert any('"README.md"' in text for text in tests), folder.name
