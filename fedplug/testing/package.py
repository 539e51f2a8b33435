"""The suite for plugin packages: requirements for an installed distribution."""

from __future__ import annotations

import abc
import importlib.metadata
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any, ClassVar

from fedplug.errors import FedplugError, PluginError, missing_dependency
from fedplug.registry import resolve
from fedplug.registry.catalog import Entry
from fedplug.registry.config import as_component
from fedplug.registry.entry_points import normalized
from fedplug.registry.specs import ComponentSpec, EncoderSpec
from fedplug.testing import components, expect
from fedplug.testing.suite import CannotRun, Suite, after

__all__ = ["PluginPackageSuite"]

_HEAVY = ("numpy", "tensorflow", "tensorflow_federated")
_SUMMARY_LENGTH = 80
_INSTALLED = "test_it_is_installed_and_names_a_plugin_module"
_WHOLE = "test_fedplug_finds_no_problem_with_it"
_MADE = "test_every_example_can_be_made"
_IMPORTED = "test_every_class_can_be_imported_and_has_the_base_of_its_kind"


class PluginPackageSuite(Suite, abc.ABC):
    """Checks the requirements of `docs/write-a-plugin.md` for a distribution.

    An author writes, in a test module of a package that is installed::

        class TestPackage(fedplug.testing.PluginPackageSuite):
            distribution = "fedplug-acme"
    """

    distribution: ClassVar[str]
    """The name of the distribution, as it is installed."""

    def test_it_is_installed_and_names_a_plugin_module(self) -> None:
        groups = sorted({point.group for point in self._distribution().entry_points})
        others = ", ".join(group for group in groups if re.fullmatch(r"fedplug\.v\d+", group))
        only = f", only in {others}" if others else ""
        expect.that(
            resolve.GROUP in groups,
            f"no entry point in the group {resolve.GROUP!r}{only}; write "
            f'[project.entry-points."{resolve.GROUP}"] in pyproject.toml and install it again',
        )

    def test_its_metadata_describes_it_and_its_requirements(self) -> None:
        metadata = self._distribution().metadata
        for field in ("Version", "Summary", "Requires-Python"):
            expect.that(field in metadata, f"its metadata has no {field}; add it to pyproject.toml")
        required = {_first_word(line) for line in metadata.get_all("Requires-Dist") or ()}
        expect.that("fedplug" in required, "it does not depend on 'fedplug'; add it to the dependencies")

    @after(_INSTALLED)
    def test_importing_its_plugin_module_loads_nothing_heavy(self) -> None:
        for point in self._entry_points():
            program = f"import sys, {point.module}; print(*[m for m in {_HEAVY!r} if m in sys.modules])"
            result = subprocess.run(
                [sys.executable, "-c", program],
                capture_output=True,
                text=True,
                check=False,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            )
            if result.returncode == 0:  # else another check says why
                heavy = ", ".join(result.stdout.split())
                expect.that(not heavy, f"importing {point.module} loads {heavy}; keep it to hooks and specs")

    @after(_INSTALLED)
    def test_fedplug_finds_no_problem_with_it(self) -> None:
        for entry in self._entries():
            expect.that(entry.status == "ok", f"{entry.kind} {entry.name}: {entry.reason}; {entry.fix}")

    @after(_INSTALLED, _WHOLE)
    def test_it_brings_parts(self) -> None:
        expect.that(list(self._entries()), "its hooks declare no part")

    @after(_INSTALLED, _WHOLE)
    def test_every_class_can_be_imported_and_has_the_base_of_its_kind(self) -> None:
        for entry, spec in self._parts():
            try:
                components.check_base(entry.kind, spec.resolve())
            except FedplugError as error:
                raise expect.ConformanceError(str(error)) from error

    @after(_INSTALLED, _WHOLE, _IMPORTED)
    def test_every_class_has_the_name_it_is_declared_under(self) -> None:
        for entry, spec in self._parts():
            if entry.kind == "runtime":  # its target may be a function
                continue
            name = getattr(spec.resolve(), "name", None)
            expect.that(name == entry.name, f"{spec.target} has the name {name!r}, not {entry.name!r}")

    @after(_INSTALLED, _WHOLE)
    def test_every_summary_is_a_short_line(self) -> None:
        for entry in self._entries():
            summary = entry.spec.summary if entry.spec else ""
            expect.that(
                summary.strip() and len(summary) <= _SUMMARY_LENGTH,
                f"the summary of {entry.kind} {entry.name!r} has {len(summary)} characters; write 1 to "
                f"{_SUMMARY_LENGTH}, for `fedplug plugins list`",
            )

    @after(_INSTALLED, _WHOLE, _IMPORTED)
    def test_every_example_can_be_made(self) -> None:
        for entry, _ in self._parts():
            for example in entry.examples:
                with components.made(entry.kind, example):
                    pass

    @after(_INSTALLED, _WHOLE, _IMPORTED, _MADE)
    def test_every_encoder_executes_where_it_declares(self) -> None:
        for entry, spec in self._parts():
            if not isinstance(spec, EncoderSpec):
                continue
            for example in entry.examples:
                with components.made(entry.kind, example) as made:
                    found = _named(entry.name, made).capabilities.executes_on
                expect.that(
                    set(spec.executes_on) == set(found) - ({"cuda"} - set(spec.executes_on)),
                    f"encoder {entry.name!r} is declared with executes_on={spec.executes_on!r}, and the "
                    f"capabilities of {example!r} have {found!r}",
                )

    @after(_INSTALLED, _WHOLE)
    def test_every_op_library_can_be_loaded(self) -> None:
        for entry in self._entries():
            if entry.kind == "op_library":
                from fedplug.ops.lowering import op_library

                try:
                    op_library(entry.name)
                except FedplugError as error:
                    raise expect.ConformanceError(str(error)) from error

    def _distribution(self) -> importlib.metadata.Distribution:
        try:
            return importlib.metadata.distribution(self.distribution)
        except importlib.metadata.PackageNotFoundError as error:
            raise expect.ConformanceError(f"{self.distribution!r} is not installed") from error

    def _entry_points(self) -> list[importlib.metadata.EntryPoint]:
        points = self._distribution().entry_points
        return [point for point in points if point.group == resolve.GROUP]

    def _entries(self) -> Iterator[Entry]:
        wanted = normalized(self.distribution)
        return (entry for entry in resolve.load().entries if normalized(entry.distribution) == wanted)

    def _parts(self) -> Iterator[tuple[Entry, ComponentSpec]]:
        """Returns the entries that have a class.

        Raises:
            CannotRun: A class needs an optional package of fedplug, such as TensorFlow.
        """
        for entry in self._entries():
            if isinstance(entry.spec, ComponentSpec):
                try:
                    entry.spec.resolve()
                except PluginError as error:  # a check reports other reasons
                    if module := missing_dependency(error.__cause__):
                        raise CannotRun(f"{entry.kind} {entry.name} needs {module}, not installed") from error
                yield entry, entry.spec


def _named(name: str, made: Any) -> Any:
    """Returns the component of that name: the created one, or one of its stages."""
    stages = [as_component(stage) for stage in made.get_config().get("stages", ())]
    return next((stage for stage in stages if stage.name == name), made)


def _first_word(requirement: str) -> str:
    return normalized(re.split(r"[^A-Za-z0-9._-]", requirement, maxsplit=1)[0])
