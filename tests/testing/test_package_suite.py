"""Tests that each package check fails for the distribution made to break it, and for no other."""

from __future__ import annotations

import json
import sys
import textwrap

import pytest

from fedplug.registry import op_libraries, resolve
from fedplug.testing import PluginPackageSuite

PLUGIN = """
    from fedplug.registry.hookspecs import hookimpl
    from fedplug.registry.specs import AggregatorSpec

    @hookimpl
    def fedplug_aggregators():
        return [AggregatorSpec(name="{name}", target="{target}", summary="{summary}"{more})]
"""
OP_LIBRARY = """
    from fedplug.registry.specs import OpLibrarySpec

    @hookimpl
    def fedplug_op_libraries():
        return [OpLibrarySpec(name="acme_ops", target="acme_ops:_ops.so", summary="for a test")]
"""
PART = """
    from fedplug.tff.aggregators import Mean
    from fedplug.encoders import Identity

    class Acme(Mean):
        name = "acme"

    class AcmeEncoder(Identity):
        name = "acme_e"
        wire_id = "acme_e/1"
"""
ENCODER = """
    from fedplug.registry.specs import EXECUTIONS, EncoderSpec

    @hookimpl
    def fedplug_encoders():
        target = "acme_part:AcmeEncoder"
        return [EncoderSpec(name="acme_e", target=target, summary="for a test", {facts})]
"""
METADATA = {"Summary": "For a test", "Requires-Python": ">=3.11", "Requires-Dist": "fedplug"}
GOOD = {"name": "acme", "target": "acme_part:Acme", "summary": "for a test", "more": ""}

BAD = {
    "test_it_is_installed_and_names_a_plugin_module": {"group": "fedplug.v0"},
    "test_its_metadata_describes_it_and_its_requirements": {
        "metadata": {**METADATA, "Requires-Dist": "numpy"}
    },
    "test_importing_its_plugin_module_loads_nothing_heavy": {
        "plugin": "import numpy\n" + textwrap.dedent(PLUGIN)
    },
    "test_fedplug_finds_no_problem_with_it": {"plugin": PLUGIN + "\n    def fedplug_encoder(): pass\n"},
    "test_it_brings_parts": {"plugin": PLUGIN.replace("return [", "return [] and [")},
    "test_every_class_can_be_imported_and_has_the_base_of_its_kind": {"target": "collections:OrderedDict"},
    "test_every_class_has_the_name_it_is_declared_under": {"name": "acmee"},
    "test_every_summary_is_a_short_line": {"summary": "long " * 20},
    "test_every_example_can_be_made": {"more": ", examples=('acme(weights=7)',)"},
    "test_every_encoder_executes_where_it_declares": {
        "plugin": PLUGIN + ENCODER.replace("{facts}", "wire_id='acme_e/1'"),
    },
    "test_every_op_library_can_be_loaded": {"plugin": PLUGIN + OP_LIBRARY},
}


@pytest.fixture
def suite_of(tmp_path, install):
    """Returns the suite for a distribution ``acme`` on sys.path, with some of its facts changed."""

    def make(plugin=PLUGIN, group=resolve.GROUP, metadata=METADATA, **facts):
        (tmp_path / "acme_part.py").write_text(textwrap.dedent(PART))
        (tmp_path / "acme_ops").mkdir()
        (tmp_path / "acme_ops" / "__init__.py").touch()
        (tmp_path / "acme_ops" / "_ops.so").write_bytes(b"no library")
        record = {"tensorflow": op_libraries.installed_tensorflow()}
        (tmp_path / "acme_ops" / op_libraries.BUILD_RECORD).write_text(json.dumps(record))
        lines = "".join(f"{key}: {value}\n" for key, value in metadata.items())
        source = textwrap.dedent(plugin).format(**{**GOOD, **facts})
        install("acme", source, groups=(group,), metadata=lines)
        return type("Suite", (PluginPackageSuite,), {"distribution": "acme"})

    yield make
    sys.modules.pop("acme_part", None)


@pytest.mark.needs("fedplug.tff.aggregators")
def test_a_good_package_passes_every_check(suite_of, failures):
    assert not failures(suite_of())


@pytest.mark.needs("fedplug.tff.aggregators")
@pytest.mark.parametrize("check", BAD)
def test_a_bad_package_fails_exactly_the_check_it_was_made_for(check, suite_of, failures):
    failed = failures(suite_of(**BAD[check]))
    assert set(failed) == {check}, failed
    assert all(failed.values())


@pytest.mark.needs("fedplug.encoders")
def test_the_built_in_encoders_keep_their_declared_promises():
    suite = type("Suite", (PluginPackageSuite,), {"distribution": "fedplug"})()
    suite.test_every_class_can_be_imported_and_has_the_base_of_its_kind()
    suite.test_every_encoder_executes_where_it_declares()


def test_there_is_a_bad_package_for_every_check():
    assert set(BAD) == set(PluginPackageSuite.checks())


def test_a_distribution_that_is_not_installed_is_named(failures):
    suite = type("Suite", (PluginPackageSuite,), {"distribution": "no-such-thing"})
    assert "'no-such-thing' is not installed" in "".join(failures(suite).values())
