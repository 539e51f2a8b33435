"""Plugins, whole and broken."""

from __future__ import annotations

import collections
import json
import re
import sys
import textwrap

import pytest

from fedplug.cli import main
from fedplug.errors import MissingDependencyError, PluginError, UnknownNameError
from fedplug.registry import op_libraries, resolve
from fedplug.registry.catalog import _IN_A_PACKAGE, Catalog


def entries_of(catalog, distribution):
    return [entry for entry in catalog.entries if entry.distribution == distribution]


def the_entry_of(catalog, distribution):
    (entry,) = entries_of(catalog, distribution)
    return entry


HEADER = """\
from fedplug.registry.hookspecs import hookimpl
from fedplug.registry.specs import DeviceSpec, EncoderSpec, OpLibrarySpec, StoreSpec
"""
UNMET = {
    "Requires-Dist: fedplug>=9": "requires fedplug>=9, installed is 0",
    "Requires-Dist: fedplug<0.0.1": "requires fedplug<0.0.1, installed is 0",
    "Requires-Dist: pluggy<0.1": "requires pluggy<0.1, installed is 1",
    "Requires-Python: >=99": "requires Python >=99, and this is 3",
}
ACME = "name='acme', target='collections:OrderedDict', summary=''"


def hook(definition, body):
    return f"@hookimpl\ndef {definition}:\n    {body}\n"


def assert_the_rest_works():
    assert resolve.resolve("store", "memory").name == "memory"


@pytest.mark.needs("fedplug.tff.aggregators")
@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (entry.kind, entry.name)
        for entry in resolve.catalog().entries
        if entry.builtin and entry.kind != "runtime"
    ],
)
def test_every_built_in_component_resolves_to_a_class_of_that_name(kind, name):
    assert resolve.resolve(kind, name).name == name


def test_an_installed_plugin_is_found_by_its_entry_point(install_encoder):
    install_encoder("acme-codec", "acme", version="2.5")
    assert resolve.resolve("encoder", "acme") is collections.OrderedDict
    entry = the_entry_of(resolve.catalog(), "acme-codec")
    assert (entry.kind, entry.name, entry.version, entry.status) == ("encoder", "acme", "2.5", "ok")


def test_nothing_of_a_component_is_imported_before_it_is_asked_for(install_encoder, tmp_path):
    (tmp_path / "acme_heavy.py").write_text("class Encoder: pass\n")
    install_encoder("acme-codec", "acme", "acme_heavy:Encoder")
    assert "acme" in resolve.catalog().names("encoder")
    assert "acme_heavy" not in sys.modules
    assert resolve.resolve("encoder", "acme").__module__ == "acme_heavy"


@pytest.mark.parametrize(("kind", "name"), _IN_A_PACKAGE)
def test_a_component_of_a_missing_package_names_the_command_that_installs_it(kind, name):
    package = {"ray": r"'fedplug\[ray\]'"}.get(name, _IN_A_PACKAGE[kind, name])
    with pytest.raises(MissingDependencyError, match=rf"{kind} '{name}' needs .*`pip install {package}`"):
        Catalog(()).find(kind, name)


def test_the_packages_of_components_are_those_that_declare_them():
    packages = set(_IN_A_PACKAGE.values())
    declared = {
        (entry.kind, entry.name): entry.distribution
        for entry in resolve.catalog().entries
        if entry.distribution in packages and entry.kind != "op_library"
    }
    assert declared.items() <= _IN_A_PACKAGE.items()


def test_a_plugin_that_cannot_be_imported_is_reported_when_asked_for(install):
    install("acme-codec", "import a_module_that_is_not_there")
    entry = the_entry_of(resolve.catalog(), "acme-codec")
    assert (entry.kind, entry.status) == ("plugin", "broken")
    assert "No module named 'a_module_that_is_not_there'" in entry.reason
    assert "pip uninstall acme-codec" in entry.fix
    assert_the_rest_works()
    with pytest.raises(PluginError, match=r"acme-codec 1\.0 cannot be used: cannot be imported"):
        resolve.resolve("encoder", "acme_codec")


