"""The commands of the README run in its order, in one folder, as a new user would type them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.pages import blocks_of
from tests.support.paths import ROOT
from tests.support.terminal import in_terminal

# The two targets of make are CI itself; the demo and a paper have tests of their own; a server does not end.
LEFT_OUT = ("make demo", "make test", ". .venv/bin/activate", "faudit reproduce", "faudit serve")


@pytest.mark.slow
def test_the_commands_of_the_readme_work_as_printed_one_after_the_other(tmp_path: Path) -> None:
    commands = [line for block in blocks_of(ROOT / "README.md") if block.language == "sh" for line in block.commands()]
    assert all(any(line.startswith(words) for line in commands) for words in LEFT_OUT), "each of them is still there"
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    ran = [line for line in commands if not line.startswith(LEFT_OUT)]
    assert {line.split()[1] for line in ran} >= {"train", "show", "audit", "sweep", "report", "plot", "compare"}
    for line in ran:
        done = in_terminal(line, tmp_path)
        assert done.code == (1 if line.startswith("faudit audit") else 0), f"{line}: {done}"
    assert (tmp_path / "report.html").stat().st_size > 100_000 and (tmp_path / "my.pdf").exists()
