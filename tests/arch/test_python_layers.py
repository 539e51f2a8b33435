"""Who may import whom in `fedplug/`, read from the sources: every import counts.

Those under ``if TYPE_CHECKING:`` and in the bodies of functions do, too, so that a reader who follows the
imports of a file never comes back to it.
"""

from __future__ import annotations

import ast
import functools
import graphlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeGuard

import pytest

import fedplug

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "fedplug"

# Each layer (a module or a folder directly in fedplug/ or fedplug/tff/) and those right below it; it may
# import whatever is below these, too.
BELOW = {
    "errors": (),
    "registry": ("errors",),
    "scalars": (),
    # bytes and arrays
    "types": (),
    "_kernels": ("types",),
    "kernels": ("_kernels", "registry"),
    "wire": ("kernels",),
    "stores": ("wire",),
    "differences": ("stores",),
    # arrays and tensors
    "ops": ("wire",),
    "schedules": ("ops",),
    "encoders": ("schedules",),
    "tff/aggregators": ("encoders",),
    "api": ("tff/aggregators",),
    "codecs": ("api", "stores"),
    "secure": ("codecs",),
    # TFF
    "tff/structures": ("errors",),
    "tff/process": ("secure", "tff/structures"),
    "tff/runtime": ("ops", "stores", "tff/structures"),
    "tff/training": ("tff/process", "tff/runtime"),
    "tff/compat": ("tff/process",),
    "tff/__init__": ("tff/compat", "tff/training"),
    # what stands on top
    "versions": ("codecs", "differences"),
    "__init__": ("versions", "tff/__init__"),
    "pictures": ("stores",),
    "diagnostics": ("codecs", "differences", "pictures", "tff/training"),
    "testing": ("codecs", "tff/training"),
    "tff/experiment": ("__init__", "diagnostics"),
    "cli": ("tff/experiment", "testing"),
    "__main__": ("cli",),
}
# What may import TensorFlow: these layers, folders and files.
ABOVE_TENSORFLOW = (
    *["diagnostics", "ops/_tensorflow", "tff"],
    *["testing/aggregator.py", "testing/on_tensorflow.py", "testing/runtime.py"],
)
# What may import it in functions only, so that the module is there without it.
TENSORFLOW_WHEN_CALLED = (
    *["encoders/model/trials.py", "testing/encoder_executions.py"],
    *["testing/encoder_together.py", "testing/memory.py", "testing/schedule.py"],
)
ABOVE_TFF = ("diagnostics", "testing", "tff")


@functools.cache
def all_below(layer: str) -> frozenset[str]:
    return frozenset(BELOW[layer]).union(*map(all_below, BELOW[layer]))


def module_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def layer_of(path: Path) -> str:
    parts = path.relative_to(PACKAGE).parts
    return "/".join(parts[: 2 if parts[0] == "tff" else 1]).partition(".")[0]


FILES = {module_of(path): path for path in sorted(PACKAGE.rglob("*.py*")) if path.suffix in (".py", ".pyi")}
LAYERS = sorted({layer_of(path) for path in FILES.values()})


@dataclass(frozen=True)
class Import:
    """One import statement's module, and the name taken from it."""

    file: Path
    line: int
    module: str
    name: str = ""

    def is_of(self, *packages: str) -> bool:
        return self.module.partition(".")[0] in packages

    @property
    def target(self) -> str:
        """The module that has what is imported: of a public name of fedplug, a submodule, or this one."""
        public = fedplug._HOMES.get(self.name) if self.module == "fedplug" else None
        submodule = f"{self.module}.{self.name}"
        return public or (submodule if submodule in FILES else self.module)

    def __str__(self) -> str:
        return f"{self.file.relative_to(ROOT)}:{self.line} imports {self.module} {self.name}".rstrip()


def is_type_checking(node: ast.AST) -> TypeGuard[ast.If]:
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def imported_by_name(node: ast.AST) -> str:
    """The module of fedplug in ``importlib.import_module("...")``; empty for anything else."""
    if not isinstance(node, ast.Call) or not ast.unparse(node.func).endswith("import_module"):
        return ""
    name = node.args[0].value if node.args and isinstance(node.args[0], ast.Constant) else ""
    return name if isinstance(name, str) and name.startswith("fedplug.") else ""


@functools.cache
def imports_of(path: Path, *, when_loaded: bool = False) -> tuple[Import, ...]:
    """All imports of a file, or only those that run when it is imported."""
    return tuple(_find_imports(path, when_loaded))


