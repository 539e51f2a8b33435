"""The reference begins with the names that `fedplug` exports, but for its subpackages."""

from __future__ import annotations

import re

from pages import ROOT

import fedplug

ELSEWHERE = {"__version__", "kernels", "ops", "tff", "use_runtime"}


def test_the_reference_begins_with_the_twenty_names():
    page = (ROOT / "docs/api/fedplug.md").read_text(encoding="utf-8")
    names = re.findall(r"^   (\w+)$", page, re.MULTILINE)
    assert len(names) == 20
    assert {*names} == {*fedplug.__all__} - ELSEWHERE
