"""The picture of bytes against error: every encoder is in it, and what is wrong is told before."""

from __future__ import annotations

import importlib.util

import pytest
from matplotlib.axes import Axes

from fedplug.diagnostics import bench, rate_distortion
from fedplug.diagnostics.updates import random_update
from fedplug.errors import ConfigError, MissingDependencyError


@pytest.fixture(scope="module")
def figures():
    return [bench.measure(text, random_update(1000)) for text in ("identity", "topk(0.1)", "qsgd(8)")]


@pytest.mark.parametrize(("suffix", "magic"), [(".png", b"\x89PNG"), (".svg", b"<?xml")])
def test_every_encoder_is_a_point(figures, tmp_path, monkeypatch, suffix, magic):
    points, plot = {}, Axes.plot

    def seen(axes, x, y, **options):
        points[options["label"]] = (x, y)
        return plot(axes, x, y, **options)

    monkeypatch.setattr(Axes, "plot", seen)
    path = tmp_path / f"picture{suffix}"
    rate_distortion.require(path)
    rate_distortion.draw(figures, path, "some numbers")
    assert path.read_bytes().startswith(magic)
    identity, *lossy = figures
    assert points == {
        "identity (lossless)": (identity.bytes_per_element, min(each.nmse for each in lossy) / 10),
        **{each.encoder: (each.bytes_per_element, each.nmse) for each in lossy},
    }


def test_a_mistake_is_reported_before_the_measurement(tmp_path, monkeypatch):
    with pytest.raises(ConfigError, match=r"there is no folder .*absent"):
        rate_distortion.require(tmp_path / "absent" / "a.png")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingDependencyError, match=r"the picture needs Matplotlib.*pip install matplotlib"):
        rate_distortion.require(tmp_path / "a.png")
