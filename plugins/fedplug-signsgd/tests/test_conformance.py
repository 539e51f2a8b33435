"""The plugin keeps what fedplug expects of every plugin."""

from __future__ import annotations

from pathlib import Path

from fedplug_signsgd.encoder import SignSGD

from fedplug.testing import EncoderSuite, PluginPackageSuite


class TestPackage(PluginPackageSuite):
    distribution = "fedplug-signsgd"


class TestSignSGD(EncoderSuite):
    golden = Path(__file__).with_name("golden")

    def make_encoder(self):
        return SignSGD()
