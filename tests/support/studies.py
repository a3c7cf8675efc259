"""Tiny study files, and `faudit sweep` on one of them in this process."""

from __future__ import annotations

from pathlib import Path

import pytest

from faudit.cli.main import main

TINY_STUDY = 'data = "digits"\nepochs = 2\nwidth = 8\ndepth = 2\nbatch-size = 256\n'  # ``tests.support.runs.TINY``
TWO_RULES = TINY_STUDY + '[grid]\nrule = ["bp", "dfa"]\n'


def sweep(capsys: pytest.CaptureFixture[str], tmp_path: Path, text: str, *flags: str) -> tuple[int, str, str]:
    """The exit code, and what was said on stdout and stderr; the store is ``tmp_path / "runs"``."""
    path = tmp_path / "study.toml"
    path.write_text(text)
    code = main(["sweep", str(path), "--runs", str(tmp_path / "runs"), *flags])
    out, err = capsys.readouterr()
    return code, out, err
