"""Who may include whom in `csrc/`, read from the sources."""

from __future__ import annotations

import re
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

CSRC = Path(__file__).parents[2] / "csrc"
INCLUDE = re.compile(r'^\s*#\s*include\s+([<"])([^>"]+)[>"]', re.MULTILINE)

# Each folder, the folders it may include, and the libraries besides the C++ standard one.
MAY_INCLUDE = {
    "core": ({"core"}, ()),
    "cuda": ({"core", "cuda"}, ("cuda",)),
    "tf": ({"core", "cuda", "tf"}, ("tensorflow", "Eigen")),
    "python": ({"core", "cuda", "python"}, ("pybind11",)),
    "decode": (set(), ()),
    "tests": ({"core", "cuda", "decode", "tests"}, ("cuda",)),
}
# Each folder of the core, and those of its folders that it may include (the contracts, core/*.h, all may).
MAY_INCLUDE_IN_CORE = {
    "base": {"base"},
    "simd": {"base", "simd"},
    "philox": {"base", "simd", "philox"},
    "codes/values": {"base", "simd", "philox", "codes/values"},
    "codes/rans": {"base", "simd", "codes/rans"},
    "codes/indices": {"base", "codes/indices"},
    "codes/difference": {"base", "simd", "codes/difference", "codes/indices"},
    "topk": {"base", "simd", "topk"},
    "matrix": {"base", "simd", "codes/values", "matrix"},
}
# How a header tells its library; what is not listed is the standard library or the compiler's intrinsics.
LIBRARIES = {
    "tensorflow": re.compile(r"(tensorflow|tsl|absl|google)/"),
    "Eigen": re.compile(r"(unsupported/)?Eigen/|third_party/"),
    "cuda": re.compile(r"cuda|cub/|thrust/"),
    "pybind11": re.compile(r"pybind11/|Python\.h|numpy/"),
}


def sources_of(folder):
    return [
        path for path in sorted((CSRC / folder).rglob("*")) if path.suffix in {".h", ".cc", ".cu", ".cuh"}
    ]


def library_of(header):
    return next((name for name, pattern in LIBRARIES.items() if pattern.match(header)), None)


def is_allowed(folder, header):
    folders, libraries = MAY_INCLUDE[folder]
    if header.partition("/")[0] in MAY_INCLUDE:
        return header.partition("/")[0] in folders
    return library_of(header) in (None, *libraries)


@pytest.mark.parametrize(
    ("folder", "header", "allowed"),
    [
        ("core", "vector", True),
        ("core", "immintrin.h", True),
        ("core", "cuda/block.h", False),
        ("core", "cuda_runtime.h", False),
        ("core", "unsupported/Eigen/CXX11/Tensor", False),
        ("cuda", "cuda_runtime.h", True),
        ("cuda", "tensorflow/core/util/gpu_kernel_helper.h", False),
        ("tf", "pybind11/pybind11.h", False),
        ("python", "tensorflow/core/framework/op.h", False),
        ("python", "tf/op.h", False),
    ],
)
def test_the_rule_itself(folder, header, allowed):
    assert is_allowed(folder, header) == allowed


def test_every_folder_has_its_rule():
    assert {path.name for path in CSRC.iterdir() if path.is_dir()} <= set(MAY_INCLUDE)


@pytest.mark.parametrize("folder", MAY_INCLUDE)
def test_a_folder_includes_only_folders_below_it(folder):
    sources = sources_of(folder)
    assert sources
    wrong = [
        f"{path.relative_to(CSRC)} includes {header}"
        for path in sources
        for _, header in INCLUDE.findall(path.read_text(encoding="utf-8"))
        if not is_allowed(folder, header)
    ]
    assert not wrong


@pytest.mark.parametrize("folder", MAY_INCLUDE)
def test_our_own_headers_are_included_by_their_path_in_csrc(folder):
    for path in sources_of(folder):
        for quote, header in INCLUDE.findall(path.read_text(encoding="utf-8")):
            if quote == '"' and library_of(header) is None:
                assert (CSRC / header).is_file(), f"{path.relative_to(CSRC)} includes {header}"


def test_every_folder_of_the_core_has_its_rule():
    folders = {path.parent.relative_to(CSRC / "core").as_posix() for path in sources_of("core")}
    assert folders - {"."} == set(MAY_INCLUDE_IN_CORE)


@pytest.mark.parametrize("folder", MAY_INCLUDE_IN_CORE)
def test_a_folder_of_the_core_includes_only_folders_below_it(folder):
    wrong = []
    for path in sources_of(f"core/{folder}"):
        for _, header in INCLUDE.findall(path.read_text(encoding="utf-8")):
            inner = "/".join(header.split("/")[1:-1])  # of "core/codes/rans/rans.h": "codes/rans"
            if header.startswith("core/") and inner and inner not in MAY_INCLUDE_IN_CORE[folder]:
                wrong.append(f"{path.relative_to(CSRC)} includes {header}")
    assert not wrong


def test_no_source_includes_itself_by_way_of_others():
    includes = {}
    for path in (path for folder in MAY_INCLUDE for path in sources_of(folder)):
        headers = [header for _, header in INCLUDE.findall(path.read_text(encoding="utf-8"))]
        includes[path.relative_to(CSRC).as_posix()] = [h for h in headers if (CSRC / h).is_file()]
    TopologicalSorter(includes).prepare()  # raises CycleError


def test_the_library_does_not_hold_the_reference():
    assert list((CSRC / "tests" / "reference").glob("*.cc"))
    assert "reference" not in (CSRC / "core" / "CMakeLists.txt").read_text(encoding="utf-8")
