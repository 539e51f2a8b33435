"""The runtime and the package meet fedplug's expectations of every runtime and plugin."""

from __future__ import annotations

import pytest

from fedplug.testing import PluginPackageSuite, RuntimeSuite


class TestPackage(PluginPackageSuite):
    distribution = "fedplug-ray"

    @pytest.fixture(autouse=True)
    def _examples_find_a_cluster(self, cluster):
        pass


class TestRuntime(RuntimeSuite):
    @pytest.fixture(autouse=True)
    def _on_two_workers(self, ray_context):
        self.make_runtime = ray_context

    def make_runtime(self):
        raise NotImplementedError
