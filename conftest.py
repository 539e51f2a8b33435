"""Leaves out slow tests, and the tests of what is not installed, TensorFlow say; tells how many.

A file is left out if it imports what is missing, itself or by way of fedplug; and with it a folder whose
conftest.py does. A test that needs it in another way, in a process that it starts say, is marked: it
``needs("tensorflow")``, or what ``"fedplug.encoders"`` imports. Nothing else counts: a test that fails for
want of TensorFlow, where it should not need it, is a failure.

A test that is marked ``slow`` takes seconds, for something that a shorter one looks at too. It runs with
``--slow``, as in `make test-thorough`, and where its file is named: ``pytest tests/ops/test_topk.py``.
The costly checks of an encoder suite with ``costly_checks_are_slow = True`` are slow, too. Encoders share
code: one of each kind keeps these checks, and `tests/ops` compares every op with its reference.

`make test` runs each test once: without TensorFlow, it saves the names of the tests that passed, and with
TensorFlow, it runs all the others, and again the tests that try more there: tests of commands, and checks
that run on each kind of arrays.
A test that something does not load TensorFlow ``needs("tensorflow")``.
"""

from __future__ import annotations

import ast
import collections
import functools
import importlib.util
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

# As the command line does; before a conftest.py imports TensorFlow, which sets 1, also for what tests start.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

