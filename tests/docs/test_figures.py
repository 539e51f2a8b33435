"""The numbers beside a picture are those that its program computes or reads."""

from __future__ import annotations

import importlib.util
import re

import numpy as np
import pytest
from pages import ROOT

PROGRAM = ROOT / "docs/figures/error_feedback.py"
PAGE = (ROOT / "docs/error-feedback.md").read_text(encoding="utf-8")


@pytest.fixture
def load(monkeypatch):
    """Loads a program as Python starts it, with its folder on the path."""
    monkeypatch.syspath_prepend(str(ROOT / "docs/figures"))
    return loaded


def loaded(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    program = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(program)
    return program


@pytest.mark.needs("matplotlib")
def test_the_numbers_about_the_picture_are_computed(load):
    program = load(PROGRAM)
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
    assert "prefers-color-scheme: dark" in picture
    for color in set(re.findall(r"#[0-9a-f]{6}", picture.partition("</style>")[2])):
        red, green, blue = (int(color[i : i + 2], 16) / 255 for i in (1, 3, 5))
        assert 0.2 < 0.299 * red + 0.587 * green + 0.114 * blue < 0.8, color


@pytest.mark.needs("matplotlib")
def test_the_pictures_of_learning_are_those_of_the_measured_table(load, tmp_path):
    program = load(ROOT / "docs/figures/learning.py")
    table = program.rows()
    speeds, runs = program.times(table)
    assert speeds == [1, 10, 100, 1000]
    gallery = " ".join((ROOT / "docs/gallery.md").read_text(encoding="utf-8").split())
    dense, both = runs["no compression"], runs["auto; broadcast auto"]
    assert f"takes {both[0]:.0f} s and no compression {dense[0]:.0f} s" in gallery
    assert dense[-1] == min(seconds[-1] for seconds in runs.values())
    assert program.title(table) == "133 times fewer bytes: accuracy 96.34 instead of 96.89 %"
    for name, draw in (("learning", program.draw_savings), ("time_to_accuracy", program.draw_times)):
        draw(table, tmp_path / f"{name}.svg")
        drawn, committed = (path / f"{name}.svg" for path in (tmp_path, program.IMAGES))
        assert words_of(drawn) == words_of(committed)


def words_of(picture):
    return re.findall(r">([^<>]+)</text>", picture.read_text(encoding="utf-8"))
