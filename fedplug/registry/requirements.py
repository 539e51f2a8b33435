"""Checks whether a plugin was made for this Python, this fedplug and the packages that are installed."""

from __future__ import annotations

import importlib.metadata
import platform

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import InvalidSpecifier, SpecifierSet

__all__ = ["unsatisfied"]


def unsatisfied(distribution: str) -> tuple[str, str] | None:
    """Returns a requirement in the metadata of a distribution that does not hold here, and the remedy.

    A required package that is not installed is no reason: another distribution may have the same modules, and
    importing the plugin says which one is missing.
    """
    try:
        found = importlib.metadata.distribution(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None
    python = platform.python_version()
    wanted = ",".join(found.metadata.get_all("Requires-Python") or ())
    if wanted and not _admits(wanted, python):
        return f"requires Python {wanted}, and this is {python}", f"`pip install --upgrade {distribution}`"
    if tags := _tags_of_another_python(found):
        reason = f"was built for {tags}, and this is Python {python}"
        return reason, f"`pip install --force-reinstall {distribution}`"
    for line in found.requires or ():
        try:
            requirement = Requirement(line)
            installed = importlib.metadata.version(requirement.name)
        except (InvalidRequirement, importlib.metadata.PackageNotFoundError):
            continue
        if requirement.marker and not requirement.marker.evaluate({"extra": ""}):
            continue
        if not _admits(str(requirement.specifier), installed):
            reason = f"requires {requirement.name}{requirement.specifier}, installed is {installed}"
            return reason, f"`pip install --upgrade {requirement.name} {distribution}`"
    return None


def _admits(specifiers: str, version: str) -> bool:
    try:
        return SpecifierSet(specifiers).contains(version, prereleases=True)
    except InvalidSpecifier:
        return True  # pip refuses such metadata


def _tags_of_another_python(found: importlib.metadata.Distribution) -> str:
    """Returns the tags of a wheel for other Pythons, such as "cp310-cp310". Empty if this Python is one."""
    from packaging.tags import sys_tags

    lines = (found.read_text("WHEEL") or "").splitlines()
    tags = [line.partition(":")[2].strip().rpartition("-")[0] for line in lines if line.startswith("Tag:")]
    if not tags or any(tag.startswith("py3-none") for tag in tags):
        return ""
    here = {f"{tag.interpreter}-{tag.abi}" for tag in sys_tags()}
    return "" if here.intersection(tags) else ", ".join(dict.fromkeys(tags))
