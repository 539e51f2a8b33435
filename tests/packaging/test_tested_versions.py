"""The table of tested versions has those of the lock files, and a new row changes no other."""

from __future__ import annotations

from pathlib import Path

import pytest
import tested_versions

ROOT = Path(__file__).parents[2]


@pytest.fixture
def page(monkeypatch):
    monkeypatch.chdir(ROOT)
    return tested_versions.PAGE.read_text(encoding="utf-8")


def test_the_page_has_the_versions_that_ci_installs(page):
    assert tested_versions.with_rows(page, {}) == page, "run `make tested-versions`"


def test_a_new_row_replaces_the_old_one_and_no_other(page):
    found = tested_versions.with_rows(page, {"fedplug-flower": "Python 3.99, flwr 9.9; 2099-01-01"})
    changed = [(a, b) for a, b in zip(page.splitlines(), found.splitlines(), strict=True) if a != b]
    assert [b.endswith("| Python 3.99, flwr 9.9; 2099-01-01 |") for _, b in changed] == [True]
    assert "fedplug-flower" in changed[0][0]