EXTRA = "Requires-Dist: fast-codes>=2; extra == 'fast'\n"


@pytest.mark.parametrize(
    ("metadata", "extras", "fix"),
    [
        ("Provides-Extra: fast\n" + EXTRA, "", "`pip install --upgrade 'acme-codec[fast]'`"),
        ("Requires-Dist: fast_codes>=2\n", "", "`pip install --upgrade 'acme-codec'`"),
        ("", " [fast]", "`pip install 'acme-codec[fast]'`"),
    ],
)
def test_a_missing_extra_is_named_in_the_command_that_installs_it(install, metadata, extras, fix):
    install("acme-codec", "import fast_codes", metadata=metadata, extras=extras)
    entry = the_entry_of(resolve.catalog(), "acme-codec")
    assert "No module named 'fast_codes'" in entry.reason
    assert entry.fix == fix
    assert_the_rest_works()


def test_a_component_that_misses_an_extra_says_so_when_it_is_asked_for(install_encoder, tmp_path):
    (tmp_path / "acme_needy.py").write_text("import fast_codes\n")
    install_encoder("acme-codec", "acme", "acme_needy:Acme", metadata=EXTRA)
    with pytest.raises(PluginError, match=r"pip install --upgrade 'acme-codec\[fast\]'"):
        resolve.resolve("encoder", "acme")


def test_an_unknown_name_points_at_plugins_that_could_not_be_asked(install):
    install("acme-codec", "raise RuntimeError('boom')")
    with pytest.raises(UnknownNameError, match=r"these plugins have problems.*acme-codec 1\.0"):
        resolve.resolve("encoder", "acme")


RAISES = {
    "SystemExit: 3": "raise SystemExit(3)",
    "Skipped: not here": "import pytest; pytest.skip('not here', allow_module_level=True)",
    "CancelledError": "import asyncio; raise asyncio.CancelledError",
    "GeneratorExit": "raise GeneratorExit",
    "Mine: (its text cannot be read)": """
        class Mine(BaseException):
            def __str__(self):
                raise ValueError
        raise Mine
    """,
}
IN_A_HOOK = HEADER + hook("fedplug_encoders()", "import acme_raises")


@pytest.fixture(params=RAISES)
def raising(request, tmp_path):
    """A module that raises what is no `Exception` when it is imported, and the reason that is reported."""
    (tmp_path / "acme_raises.py").write_text(textwrap.dedent(RAISES[request.param]))
    return request.param


def test_no_exception_on_import_ends_the_program(install, raising):
    install("acme-codec", "import acme_raises")
    assert f"cannot be imported: {raising}" in the_entry_of(resolve.catalog(), "acme-codec").reason
    assert_the_rest_works()


def test_no_exception_of_a_hook_ends_the_program(install, raising):
    install("acme-codec", IN_A_HOOK)
    (problem,) = resolve.catalog().problems()
    assert problem.reason.startswith(f"its hook fedplug_encoders raised {raising}")
    assert_the_rest_works()


def test_no_exception_of_a_components_module_ends_the_program(install_encoder, raising):
    install_encoder("acme-codec", "acme", "acme_raises:Acme")
    with pytest.raises(PluginError, match=re.escape(f"cannot be imported: {raising}")):
        resolve.resolve("encoder", "acme")


def test_no_exception_of_the_package_around_an_op_library_ends_the_program(install, raising, monkeypatch):
    monkeypatch.setattr(op_libraries, "installed_tensorflow", lambda: "2.14.1")
    library = "OpLibrarySpec(name='acme', target='acme_raises.ops:lib.so', summary='')"
    install("acme-codec", HEADER + hook("fedplug_op_libraries()", f"return [{library}]"))
    assert raising in the_entry_of(resolve.catalog(), "acme-codec").reason
    assert_the_rest_works()


