"""The files for pip, conda and the code host agree with the packages. `make lint` checks schemas."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import wheels
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
WORKFLOWS = [path.read_text() for path in sorted((ROOT / ".github/workflows").glob("*.yml"))]


def test_every_action_is_pinned_to_a_commit_and_names_its_version():
    used = re.findall(r"uses: (.*)", "".join(WORKFLOWS))
    assert used
    assert [action for action in used if not re.fullmatch(r"[\w./-]+@[0-9a-f]{40} # v[\d.]+", action)] == []


def test_workflows_may_only_read_but_for_the_identity_of_the_upload():
    for text in WORKFLOWS:
        assert "\npermissions:\n  contents: read\n" in text
        assert set(re.findall(r"([\w-]+): write", text)) <= {"id-token"}
        assert "secrets." not in text


def test_wheels_are_built_for_all_pythons():
    built = re.findall(r"cp3(\d+)-", PROJECT["tool"]["cibuildwheel"]["build"])
    assert [(3, int(minor)) for minor in built] == [
        (3, minor) for minor in range(wheels.OLDEST[1], wheels.NEWEST[1] + 1)
    ]


def test_the_recipe_has_the_version_and_the_dependencies_of_the_package():
    recipe = (ROOT / "recipe/recipe.yaml").read_text()
    assert f"version: {PROJECT['project']['version']}\n" in recipe
    run = re.findall(r"- ([\w-]+) ([<>=\d.,]+)", recipe[recipe.index("  run:") : recipe.index("tests:")])
    needed = {Requirement(text) for text in PROJECT["project"]["dependencies"]}
    assert {Requirement(f"{name.replace('_', '-')}{version}") for name, version in run} == needed


def test_an_installation_without_a_compiler_ends_with_a_line_that_says_so(tmp_path):
    build = "import sys, scikit_build_core.build as b; b.build_wheel(sys.argv[1], {'build-dir': sys.argv[1]})"
    command = [sys.executable, "-I", "-c", build, tmp_path]
    nothing = {"PATH": "", "HOME": os.environ["HOME"]}
    done = subprocess.run(
        command,
        cwd=ROOT,
        env=nothing,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode
    last = done.stdout.rstrip().splitlines()[-1]
    assert "no wheel for this system and Python" in last
    assert "needs a C++17 compiler" in last
