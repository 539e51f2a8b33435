"""What importing a part really loads, seen in a fresh interpreter."""

from __future__ import annotations

import subprocess
import sys

import pytest


def loaded_by(statement, expression):
    """The value of an expression over ``sys`` after a statement, in an interpreter of its own."""
    program = f"import sys\n{statement}\nprint({expression})"
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=600
    )
    assert result.returncode == 0, result.stderr
    return result.stdout.strip()


LIGHT = """
fedplug fedplug.errors fedplug.registry.hookspecs fedplug.registry.specs fedplug.registry.builtin
fedplug.registry.catalog fedplug.registry.op_libraries fedplug.registry.entry_points fedplug.registry.loader
fedplug.registry.resolve fedplug.registry.provenance fedplug.registry.expression fedplug.registry.component
fedplug.registry.config fedplug.registry.build_info fedplug.api fedplug.cli fedplug.__main__
"""
WITHOUT_TENSORFLOW = """
import fedplug
import fedplug.kernels
import fedplug.wire
import fedplug.stores
fedplug.open_store('memory://').close()
import fedplug.stores.sqlite
"""


def test_the_registry_and_the_command_line_load_neither_numpy_nor_tensorflow():
    program = f"""
import importlib
for module in {LIGHT.split()}:
    importlib.import_module(module)
    assert not {{"numpy", "tensorflow"}} & set(sys.modules), module
"""
    loaded_by(program, "'done'")


def test_kernels_wire_format_and_stores_do_not_load_tensorflow():
    assert loaded_by(WITHOUT_TENSORFLOW, "'tensorflow' in sys.modules") == "False"


@pytest.mark.needs("matplotlib")
def test_nor_does_the_report_of_an_experiment(tmp_path):
    row = '{"run": "a", "round": 1, "uplink_bytes": 1, "downlink_bytes": 1, "clients": 1, "payloads": 1}'
    (tmp_path / "metrics.jsonl").write_text(row)
    statement = (
        "from pathlib import Path; from fedplug.tff.experiment.report import write_report; "
        f"folder = Path({str(tmp_path)!r}); write_report([folder], folder / 'report.html')"
    )
    assert loaded_by(statement, "'tensorflow' in sys.modules") == "False"
    assert (tmp_path / "report.html").exists()


ENCODERS = """
import fedplug, fedplug.encoders, fedplug.ops, fedplug.schedules, fedplug.testing
from fedplug.registry.resolve import catalog
for entry in catalog().entries:
    if entry.builtin and entry.kind in ("encoder", "schedule"):
        entry.spec.resolve()
        for example in entry.examples:
            getattr(fedplug, entry.kind)(example)
fedplug.testing.EncoderSuite, fedplug.testing.AssignmentSuite, fedplug.testing.ScheduleSuite
fedplug.testing.StateStoreSuite, fedplug.testing.PluginPackageSuite
"""


def test_encoders_schedules_and_their_suites_do_not_load_tensorflow():
    assert loaded_by(ENCODERS, "'tensorflow' in sys.modules") == "False"


def test_nor_does_encoding_numpy_arrays():
    statement = """
import fedplug, numpy
from fedplug.registry.resolve import catalog
from fedplug.encoders import EncoderAssignment
for entry in catalog().entries:
    if entry.builtin and entry.kind == "encoder":
        for example in entry.examples:
            codec = fedplug.codec(example)
            if not isinstance(codec.encoder, EncoderAssignment):
                payload, state = codec.encode(numpy.ones(100, "float32"))
                codec.encode(numpy.ones(100, "float32"), state, 1)
                fedplug.decode(payload)
"""
    assert loaded_by(statement, "'tensorflow' in sys.modules") == "False"


def test_a_catalogue_of_plugins_does_not_load_the_plugins_parts():
    statement = (
        "from fedplug.registry.resolve import catalog; assert 'countsketch' in catalog().names('encoder')"
    )
    assert loaded_by(statement, "'fedplug_sketch.encoder' in sys.modules") == "False"


@pytest.mark.needs("tensorflow")
def test_ops_encoders_and_aggregators_load_no_tff_and_no_op_library_before_the_first_op_that_needs_it():
    statement = """
import fedplug.ops, fedplug.encoders, fedplug.tff.aggregators
import tensorflow as tf
loaded = lambda: "_fedplug_ops.so" in open("/proc/self/maps").read()
stages = [loaded()]
for lowering in ("reference", "fused"):
    fedplug.ops.crc32(tf.zeros(3, tf.uint8), lowering=lowering)
    stages.append(loaded())
"""
    expression = "(stages, 'tensorflow_federated' in sys.modules)"
    assert loaded_by(statement, expression) == "([False, False, True], False)"