def test_a_device_is_found_by_its_name_and_must_be_a_backend(install, tmp_path):
    (tmp_path / "acme_device.py").write_text("class Device:\n    as_device_array = staticmethod(int)\n")
    devices = "[DeviceSpec(name=name, target=target, summary='') for name, target in DEVICES]"
    named = "DEVICES = [('acme', 'acme_device:Device'), ('other', 'collections:OrderedDict')]\n"
    install("acme-codec", HEADER + named + hook("fedplug_devices()", f"return {devices}"))
    assert resolve.resolve("device", "acme").as_device_array("3") == 3
    with pytest.raises(PluginError, match="which has no function as_device_array"):
        resolve.resolve("device", "other")


def test_an_exception_of_a_hooks_result_does_not_end_the_program(install):
    odd = "type('Odd', (), {'__repr__': lambda self: exit(3)})()"
    install("acme-codec", HEADER + hook("fedplug_op_libraries()", f"return [{odd}]"))
    assert "SystemExit: 3" in the_entry_of(resolve.catalog(), "acme-codec").reason
    assert_the_rest_works()


@pytest.mark.parametrize("place", ["import acme_raises", IN_A_HOOK])
def test_ctrl_c_ends_the_search_for_plugins(install, tmp_path, place):
    (tmp_path / "acme_raises.py").write_text("raise KeyboardInterrupt")
    install("acme-codec", place)
    with pytest.raises(KeyboardInterrupt):
        resolve.catalog()


def test_a_hook_that_raises_does_not_take_the_plugins_other_hooks_with_it(install):
    raising = hook("fedplug_encoders()", "raise ValueError('boom')")
    install("acme-codec", HEADER + raising + hook("fedplug_stores()", f"return [StoreSpec({ACME})]"))
    assert resolve.resolve("store", "acme") is collections.OrderedDict
    (problem,) = resolve.catalog().problems()
    assert problem.reason.startswith("its hook fedplug_encoders raised ValueError: boom (")
    assert problem.reason.endswith("acme_codec.py:5)")


@pytest.mark.parametrize(
    ("result", "reason"),
    [
        ("42", "returned int instead of a list of EncoderSpec"),
        ("None", "returned nothing instead of a list of EncoderSpec"),
        ("['topk2']", "returned 'topk2' instead of EncoderSpec"),
        ("[EncoderSpec(name='Bad Name', target='a:B', summary='')]", "the name is not valid"),
        ("[EncoderSpec(name='lambda', target='a:B', summary='')]", "not a Python keyword"),
        ("[EncoderSpec(name='acme', target='a.b', summary='')]", "write 'package.module:Class'"),
        ("[EncoderSpec(name='acme', target='a:B', summary='two\\nlines')]", "summary must be one line"),
        ("[EncoderSpec(name='acme')]", "missing 2 required keyword-only arguments"),
    ],
)
def test_a_wrong_spec_is_reported_with_its_fault(install, result, reason):
    install("acme-codec", HEADER + hook("fedplug_encoders()", f"return {result}"))
    entry = the_entry_of(resolve.catalog(), "acme-codec")
    assert entry.status == "broken"
    assert reason in entry.reason
    assert_the_rest_works()


def test_a_wrong_item_leaves_its_neighbours_alone_and_is_reported_under_its_own_name(install):
    misplaced = f"StoreSpec({ACME.replace('acme', 'misplaced')})"
    install("acme-codec", HEADER + hook("fedplug_encoders()", f"return [{misplaced}, EncoderSpec({ACME})]"))
    assert resolve.resolve("encoder", "acme") is collections.OrderedDict
    with pytest.raises(PluginError, match="returned the StoreSpec 'misplaced' instead of EncoderSpec"):
        resolve.resolve("encoder", "misplaced")