# Of properties that have no number of their own: those of TensorFlow, where an example takes milliseconds and
# most are tried for every dtype and lowering. `make test-thorough` tries more.
# No clock decides: machines are shared. Only the thorough profile draws new examples each time.
settings.register_profile(
    "quick",
    max_examples=15,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("thorough", settings.get_profile("quick"), max_examples=100, derandomize=False)
settings.load_profile("quick")

OPTIONAL = (
    "tensorflow",
    "tensorflow_federated",
    "tensorflow_model_optimization",
    "ray",
    "sklearn",
    "jinja2",
    "matplotlib",
    "playwright",
    "ruff",
    "scikit_build_core",
    "setuptools",
    "mlflow",
    "tensorboard",
    "psycopg",
    "fedplug_cuda",
)
MISSING = frozenset(name for name in OPTIONAL if importlib.util.find_spec(name) is None)
# Checks that take two thirds of the time of an encoder suite.
COSTLY = (
    # These trace graphs of hundreds of small ops for every shape and dtype.
    "test_compiled_ops_and_their_references_give_the_same",
    "test_a_graph_equals_eager_execution",
    "test_tensors_are_encoded_together_alike_on_all_arrays_and_in_graphs",
    "test_a_tff_process_sends_the_bytes_of_eager_execution",
    # These decode hundreds of payloads.
    "test_hostile_bytes_are_refused_or_are_a_valid_payload",
    "test_hostile_bytes_do_not_take_memory",
    "test_hostile_bytes_that_are_accepted_have_one_meaning",
)
# Commands that try more where TensorFlow is installed: `fedplug doctor`, `fedplug plugins check`.
TRIES_MORE = re.compile(r'\bdoctor\b|"check"')
left_out = pytest.StashKey[collections.Counter[str]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the options of the commands in the Makefile."""
    parser.addoption("--slow", action="store_true", help="run what is marked slow, too")
    parser.addoption("--save-passed", help="write the names of the tests that passed to this file")
    parser.addoption("--omit-passed", help="omit the tests that such a file names, if there is one")


def pytest_configure(config: pytest.Config) -> None:
    """Registers the markers, leaves nothing out yet, and hears Ctrl-C.

    A job that a shell put into the background, as CI may be, starts with it ignored. So would the programs
    that tests start, such as the worker of TFF, which ends by this signal alone.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    config.addinivalue_line("markers", "needs(module): left out where what the module imports is missing")
    config.addinivalue_line("markers", "slow: left to `make test-thorough`, but where its file is named")
    config.stash[left_out] = collections.Counter()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Whether a test file, or a folder with its conftest.py, imports what is missing."""
    folder = collection_path.is_dir()
    if folder and (collection_path / "uv.lock").exists() and collection_path != config.rootpath:
        return True  # a project with an environment of its own: `make test-integrations`
    source = collection_path / "conftest.py" if folder else collection_path
    if not MISSING or source.suffix != ".py" or not source.is_file():
        return None
    missing = {name for statement in imports_of(source) if (name := missing_for(*statement))}
    if missing:
        files = len(list(collection_path.rglob("test_*.py"))) if folder else 1
        package = min(missing, key=OPTIONAL.index)
        config.stash[left_out][f"test files left out, which import {package}: not installed here"] += files
    return bool(missing) or None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves out what is marked."""
    slow_too = config.getoption("slow")
    named = {Path(argument.partition("::")[0]).resolve() for argument in config.args}
    file = config.getoption("omit_passed")
    passed = set(Path(file).read_text().splitlines()) if file and Path(file).exists() else set()
    kept: list[pytest.Item] = []
    for item in items:
        missing = [name for mark in item.iter_markers("needs") if (name := missing_for(mark.args[0], ""))]
        if missing:
            config.stash[left_out][f"tests left out, which need {missing[0]}: not installed here"] += 1
        elif item.nodeid in passed and not tries_more(item):
            config.stash[left_out][f"tests left out, which {file} names: they passed already"] += 1
        elif is_slow(item) and not slow_too and item.path not in named:
            config.stash[left_out]["slow tests left to `make test-thorough`"] += 1
        else:
            kept.append(item)
    items[:] = kept


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Reports what a process of pytest-xdist left out to the main process; all of them leave out the same."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["left_out"] = dict(session.config.stash[left_out])
    if tff := sys.modules.get("tensorflow_federated"):  # its context complains at the interpreter's end
        tff.test.set_no_default_context()


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Hears it."""
    told = getattr(node, "workeroutput", {}).get("left_out", {})
    node.config.stash[left_out] |= collections.Counter(told)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(call: pytest.CallInfo[None]) -> Iterator[None]:
    """Adds to a failure the output of each program that failed: its error names only the command."""
    report = yield
    error = None if call.excinfo is None else call.excinfo.value
    while error is not None:
        if isinstance(error, subprocess.CalledProcessError | subprocess.TimeoutExpired):
            for name, said in (("output", error.stdout), ("errors", error.stderr)):
                text = said.decode(errors="replace") if isinstance(said, bytes) else said
                report.sections += [(f"{name} of the program that failed", text)] if text else []
        error = error.__cause__ or error.__context__
    return report


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, exitstatus: int, config: pytest.Config
) -> None:
    """Writes one line for each kind of omitted tests, and the file of those that passed."""
    del exitstatus
    if file := config.getoption("save_passed"):
        names = [report.nodeid for report in terminalreporter.stats.get("passed", [])]
        Path(file).write_text("".join(f"{name}\n" for name in names))
    for what, number in config.stash[left_out].most_common():
        terminalreporter.write_line(f"{number} {what}")


def imports_of(source: Path) -> Iterator[tuple[str, str]]:
    """Every import of a file, also those in functions, as a module and a name taken from it; "" is none."""
    for node in ast.walk(ast.parse(source.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from ((str(node.module), alias.name) for alias in node.names)
        elif (
            isinstance(node, ast.Attribute)
            and isinstance(node.value, ast.Name)
            and node.value.id == "fedplug"
        ):
            yield "fedplug", node.attr  # fedplug imports on first use


def is_slow(item: pytest.Item) -> bool:
    """Whether a test is left to `make test-thorough`."""
    suite = getattr(item, "cls", None)
    costly = item.name in COSTLY and getattr(suite, "costly_checks_are_slow", False)
    return costly or item.get_closest_marker("slow") is not None


def tries_more(item: pytest.Item) -> bool:
    """Whether a test tries more where TensorFlow is installed, so that it runs with it, too."""
    return hasattr(getattr(item, "function", None), "on_each") or names_such_a_command(item.path)


@functools.cache
def names_such_a_command(source: Path) -> bool:
    """Whether a file of tests may run a command that tries more with TensorFlow."""
    return bool(TRIES_MORE.search(source.read_text(encoding="utf-8")))


@functools.cache
def missing_for(module: str, name: str) -> str | None:
    """What an import needs and is missing here; None: nothing is."""
    package = module.partition(".")[0]
    if package in MISSING or not package.startswith("fedplug"):
        return package if package in MISSING else None
    try:
        loaded = importlib.import_module(module)
        if name and not hasattr(loaded, name):
            importlib.import_module(f"{module}.{name}")
    except ModuleNotFoundError as error:
        return missing_for(str(error.name), "")
    except Exception:
        return None  # the test will say it better
    return None
