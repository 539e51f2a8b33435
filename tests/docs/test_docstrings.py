"""Examples in docstrings run, public encoders have one, and the reference begins with the public names."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
import re

import pytest
from pages import ROOT

import fedplug
import fedplug.codecs
import fedplug.encoders
from fedplug.registry import resolve

MODULES = [
    *("fedplug.api", "fedplug.registry.config", "fedplug.scalars", "fedplug.stores", "fedplug.wire"),
    *(
        found.name
        for package in (fedplug.codecs, fedplug.encoders)
        for found in pkgutil.walk_packages(package.__path__, package.__name__ + ".")
    ),
]
FUNCTIONS = [
    *(fedplug.codec, fedplug.Codec.encode, fedplug.Codec.encode_model, fedplug.decode, fedplug.decode_model),
    *(fedplug.Sum, fedplug.ModelSum),
]


@pytest.mark.parametrize("module", MODULES)
def test_the_examples_of_a_module_run(module):
    assert not doctest.testmod(importlib.import_module(module)).failed


@pytest.mark.parametrize("name", resolve.catalog().names("encoder"))
def test_every_built_in_encoder_has_an_example(name):
    encoder = resolve.resolve("encoder", name)
    if encoder.__module__.startswith("fedplug."):
        assert ">>>" in encoder.__doc__


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__qualname__)
def test_the_functions_of_the_first_pages_have_an_example(function):
    assert ">>>" in function.__doc__


def test_the_reference_begins_with_the_twenty_names():
    page = (ROOT / "docs/api/fedplug.md").read_text(encoding="utf-8")
    names = re.findall(r"^   (\w+)$", page, re.MULTILINE)
    assert len(names) == 20
    assert {*names} == {*fedplug.__all__} - {"__version__", "kernels", "ops", "tff", "use_runtime"}