def test_a_name_two_plugins_claim_belongs_to_neither_and_both_are_named(install_encoder):
    install_encoder("acme-codec", "shared")
    install_encoder("other-codec", "shared", version="3.0")
    assert "shared" not in resolve.catalog().names("encoder")
    with pytest.raises(PluginError, match=r"'shared' is declared by acme-codec 1\.0 and other-codec 3\.0"):
        resolve.resolve("encoder", "shared")
    assert_the_rest_works()


def test_a_name_that_a_plugin_declares_twice_is_its_own_mistake(install):
    install("acme-codec", HEADER + hook("fedplug_encoders()", f"return 2 * [EncoderSpec({ACME})]"))
    with pytest.raises(PluginError, match=r"declared by acme-codec 1\.0 more than once; tell the authors of"):
        resolve.resolve("encoder", "acme")


@pytest.mark.needs("fedplug.encoders")
def test_a_built_in_keeps_its_name(install_encoder):
    install_encoder("acme-codec", "topk")
    assert resolve.resolve("encoder", "topk").__module__ == "fedplug.encoders.sparsifiers"
    entry = the_entry_of(resolve.catalog(), "acme-codec")
    assert entry.status == "clash"
    assert "acme-codec 1.0" in entry.reason
    assert "fedplug " in entry.reason


def test_the_same_name_for_two_kinds_is_no_clash(install):
    spec = f"StoreSpec({ACME.replace('acme', 'topk')})"
    install("acme-codec", HEADER + hook("fedplug_stores()", f"return [{spec}]"))
    assert resolve.resolve("store", "topk") is collections.OrderedDict
    assert resolve.catalog().problems() == []


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        (
            "@hookimpl\ndef fedplug_encoderz():\n    return []",
            "unknown hook 'fedplug_encoderz'; did you mean",
        ),
        ("@hookimpl(specname='fedplug_codecs')\ndef mine():\n    return []", "unknown hook 'fedplug_codecs'"),
        (
            "def fedplug_encoderz():\n    return []",
            "'fedplug_encoderz' has a name that is not a hook's; did you mean",
        ),
        ("def fedplug_encoders():\n    return []", "'fedplug_encoders' is not marked with @hookimpl"),
        (
            "",
            "implements no hook; known hooks: fedplug_aggregators, fedplug_devices, ",
        ),
        (
            "@hookimpl\ndef fedplug_encoders(config):\n    return []",
            "fedplug_encoders takes 'config', which fedplug does not pass; it may take nothing",
        ),
        (
            "@hookimpl\ndef fedplug_process_built(model):\n    pass",
            "fedplug_process_built takes 'model', which fedplug does not pass; it may take process",
        ),
    ],
)
def test_a_function_that_is_never_called_is_reported(install, source, reason):
    install("acme-codec", f"{HEADER}{source}\n")
    entry = the_entry_of(resolve.catalog(), "acme-codec")
    assert entry.status == "broken"
    assert reason in entry.reason


@pytest.mark.parametrize(
    ("definition", "reason"),
    [
        ("fedplug_schedulez()", "unknown hook 'fedplug_schedulez'"),
        ("fedplug_schedules(config)", "fedplug_schedules takes 'config'"),
    ],
)
def test_a_hook_that_cannot_be_called_leaves_the_plugins_other_components_alone(install, definition, reason):
    encoders = hook("fedplug_encoders()", f"return [EncoderSpec({ACME})]")
    install("acme-codec", HEADER + encoders + hook(definition, "return []"))
    assert resolve.resolve("encoder", "acme") is collections.OrderedDict
    (problem,) = resolve.catalog().problems()
    assert reason in problem.reason


