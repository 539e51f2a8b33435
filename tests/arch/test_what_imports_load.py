"""What importing a part really loads, seen in a fresh interpreter."""

from __future__ import annotations

import subprocess
import sys

import pytest


def loaded_by(statement, expression):
    """The value of an expression over ``sys`` after a statement, in an interpreter of its own."""
    program = f"import sys\n{statement}\nprint({expression})"
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=120
    )
    assert result.returncode == 0, result.stderr
    return result.stdout.strip()


@pytest.mark.parametrize(
    "module",
    [
        "fedplug",
        "fedplug.errors",
        "fedplug.spec",
        "fedplug.hookspecs",
        "fedplug.builtin",
        "fedplug.catalog",
        "fedplug.op_libraries",
        "fedplug.sources",
        "fedplug.loader",
        "fedplug.manager",
        "fedplug.provenance",
        "fedplug.expression",
        "fedplug.api",
        "fedplug.cli",
        "fedplug.__main__",
    ],
)
def test_the_registry_and_the_command_line_load_neither_numpy_nor_tensorflow(module):
    assert loaded_by(f"import {module}", "{'numpy', 'tensorflow'} & set(sys.modules)") == "set()"


@pytest.mark.parametrize(
    "statement",
    [
        "import fedplug.kernels",
        "import fedplug.wire",
        "import fedplug.stores",
        "import fedplug; fedplug.open_store('memory://').close()",
        "import fedplug.stores.sqlite",
    ],
)
def test_kernels_wire_format_and_stores_do_not_load_tensorflow(statement):
    assert loaded_by(statement, "'tensorflow' in sys.modules") == "False"


def test_a_catalogue_of_plugins_does_not_load_the_plugins_parts():
    statement = "from fedplug.manager import catalog; assert 'signsgd' in catalog().names('encoder')"
    assert loaded_by(statement, "'fedplug_signsgd.encoder' in sys.modules") == "False"


def test_importing_ops_encoders_and_aggregators_loads_no_op_library_and_no_tff():
    libraries = "[line.split()[-1] for line in open('/proc/self/maps') if '_fedplug_ops' in line]"
    expression = f"({libraries}, 'tensorflow_federated' in sys.modules)"
    statement = "import fedplug.ops, fedplug.encoders, fedplug.aggregators"
    assert loaded_by(statement, expression) == "([], False)"