def _find_imports(path: Path, when_loaded: bool) -> Iterator[Import]:
    todo: list[ast.AST] = [ast.parse(path.read_text(encoding="utf-8"))]
    while todo:
        node = todo.pop()
        if isinstance(node, ast.Import):
            yield from (Import(path, node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: imports are absolute here"
            yield from (Import(path, node.lineno, node.module or "", alias.name) for alias in node.names)
        elif when_loaded and isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        elif name := imported_by_name(node):
            yield Import(path, node.lineno, name)
        elif when_loaded and is_type_checking(node):
            todo += node.orelse
        else:
            todo += ast.iter_child_nodes(node)


def imports_of_layer(layer: str) -> list[Import]:
    return [found for path in FILES.values() if layer_of(path) == layer for found in imports_of(path)]


def test_the_import_finder_sees_every_import(tmp_path):
    source = tmp_path / "example.py"
    source.write_text(
        "import a\nfrom b import c\nif TYPE_CHECKING:\n    import d\nelse:\n    import e\n"
        "def f():\n    import g\n    importlib.import_module('fedplug.j')\n"
        "class C:\n    import h\ntry:\n    import i\nexcept ImportError:\n    pass\n"
    )
    assert {found.module for found in imports_of(source)} == {"a", "b", "d", "e", "g", "h", "i", "fedplug.j"}
    assert {found.module for found in imports_of(source, when_loaded=True)} == {"a", "b", "e", "h", "i"}


@pytest.mark.parametrize(
    ("statement", "target"),
    [
        ("import fedplug", "fedplug"),
        ("from fedplug import encoder", "fedplug.api"),
        ("from fedplug import ops", "fedplug.ops"),
        ("from fedplug.encoders import Encoder", "fedplug.encoders"),
        ("from fedplug.encoders import base", "fedplug.encoders.base"),
        ("from fedplug.encoders.base import Encoder", "fedplug.encoders.base"),
    ],
)
def test_an_import_is_of_the_module_that_has_the_name(tmp_path, statement, target):
    source = tmp_path / "example.py"
    source.write_text(statement)
    assert [found.target for found in imports_of(source)] == [target]


def test_no_file_imports_itself_by_way_of_others():
    graph = {
        module: {found.target for found in imports_of(path) if found.is_of("fedplug")}
        for module, path in FILES.items()
    }
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        pytest.fail("a circle of imports: " + " <- ".join(error.args[1]))


def test_no_two_folders_beside_each_other_import_each_other():
    graph: dict[Path, set[Path]] = {}
    for path in FILES.values():
        for found in imports_of(path):
            if found.is_of("fedplug") and (target := FILES[found.target].parent).parent == path.parent.parent:
                graph.setdefault(path.parent, set()).add(target)
    try:
        graphlib.TopologicalSorter({folder: into - {folder} for folder, into in graph.items()}).prepare()
    except graphlib.CycleError as error:
        pytest.fail("a circle of folders: " + " <- ".join(map(str, error.args[1])))


@pytest.mark.parametrize("layer", LAYERS)
def test_a_layer_imports_only_the_layers_below_it(layer):
    inside = [found for found in imports_of_layer(layer) if found.is_of("fedplug")]
    allowed = all_below(layer) | {layer}
    assert not [str(found) for found in inside if layer_of(FILES[found.target]) not in allowed]


def test_no_file_imports_a_module_through_the_face_of_the_package():
    found = [
        found
        for path in FILES.values()
        for found in imports_of(path)
        if found.module == "fedplug" and found.name
    ]
    assert not [str(each) for each in found if each.file != PACKAGE / "__init__.py"]


def test_at_most_eight_modules_lie_beside_the_packages():
    assert len([path for path in FILES.values() if path.parent == PACKAGE]) <= 8


def is_in(path: Path, places: tuple[str, ...]) -> bool:
    within = path.relative_to(PACKAGE)
    return any(Path(place) in (within, *within.parents) for place in places)


def test_tensorflow_stays_where_it_belongs():
    outside = [path for path in FILES.values() if not is_in(path, ABOVE_TENSORFLOW)]
    found = [
        found
        for path in outside
        for found in imports_of(path, when_loaded=is_in(path, TENSORFLOW_WHEN_CALLED))
        if found.is_of("tensorflow", "keras")
    ]
    assert not list(map(str, found))


@pytest.mark.parametrize("place", [*ABOVE_TENSORFLOW, *TENSORFLOW_WHEN_CALLED])
def test_nothing_is_excepted_that_does_without_tensorflow(place):
    paths = [path for path in FILES.values() if is_in(path, (place,))]
    assert any(found.is_of("tensorflow", "keras") for path in paths for found in imports_of(path))


@pytest.mark.parametrize("layer", LAYERS)
def test_tff_stays_where_it_belongs(layer):
    if layer.partition("/")[0] not in ABOVE_TFF:
        assert not [str(found) for found in imports_of_layer(layer) if found.is_of("tensorflow_federated")]


def test_the_registry_and_the_command_line_do_not_import_numpy():
    layers = ["api", "cli", "errors", "registry", "scalars"]
    assert not [str(found) for layer in layers for found in imports_of_layer(layer) if found.is_of("numpy")]


def test_fedplug_does_not_know_its_plugins():
    plugins = {path.name for folder in (ROOT / "plugins").iterdir() for path in folder.glob("fedplug_*")}
    assert plugins
    assert not [str(found) for layer in LAYERS for found in imports_of_layer(layer) if found.is_of(*plugins)]


def sources_in(folder):
    """Ours: without tests, and without what is installed in the environment that a plugin may have."""
    return [path for path in (ROOT / folder).rglob("*.py") if not {"tests", ".venv"} & set(path.parts)]


CHECK_COMMAND = PACKAGE / "cli" / "plugins_check.py"


def test_nothing_but_tests_and_the_check_command_imports_the_conformance_suite():
    paths = [
        path
        for folder in ("fedplug", "plugins", "examples", "benchmarks")
        for path in sources_in(folder)
        if path.parent != PACKAGE / "testing" and path != CHECK_COMMAND
    ]
    found = [found for path in paths for found in imports_of(path)]
    found += imports_of(CHECK_COMMAND, when_loaded=True)  # it imports the suite when it is called
    assert not [str(each) for each in found if each.target.startswith("fedplug.testing")]


def test_a_plugin_uses_public_modules_only():
    names = [found for path in sources_in("plugins") for found in imports_of(path) if found.is_of("fedplug")]
    assert names
    assert not [str(found) for found in names if "._" in f".{found.module}.{found.name}"]
