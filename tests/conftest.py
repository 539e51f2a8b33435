"""What tests of several parts need."""

from __future__ import annotations

import gc
import os
import resource
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from xdist.scheduler import LoadFileScheduling

from fedplug.registry import resolve


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Collects no garbage while tests are imported, and later more seldom, and not what was imported.

    Imports make much, and nothing of it is garbage. Of a test that traces graphs, a seventh was the garbage
    collector (700, 10, 10).
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(20_000, 20, 20)
        gc.enable()


@pytest.fixture
def fresh_pages() -> Callable[[Callable[[], object]], int]:
    """Tells how many pages are touched for the first time, when call after call does the same."""

    def count(call: Callable[[], object]) -> int:
        counts = []
        for _ in range(4):
            before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
            call()
            counts.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
        return min(counts)

    return count


@pytest.fixture
def fresh_catalog():
    """The catalogue is looked up anew, and forgotten afterwards."""
    resolve.catalog.cache_clear()
    yield resolve.catalog
    resolve.catalog.cache_clear()


@pytest.fixture
def install(tmp_path, monkeypatch, fresh_catalog):
    """``install("dist-name", source)``: a tiny distribution whose plugin module has that source.

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


@pytest.fixture(scope="session")
def python():
    """``python(*arguments, cwd=None, **environment)``: another Python that has ended, with what it wrote."""

    def run(*arguments, cwd=None, **environment):
        command = [sys.executable, *map(str, arguments)]
        settings = {**os.environ, **environment}
        return subprocess.run(
            command, cwd=cwd, env=settings, capture_output=True, text=True, check=False, timeout=1800
        )

    return run


LONGEST = (
    "plugins/fedplug-ray/tests/",
    "tests/examples/",
    "tests/tff/process/",
    "tests/encoders/",
    "tests/testing/",
    "plugins/fedplug-postgres/tests/",
    "tests/tff/training/",
    "tests/tff/runtime/",
    "tests/tff/experiment/",
    "tests/ops/",
)
"""Begun first, so that in the end no process waits for another that has just begun with a long file."""


class _ByFile(LoadFileScheduling):
    """A file's tests share what they build, so one process runs them; all that share a Ray cluster, too.

    The suites of built-in encoders share nothing, and together they take as long as half of all other tests.
    """

    def __init__(self, config: pytest.Config, log: Any) -> None:
        config.option.loadscopereorder = False  # by the number of tests, which says nothing of their length
        super().__init__(config, log)

    def _split_scope(self, nodeid: str) -> str:
        if nodeid.startswith("plugins/fedplug-ray/"):
            return "ray"
        if nodeid.startswith("tests/encoders/test_conformance.py"):
            return nodeid.rpartition("::")[0]
        return super()._split_scope(nodeid)

    def remove_node(self, node: Any) -> str | None:
        """The test that a process died of, if it did, which then fails; others run those it had before it.

        The stock scheduler would run that test again, in the next process.
        """
        files = self.assigned_work.pop(node)
        left = {
            name: {test: False for test, done in tests.items() if not done} for name, tests in files.items()
        }
        fatal = next(((tests, test) for tests in left.values() for test in tests), None)
        if fatal:
            del fatal[0][fatal[1]]
        self.workqueue.update({name: tests for name, tests in left.items() if tests})
        for other in self.assigned_work:
            self._reschedule(other)
        return fatal[1] if fatal else None

    def _reschedule(self, node: Any) -> None:
        """Gives a process files until it has three tests, or tells it that there are no more.

        The stock scheduler gives it one file. If that is one test, as the rest of a file may be, both wait
        forever: a process begins a test when it knows which is next.
        """
        collected = node in self.registered_collections  # not yet, in place of one that died
        while collected and not node.shutting_down and self._pending_of(self.assigned_work[node]) <= 2:
            super()._reschedule(node)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Where processes share the tests, those in `LONGEST` come first; else they stay in their order."""
    if "PYTEST_XDIST_WORKER" in os.environ:
        items.sort(
            key=lambda item: next(
                (i for i, folder in enumerate(LONGEST) if item.nodeid.startswith(folder)), len(LONGEST)
            )
        )


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> _ByFile:
    """How ``pytest --numprocesses N``, as in ``make test``, shares the tests out."""
    return _ByFile(config, log)
