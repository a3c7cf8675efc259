"""Links lead somewhere, commands exist, and every number in the README is its log's."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys

import pytest

from faudit.cli.main import parsed, parser
from tests.support.paths import ROOT

PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), *(ROOT / "evidence").glob("*.md")])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: object) -> None:
    from pathlib import Path

    assert isinstance(page, Path)
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        if target.startswith(("http://", "https://")):
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path) if path else page
        assert file.exists(), f"{page.name} links to {target}"
        if anchor:
            heads = re.findall(r"^#+ (.+)$", file.read_text(), flags=re.MULTILINE)
            assert anchor in [re.sub(r"[^\w -]", "", head).strip().lower().replace(" ", "-") for head in heads], target


def test_commands_in_the_readme_parse() -> None:
    found = re.findall(r"^(?:\$ )?faudit ([^\n#]+)", (ROOT / "README.md").read_text(), flags=re.MULTILINE)
    assert len(found) >= 5
    for words in found:
        assert parsed(parser(), shlex.split(words)).command


def test_the_page_on_foreign_models_runs(capsys: pytest.CaptureFixture[str]) -> None:
    code = (ROOT / "docs" / "foreign.md").read_text().split("```python\n")[1].split("```")[0]
    exec(code, {})
    assert capsys.readouterr().out.startswith("tap")


def test_the_readmes_numbers_are_those_of_the_logs() -> None:
    script = ROOT / "scripts" / "readme-tables"
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    names = ("README.md", "docs/papers.md", "docs/protocol.md", "docs/sweeps.md")
    pages = "\n".join((ROOT / page).read_text() for page in names)
    assert done.stdout.rstrip("\n") == pages.rstrip("\n"), "run scripts/readme-tables --write"


def test_contributing_is_short() -> None:
    assert len((ROOT / "CONTRIBUTING.md").read_text().splitlines()) <= 60


def test_nothing_of_this_machine_is_in_the_repo() -> None:
    """Neither a registry's address nor an absolute path."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False).stdout
    names = [name for name in listed.split("\0") if name and not name.endswith(".gz")]
    if not names:
        pytest.skip("not a git checkout")
    for name in names:
        text = (ROOT / name).read_text(errors="replace")
        for word in ("/ro" + "ot/", "/wo" + "rk/", "/opt/" + "pypi", "index" + "-url"):
            assert word not in text, f"{name} holds {word}"
