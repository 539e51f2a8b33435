"""The numbers on docs/error-feedback.md are those that the program of its picture computes."""

from __future__ import annotations

import importlib.util
import re

import numpy as np
import pytest
from pages import ROOT

PROGRAM = ROOT / "docs/figures/error_feedback.py"
PAGE = (ROOT / "docs/error-feedback.md").read_text(encoding="utf-8")


@pytest.mark.needs("matplotlib")
def test_the_numbers_about_the_picture_are_computed():
    spec = importlib.util.spec_from_file_location("error_feedback", PROGRAM)
    program = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(program)
    dense, feedback, without = (program.train(encoder) for encoder in program.ENCODERS.values())
    assert f"{dense[0][-1]:.5f}" in PAGE
    assert f"down to {feedback[0][-1]:.2f} of the initial distance" in re.sub(r"\s+", " ", PAGE)
    assert f"{without[0][-1]:.2f} times the initial distance" in re.sub(r"\s+", " ", PAGE)
    shown = slice(program.ENTRY_ROUNDS + 1)
    assert not without[2][shown].any()  # nothing of the entry is received
    assert np.all(abs(feedback[2] - feedback[1])[shown] < 1)  # a step of the stairs at most


def test_the_picture_has_an_alternative_text_and_its_colors_are_for_light_and_dark():
    [text] = re.findall(r"!\[([^\]]+)\]\(images/error_feedback\.svg\)", PAGE)
    assert len(text) > 100
    picture = (ROOT / "docs/images/error_feedback.svg").read_text(encoding="utf-8")
    for color in set(re.findall(r"#[0-9a-f]{6}", picture)):
        red, green, blue = (int(color[i : i + 2], 16) / 255 for i in (1, 3, 5))
        assert 0.2 < 0.299 * red + 0.587 * green + 0.114 * blue < 0.8, color
