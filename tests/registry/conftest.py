"""A plugin with an encoder, for tests that need no more of a distribution."""

from __future__ import annotations

import pytest

ENCODER_PLUGIN = """
    from fedplug.registry.hookspecs import hookimpl
    from fedplug.registry.specs import EncoderSpec

    @hookimpl
    def fedplug_encoders():
        return [EncoderSpec(name="{name}", target="{target}", summary="for a test")]
"""


@pytest.fixture
def install_encoder(install):
    """``install_encoder("dist-name", "encoder-name")``: a plugin in good order."""

    def make(distribution: str, name: str, target: str = "collections:OrderedDict", **options):
        return install(distribution, ENCODER_PLUGIN.format(name=name, target=target), **options)

    return make
