"""The files for the code host and for conda agree with the packages. `make lint` checks their schemas."""

import re
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
