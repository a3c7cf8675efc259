"""Links lead somewhere, commands exist, numbers come from their logs, and sentences are short."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from faudit.cli.main import main, parsed, parser
from tests.support.paths import ROOT

PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), *(ROOT / "evidence").glob("*.md")])
LONGEST = 34  # words of a sentence


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        if target.startswith(("http://", "https://")):
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path) if path else page
        assert file.exists(), f"{page.name} links to {target}"
        if anchor:
            heads = re.findall(r"^#+ (.+)$", file.read_text(), flags=re.MULTILINE)
            assert anchor in [re.sub(r"[^\w -]", "", head).strip().lower().replace(" ", "-") for head in heads], target


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_in_blocks_of_code_parse(page: Path) -> None:
    blocks = re.findall(r"^```\n(.*?)^```", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    commands = [words for block in blocks for words in re.findall(r"^faudit ([^\n#]+)", block, flags=re.MULTILINE)]
    assert commands or page != ROOT / "README.md"
    for words in commands:
        assert parsed(parser(), shlex.split(words.replace("…", ""))).command


def test_the_example_of_the_page_on_models_runs(capsys: pytest.CaptureFixture[str]) -> None:
    code = (ROOT / "docs" / "models.md").read_text().split("```python\n")[1].split("```")[0]
    exec(code, {})
    assert capsys.readouterr().out.startswith("tap")


def test_the_example_of_the_page_on_loops_runs(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    code = (ROOT / "docs" / "watch.md").read_text().split("```python\n")[1].split("```")[0]
    exec(code, {})
    assert "faudit.control" in capsys.readouterr().out and (tmp_path / "runs").is_dir()


def test_the_example_of_the_page_on_python_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    code = (ROOT / "docs" / "python.md").read_text().split("```python\n")[1].split("```")[0]
    exec(code, {})
    assert capsys.readouterr().out.startswith("4 runs in runs: 4 done") and (tmp_path / "gamma.json").exists()


def test_the_examples_of_the_page_on_own_members_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    own, out = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "own.md").read_text(), flags=re.DOTALL)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(own)
    words = ["train", "--rule", "mine:ScaledDFA", "--factor", "2", "--epochs", "1", "--width", "8", "--depth", "1"]
    assert main(words) == 0 and "resmlp-ScaledDFA-digits-s42-" in capsys.readouterr().out
    exec(out, {})
    mine, runs = capsys.readouterr().out.split()
    assert mine == runs


def test_the_tables_hold_the_numbers_of_the_logs() -> None:
    script = ROOT / "scripts" / "readme-tables"
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(("page", "lines"), [("README.md", 110), ("CONTRIBUTING.md", 60)])
def test_a_page_that_everybody_reads_is_short(page: str, lines: int) -> None:
    assert len((ROOT / page).read_text().splitlines()) <= lines


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_sentences_are_short(page: Path) -> None:
    """Outside code and tables: a reader whose first language is not English reads each sentence once."""
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    prose = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("|"))
    for paragraph in re.split(r"\n\s*\n|\n(?=[-#>*])", prose):
        for sentence in re.split(r"(?<=[.!?:;])\s+", " ".join(paragraph.split())):
            assert len(sentence.split()) <= LONGEST, f"{page.name}: {sentence}"


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
