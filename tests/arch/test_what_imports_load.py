"""What importing a part really loads, seen in a fresh interpreter."""

from __future__ import annotations

import pytest


@pytest.fixture
def loaded_by(python):
    """The value of an expression over ``sys`` after a statement, in an interpreter of its own."""

    def value(statement, expression):
        result = python("-c", f"import sys\n{statement}\nprint({expression})")
        assert result.returncode == 0, result.stderr
        return result.stdout.strip()

    return value


WITHOUT_TENSORFLOW = """
import fedplug
import fedplug.kernels
import fedplug.wire
import fedplug.stores
fedplug.open_store('memory://').close()
import fedplug.stores.sqlite
"""


def test_kernels_wire_format_and_stores_do_not_load_tensorflow(loaded_by):
    assert loaded_by(WITHOUT_TENSORFLOW, "'tensorflow' in sys.modules") == "False"


@pytest.mark.needs("matplotlib")
def test_nor_does_the_report_of_an_experiment(tmp_path, loaded_by):
    row = '{"run": "a", "round": 1, "uplink_bytes": 1, "downlink_bytes": 1, "clients": 1, "payloads": 1}'
    (tmp_path / "metrics.jsonl").write_text(row)
    statement = (
        "from pathlib import Path; from fedplug.tff.experiment.report import write_report; "
        f"folder = Path({str(tmp_path)!r}); write_report([folder], folder / 'report.html')"
    )
    assert loaded_by(statement, "'tensorflow' in sys.modules") == "False"
    assert (tmp_path / "report.html").exists()


def test_encoding_numpy_arrays_and_the_suites_for_it_do_not_load_tensorflow(loaded_by):
    statement = """
import fedplug, fedplug.schedules, fedplug.testing, numpy
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
    elif entry.builtin and entry.kind == "schedule":
        fedplug.schedule(*entry.examples)
fedplug.testing.EncoderSuite, fedplug.testing.AssignmentSuite, fedplug.testing.ScheduleSuite
fedplug.testing.StateStoreSuite, fedplug.testing.PluginPackageSuite
"""
    assert loaded_by(statement, "'tensorflow' in sys.modules") == "False"


def test_a_catalogue_of_plugins_does_not_load_the_plugins_parts(loaded_by):
    statement = (
        "from fedplug.registry.resolve import catalog; assert 'countsketch' in catalog().names('encoder')"
    )
    assert loaded_by(statement, "'fedplug_sketch.encoder' in sys.modules") == "False"


@pytest.mark.needs("tensorflow")
def test_ops_encoders_and_aggregators_load_no_tff_and_no_op_library_before_the_first_op_that_needs_it(
    loaded_by,
):
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