@pytest.mark.parametrize(("group", "upgrade"), [("fedplug.v2", "fedplug"), ("fedplug.v0", "acme-codec")])
def test_a_plugin_for_another_contract_is_listed_without_being_imported(install, group, upgrade):
    module = install("acme-codec", "raise AssertionError('imported')", groups=(group,))
    entry = the_entry_of(resolve.catalog(), "acme-codec")
    assert entry.status == "incompatible"
    assert group.removeprefix("fedplug.") in entry.reason
    assert entry.fix == f"`pip install --upgrade {upgrade}`"
    assert module not in sys.modules


def test_a_plugin_for_several_contracts_is_used_through_ours(install_encoder):
    install_encoder("acme-codec", "acme", groups=("fedplug.v1", "fedplug.v2"))
    assert [entry.status for entry in entries_of(resolve.catalog(), "acme-codec")] == ["ok"]


def test_a_plugin_for_another_fedplug_or_python_is_listed_by_name_and_not_used(install_encoder):
    for position, (requirement, reason) in enumerate(UNMET.items()):
        name, distribution = f"acme{position}", f"acme{position}-codec"
        install_encoder(distribution, name, metadata=requirement + "\n")
        entry = the_entry_of(resolve.catalog(), distribution)
        assert (entry.kind, entry.name, entry.status) == ("encoder", name, "incompatible")
        assert re.match(reason, entry.reason), entry.reason
        assert entry.fix.startswith("`pip install --upgrade ")
        with pytest.raises(PluginError, match=reason):
            resolve.resolve("encoder", name)


@pytest.mark.parametrize(
    "requirement",
    [
        "Requires-Dist: fedplug>=0.0.1,<9",
        "Requires-Dist: fedplug>=9; python_version < '3'",
        "Requires-Dist: fedplug>=9; extra == 'later'",
        "Requires-Dist: a-package-that-is-not-there>=9",
        "Requires-Dist: not a requirement !",
    ],
)
def test_a_plugin_whose_requirements_are_met_or_absent_is_used(requirement, install_encoder):
    install_encoder("acme-codec", "acme", metadata=requirement + "\n")
    assert the_entry_of(resolve.catalog(), "acme-codec").status == "ok"


def test_a_plugin_whose_import_fails_says_first_for_which_fedplug_it_was_made(install):
    install("acme-codec", "from fedplug import gone", metadata="Requires-Dist: fedplug>=9\n")
    entry = the_entry_of(resolve.catalog(), "acme-codec")
    assert (entry.status, entry.reason.partition(",")[0]) == ("incompatible", "requires fedplug>=9")


def test_a_wheel_for_another_python_is_named(install_encoder, tmp_path, fresh_catalog):
    install_encoder("acme-codec", "acme")
    wheel = tmp_path / "acme_codec-1.0.dist-info" / "WHEEL"
    for tags, status in {
        "Tag: cp36-cp36m-win32\nTag: cp37-cp37m-win32\n": "incompatible",
        "Tag: cp36-cp36m-win32\nTag: py3-none-any\n": "ok",
        "Tag: cp36-abi3-any\n": "ok",
    }.items():
        wheel.write_text("Wheel-Version: 1.0\n" + tags)
        fresh_catalog.cache_clear()
        entry = the_entry_of(resolve.catalog(), "acme-codec")
        assert entry.status == status, tags
        assert not entry.reason or entry.reason.startswith(
            "was built for cp36-cp36m, cp37-cp37m, and this is"
        )


def test_a_component_that_imports_a_name_fedplug_does_not_have_says_so(install_encoder, tmp_path):
    (tmp_path / "acme_new.py").write_text("from fedplug.errors import Gone\n")
    install_encoder("acme-codec", "acme", "acme_new:Acme")
    match = "`pip install --upgrade fedplug acme-codec`; it was made for another version of fedplug than"
    with pytest.raises(PluginError, match=match):
        resolve.resolve("encoder", "acme")


