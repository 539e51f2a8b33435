"""Makes tiny distributions on sys.path, as an installer would leave them behind."""

from __future__ import annotations

import sys
import textwrap

import pytest

from fedplug.registry import resolve


@pytest.fixture
def fresh_catalog():
    """The catalogue is looked up anew, and forgotten afterwards."""
    resolve.catalog.cache_clear()
    yield resolve.catalog
    resolve.catalog.cache_clear()


@pytest.fixture
def install(tmp_path, monkeypatch, fresh_catalog):
    """``install("dist-name", source)``: a distribution whose plugin module has that source.

    The entry point has the name of the distribution with underscores, which is also the module's name.
    """
    monkeypatch.delenv(resolve.ALLOW_VARIABLE, raising=False)
    monkeypatch.syspath_prepend(str(tmp_path))

    def make(
        distribution: str,
        source: str,
        *,
        version: str = "1.0",
        groups: tuple[str, ...] = (resolve.GROUP,),
        metadata: str = "",
        extras: str = "",
    ):
        module = distribution.replace("-", "_")
        (tmp_path / f"{module}.py").write_text(textwrap.dedent(source))
        info = tmp_path / f"{module}-{version}.dist-info"
        info.mkdir()
        head = f"Metadata-Version: 2.1\nName: {distribution}\nVersion: {version}\n"
        (info / "METADATA").write_text(head + metadata)
        lines = [f"[{group}]\n{module} = {module}{extras}\n" for group in groups]
        (info / "entry_points.txt").write_text("\n".join(lines))
        made.append(module)
        fresh_catalog.cache_clear()
        return module

    made: list[str] = []
    yield make
    for module in made:
        sys.modules.pop(module, None)


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
