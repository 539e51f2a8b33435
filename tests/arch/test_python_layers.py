"""Who may import whom in `fedplug/`, read from the sources.

Imports under ``if TYPE_CHECKING:`` do not count, as they never run; those in function bodies do, except in
the command line, whose commands import what they need when they run.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import fedplug

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "fedplug"

# Each part of the package and the parts it may import; a part is a module or a folder directly in fedplug/.
MAY_IMPORT = {
    "errors": set(),
    "registry": {"errors"},
    "api": {"errors", "registry"},
    # bytes and arrays
    "kernels": {"_kernels", "errors", "registry"},
    "wire": {"errors", "kernels"},
    "stores": {"errors", "registry"},
    # tensors
    "ops": {"errors", "registry"},
    "schedules": {"api", "errors", "registry"},
    "encoders": {"api", "errors", "ops", "registry", "schedules", "wire"},
    "aggregators": {"encoders", "errors", "registry"},
    # TFF
    "process": {"aggregators", "api", "encoders", "errors", "ops", "registry"},
    "runtime": {"errors", "ops"},
    "training": {"api", "encoders", "errors", "process", "registry", "runtime", "stores"},
    "compat": {"encoders", "errors", "process", "registry"},
    # what stands on top
    "diagnostics": {
        "encoders",
        "errors",
        "kernels",
        "ops",
        "process",
        "registry",
        "runtime",
        "stores",
        "training",
    },
    "experiment": {
        *["aggregators", "api", "diagnostics", "encoders", "errors", "process", "registry", "runtime"],
        *["stores", "training"],
    },
    "cli": {"diagnostics", "errors"},
    "__main__": {"cli"},
    "__init__": set(),
}
ABOVE_TENSORFLOW = {
    *["aggregators", "compat", "diagnostics", "encoders", "experiment", "ops", "process", "runtime"],
    *["schedules", "testing", "training"],
}
ABOVE_TFF = {"compat", "diagnostics", "experiment", "process", "runtime", "training"}


@dataclass(frozen=True)
class Import:
    """One import statement's module, and the name taken from it."""

    file: Path
    line: int
    module: str
    name: str = ""

    @property
    def part(self) -> str:
        """The part of the package that is meant."""
        top, _, rest = f"{self.module}.{self.name}".rstrip(".").partition(".")
        assert top == "fedplug"
        first = rest.partition(".")[0]
        # `from fedplug import encoder` is an import of the module that has it
        return fedplug._ATTRIBUTES.get(first, f".{first}").split(".")[1]

    def __str__(self) -> str:
        return f"{self.file.relative_to(ROOT)}:{self.line} imports {self.module} {self.name}".rstrip()


def is_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def imports_of(path: Path, *, bodies: bool = True) -> Iterator[Import]:
    todo: list[ast.AST] = [ast.parse(path.read_text(encoding="utf-8"))]
    while todo:
        node = todo.pop()
        if isinstance(node, ast.Import):
            yield from (Import(path, node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: imports are absolute here"
            yield from (Import(path, node.lineno, node.module or "", alias.name) for alias in node.names)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not bodies:
            continue
        elif is_type_checking(node):
            todo += node.orelse
        else:
            todo += ast.iter_child_nodes(node)


def part_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def is_of(module: str, *packages: str) -> bool:
    return module.partition(".")[0] in packages


FILES = sorted(PACKAGE.rglob("*.py"))
PARTS = sorted({part_of(path) for path in FILES} - {"testing"})


def imports_of_part(part: str) -> list[Import]:
    paths = [path for path in FILES if part_of(path) == part]
    return [found for path in paths for found in imports_of(path, bodies=part != "cli")]


def test_the_import_finder_sees_what_runs_and_only_that(tmp_path):
    source = tmp_path / "example.py"
    source.write_text(
        "import a\nfrom b import c\nif TYPE_CHECKING:\n    import d\nelse:\n    import e\n"
        "def f():\n    import g\nclass C:\n    import h\ntry:\n    import i\nexcept ImportError:\n    pass\n"
    )
    assert {found.module for found in imports_of(source)} == {"a", "b", "e", "g", "h", "i"}
    assert {found.module for found in imports_of(source, bodies=False)} == {"a", "b", "e", "h", "i"}


@pytest.mark.parametrize("part", PARTS)
def test_a_part_imports_only_the_parts_below_it(part):
    inside = [found for found in imports_of_part(part) if is_of(found.module, "fedplug")]
    wrong = [str(found) for found in inside if found.part not in MAY_IMPORT[part] | {part, ""}]
    assert not wrong


def test_the_plan_has_no_circles():
    done: set[str] = {"_kernels"}
    left = dict(MAY_IMPORT)
    while left:
        free = {part for part, below in left.items() if below <= done}
        assert free, f"these parts import each other in a circle: {sorted(left)}"
        done |= free
        left = {part: below for part, below in left.items() if part not in free}


def test_only_what_stands_on_top_uses_the_top_level_package():
    users = {
        part
        for part in PARTS
        for found in imports_of_part(part)
        if found.module == "fedplug" and not found.name
    }
    assert users <= {"experiment"}


@pytest.mark.parametrize("part", PARTS)
def test_tensorflow_and_tff_stay_where_they_belong(part):
    packages = [
        *(["tensorflow", "keras"] if part not in ABOVE_TENSORFLOW else []),
        *(["tensorflow_federated"] if part not in ABOVE_TFF else []),
    ]
    assert not [str(found) for found in imports_of_part(part) if is_of(found.module, *packages)]


def test_the_registry_and_the_command_line_do_not_import_numpy():
    registry = ["api", "cli", "errors", "registry"]
    found = [
        str(found) for part in registry for found in imports_of_part(part) if is_of(found.module, "numpy")
    ]
    assert not found


def test_fedplug_does_not_know_its_plugins():
    plugins = {path.name for folder in (ROOT / "plugins").iterdir() for path in folder.glob("fedplug_*")}
    assert plugins
    assert not [str(found) for path in FILES for found in imports_of(path) if is_of(found.module, *plugins)]


def test_nothing_but_tests_imports_the_conformance_kit():
    everywhere = [
        path
        for folder in ("fedplug", "plugins", "examples", "benchmarks")
        for path in (ROOT / folder).rglob("*.py")
        if "tests" not in path.parts
        and part_of_package(path) != "testing"
        and path != PACKAGE / "cli" / "plugins_check.py"  # in its function bodies, see the test below
    ]
    wrong = [
        str(found)
        for path in everywhere
        for found in imports_of(path)
        if f"{found.module}.{found.name}".startswith("fedplug.testing")
    ]
    assert not wrong


def test_the_check_command_imports_the_conformance_kit_only_when_it_runs():
    at_import = imports_of(PACKAGE / "cli" / "plugins_check.py", bodies=False)
    assert not [str(found) for found in at_import if found.module.startswith("fedplug.testing")]


def part_of_package(path: Path) -> str:
    return part_of(path) if path.is_relative_to(PACKAGE) else ""


def test_a_plugin_uses_public_modules_only():
    sources = [path for path in (ROOT / "plugins").rglob("*.py") if "tests" not in path.parts]
    names = [found for path in sources for found in imports_of(path) if is_of(found.module, "fedplug")]
    assert names
    assert not [str(found) for found in names if "._" in f".{found.module}.{found.name}"]
