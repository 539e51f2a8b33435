"""A third party's runtime is found by `use_runtime`; a bad one is refused."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow_federated as tff

from fedplug.errors import PluginError
from fedplug.tff.runtime import use_runtime

PLUGIN = """
    from fedplug.registry.hookspecs import hookimpl
    from fedplug.registry.specs import RuntimeSpec

    @hookimpl
    def fedplug_runtimes():
        return [RuntimeSpec(name="grid", target="acme_grid_context:{name}", summary="for a test")]
"""
CONTEXTS = """
from fedplug.tff.runtime import Runtime, create_sync_execution_context


class Grid(Runtime):
    def __init__(self, workers=1):
        self.workers = workers
        self.inner = create_sync_execution_context()

    def invoke(self, comp, arg):
        return self.inner.invoke(comp, arg)

    def close(self):
        self.inner.close()


class Other:
    pass


size = 3
"""


@pytest.fixture
def install_runtime(install, tmp_path):
    def make(name):
        (tmp_path / "acme_grid_context.py").write_text(CONTEXTS)
        install("acme-grid", PLUGIN.format(name=name))

    return make


def test_a_runtime_of_a_plugin_is_used_by_its_name_with_its_options(install_runtime):
    install_runtime("Grid")
    total = tff.federated_computation(tff.federated_sum, tff.FederatedType(np.int32, tff.CLIENTS))
    with use_runtime("grid", workers=4) as handle:
        assert handle.context.workers == 4
        assert total([1, 2]) == 3


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "Other",
            r"runtime 'grid' of acme-grid 1\.0 is a acme_grid_context\.Other; its class must be",
        ),
        ("size", "'acme_grid_context:size', which is a int, not a class or a function"),
        ("Missing", "'acme_grid_context:Missing', which cannot be imported"),
    ],
)
def test_a_bad_runtime_is_refused_and_the_context_stays(install_runtime, name, message):
    install_runtime(name)
    before = tff.framework.get_context_stack().current
    with pytest.raises(PluginError, match=message):
        use_runtime("grid")
    assert tff.framework.get_context_stack().current is before
