"""The files for packaging, CI and citation agree with the package and with each other."""

from __future__ import annotations

import re
import shlex
from typing import Any

import pytest
import tomli
import yaml  # type: ignore[import-untyped]  # it has no types of its own
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

import faudit
from tests.support.paths import ROOT

PROJECT = tomli.loads((ROOT / "pyproject.toml").read_text())["project"]
PYTHONS = re.findall(r"Python :: (3\.\d+)", "\n".join(PROJECT["classifiers"]))
PINS = [
    Requirement(line)
    for line in (ROOT / "constraints.txt").read_text().splitlines()
    if line and not line.startswith("#")
]


def yaml_of(name: str) -> Any:
    return yaml.safe_load((ROOT / name).read_text())


def environment(python: str) -> dict[str, str]:
    return {"python_version": python, "extra": ""}


def asked_for(python: str) -> list[Requirement]:
    """What the package and all its extras name, as far as it applies to this Python."""
    named = [*PROJECT["dependencies"], *(one for extra in PROJECT["optional-dependencies"].values() for one in extra)]
    found = [one for one in map(Requirement, named) if one.name != PROJECT["name"]]
    return [one for one in found if one.marker is None or one.marker.evaluate(environment(python))]


def pinned(python: str) -> dict[str, list[Version]]:
    """The exact versions that apply to this Python, by name."""
    found: dict[str, list[Version]] = {}
    for pin in PINS:
        if pin.marker is None or pin.marker.evaluate(environment(python)):
            (specifier,) = pin.specifier
            assert specifier.operator == "==", f"{pin} is not an exact version"
            found.setdefault(canonicalize_name(pin.name), []).append(Version(specifier.version))
    return found


@pytest.mark.parametrize("python", PYTHONS)
def test_every_dependency_has_one_exact_version_within_its_range(python: str) -> None:
    versions = pinned(python)
    assert [name for name, several in versions.items() if len(several) > 1] == []
    for one in asked_for(python):
        assert canonicalize_name(one.name) in versions, f"{one} has no line in constraints.txt for Python {python}"
        assert one.specifier.contains(versions[canonicalize_name(one.name)][0]), one


def test_ci_runs_make_on_every_python_that_the_package_declares() -> None:
    workflow = yaml_of(".github/workflows/ci.yml")
    assert workflow["jobs"]["test"]["strategy"]["matrix"]["python"] == PYTHONS
    assert PROJECT["requires-python"] == f">={PYTHONS[0]}"
    targets = re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE)
    for job in workflow["jobs"].values():
        commands = [shlex.split(step["run"]) for step in job["steps"] if "run" in step]
        assert commands and all(words[0] == "make" and words[1] in targets for words in commands)
        for step in job["steps"]:
            assert re.fullmatch(r"actions/[\w-]+@v\d+", step.get("uses", "actions/none@v1")), step


def test_every_hook_runs_a_tool_of_the_environment() -> None:
    tools = {"python", *(one.name for one in asked_for(PYTHONS[-1]))}
    (local,) = yaml_of(".pre-commit-config.yaml")["repos"]
    assert local["repo"] == "local"
    for hook in local["hooks"]:
        assert hook["language"] == "system" and shlex.split(hook["entry"])[0] in tools, hook["id"]


def test_the_citation_is_of_this_version() -> None:
    citation = yaml_of("CITATION.cff")
    assert citation["cff-version"] == "1.2.0" and citation["title"] == PROJECT["name"]
    assert citation["version"] == faudit.__version__ and citation["license"] == PROJECT["license"]
    assert citation["authors"] == PROJECT["authors"] and citation["keywords"] == PROJECT["keywords"]


def test_the_changelog_has_the_form_of_keep_a_changelog() -> None:
    heads = re.findall(r"^##+ .+$", (ROOT / "CHANGELOG.md").read_text(), flags=re.MULTILINE)
    versions = [head for head in heads if head.startswith("## ")]
    assert versions[0] == "## [Unreleased]" and versions[1].startswith(f"## [{faudit.__version__}] - ")
    kinds = ("Added", "Changed", "Deprecated", "Removed", "Fixed", "Security")
    assert {head for head in heads if head not in versions} <= {f"### {kind}" for kind in kinds}