@pytest.mark.parametrize("command", ["plugins list", "store show memory://", "bench --elements 1000 float16"])
def test_a_plugin_that_prints_leaves_the_json_alone(install_encoder, install, capsys, command):
    install("acme-codec", "print('hello')\n" + HEADER + hook("fedplug_encoders()", "return []"))
    assert main([*command.split(), "--json"]) == 0
    found = capsys.readouterr()
    json.loads(found.out)
    assert found.err == "hello\n"


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("entry_points.txt", b"[fedplug.v1]\nno value\n"),
        ("entry_points.txt", b"[fedplug.v1]\nacme =\n"),
        ("entry_points.txt", b"[fedplug.v1]\n\xff = acme\n"),
        ("METADATA", b"\xff\xfe"),
    ],
)
def test_damaged_metadata_of_a_distribution_hides_no_other(
    install_encoder, install, tmp_path, fresh_catalog, file, content
):
    install_encoder("acme-codec", "acme", "acme_codec:Acme")
    install("torn-codec", "")
    (tmp_path / "torn_codec-1.0.dist-info" / file).write_bytes(content)
    assert fresh_catalog().find("encoder", "acme").status == "ok"
    (problem,) = fresh_catalog().problems()
    assert "torn" in problem.distribution
    assert "decode" in problem.reason or "metadata cannot be read" in problem.reason


def test_a_class_that_is_not_where_the_spec_says_is_an_error_with_the_distribution(install_encoder):
    install_encoder("acme-codec", "acme", "acme_missing.module:Encoder")
    with pytest.raises(PluginError, match=r"acme_missing.*pip install --force-reinstall acme-codec"):
        resolve.resolve("encoder", "acme")
    install_encoder("other-codec", "other", "collections:abc")
    with pytest.raises(PluginError, match="which is a module, not a class"):
        resolve.resolve("encoder", "other")


def test_code_that_raises_is_to_be_corrected_and_not_installed_again(
    install, install_encoder, tmp_path, monkeypatch
):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "acme_torn.py").write_text("class Encoder:\n    def encode(self\n")
    (tmp_path / "acme_raises.py").write_text("\n\nclass Encoder:\n    bits = 1 / 0\n")
    for name, line in (("acme_torn", 2), ("acme_raises", 4)):
        install_encoder(f"{name}-codec", name, f"{name}:Encoder")
        with pytest.raises(
            PluginError, match=rf"; correct .*{name}\.py:{line}, or tell its authors"
        ) as caught:
            resolve.resolve("encoder", name)
        assert "install" not in str(caught.value)
    install("torn-codec", "def fedplug_encoders(:\n")
    fix = the_entry_of(resolve.catalog(), "torn-codec").fix
    assert fix.endswith(".py:1, or tell its authors")
    assert "install" not in fix


def test_the_environment_can_name_the_distributions_to_load(install_encoder, monkeypatch, fresh_catalog):
    module = install_encoder("acme-codec", "acme")
    install_encoder("other-codec", "other")
    monkeypatch.setenv("FEDPLUG_PLUGINS", "Other_Codec")
    fresh_catalog.cache_clear()
    assert the_entry_of(resolve.catalog(), "other-codec").status == "ok"
    assert the_entry_of(resolve.catalog(), "acme-codec").status == "disabled"
    assert not resolve.catalog().problems()
    assert module not in sys.modules
    monkeypatch.setenv("FEDPLUG_PLUGINS", "")
    fresh_catalog.cache_clear()
    assert {entry.distribution for entry in resolve.catalog().entries if entry.status == "ok"} == {"fedplug"}


def test_a_distribution_to_load_that_is_not_installed_is_reported_with_the_nearest(
    install_encoder, monkeypatch, fresh_catalog
):
    install_encoder("acme-codec", "acme")
    monkeypatch.setenv("FEDPLUG_PLUGINS", "acme-kodec")
    fresh_catalog.cache_clear()
    (problem,) = resolve.catalog().problems()
    assert problem.reason.startswith(
        "named in FEDPLUG_PLUGINS, but no such plugin is installed; did you mean"
    )
    assert "'acme-codec'" in problem.reason
