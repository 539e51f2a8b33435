"""`fedplug bench`: the tables it prints, and what it refuses before it times anything."""

from __future__ import annotations

import dataclasses
import json
import re

import pytest

from fedplug.cli import main
from fedplug.diagnostics import bench


@pytest.fixture(scope="module")
def figures():
    return {text: bench.encoder_figures(text, 2000) for text in ("identity", "topk(0.01)")}


def test_the_figures_are_those_of_the_encoder(figures):
    assert figures["identity"].bytes_per_element == 4
    assert figures["identity"].error == 0
    assert 0.03 < figures["topk(0.01)"].bytes_per_element < 0.08
    assert 0.8 < figures["topk(0.01)"].error < 1


def test_all_kernels_are_timed_beside_a_copy():
    found = list(bench.kernel_figures(2000))
    assert found[0].kernel == "copy"
    assert found[0].copies == 1
    assert {each.kernel.partition(",")[0] for each in found[1:]} == {
        "topk_residual",
        "scatter_decode_add",
        "encode_indices",
        "decode_indices",
        "encode_symbols",
        "decode_symbols",
    }
    assert all(each.seconds > 0 for each in found)


def test_the_command_prints_a_line_for_each_kernel_and_encoder(capsys):
    assert main(["bench", "--elements", "2000", "identity", "qsgd(8)"]) == 0
    output = capsys.readouterr().out
    assert output.startswith("2,000 float32, ")
    for name in ("copy", "topk_residual, 1 %", "identity", r"qsgd\(8\)"):
        assert re.search(rf"^{name} .*\d$", output, re.MULTILINE), name


def test_as_json_the_figures_are_objects_with_the_names_of_their_attributes(capsys):
    assert main(["bench", "--json", "--elements", "2000", "identity"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["elements"] == 2000
    assert {"fedplug", "tensorflow", "processor", "simd"} <= found["environment"].keys()
    assert found["encoders"][0].keys() == {field.name for field in dataclasses.fields(bench.EncoderFigures)}
    assert found["kernels"][0]["kernel"] == "copy"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["identity", "tpok(0.1)"], "unknown encoder 'tpok'; did you mean 'topk'"),
        (["budget('topk(0.1)', 900)"], "the encoder to time is budget("),
        (["--elements", "10"], "elements is 10; to see anything it takes 1000 or more"),
    ],
)
def test_a_mistake_is_told_before_anything_is_timed(arguments, message, capsys):
    assert main(["bench", *arguments]) == 2
    assert message in capsys.readouterr().err
