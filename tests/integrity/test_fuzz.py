"""The fuzzer finds nothing, covers every command, and would notice what it looks for."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from faudit.cli.main import COMMANDS
from tests.support.child import Answer
from tests.support.fuzz import FLAGGED, LINES, changed, differ_in_timings_alone, general, same_or_told, snapshot
from tests.support.paths import ROOT


@pytest.mark.slow
def test_three_hundred_cases_of_bad_input_find_nothing() -> None:
    words = [sys.executable, str(ROOT / "scripts" / "fuzz"), "300", "--seed", "0"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "300 cases, seed 0: 0 failed" in done.stdout, done.stdout + done.stderr


def test_every_command_is_fuzzed() -> None:
    assert set(FLAGGED) == set(COMMANDS)


GOOD = Answer(2, "", "faudit: what is wrong\n", 0.1)


@pytest.mark.parametrize(
    ("answer", "words", "told"),
    [
        (Answer(70, "", "Traceback (most recent call last):\n", 0.1), [], "expected an exit code of [0, 2], got 70"),
        (Answer(2, "", "faudit: got KeyError('gamma')\n", 0.1), [], "Python shows through"),
        (Answer(-9, "", "", 90.0, hung=True), [], "no answer after 90 s"),
        (Answer(2, "", "faudit: x\n" * (LINES + 1), 0.1), [], "lines on stderr"),
        (Answer(2, "", "", 0.1), [], "exit code 2 without a word"),
        (Answer(0, '{"a": NaN}', "", 0.1), ["--json"], "stdout is no strict JSON"),
    ],
)
def test_a_bad_answer_is_noticed(answer: Answer, words: list[str], told: str) -> None:
    assert not list(general(GOOD, words, (0, 2)))
    assert any(told in problem for problem in general(answer, words, (0, 2)))


def test_a_file_that_a_command_does_not_own_is_noticed(tmp_path: Path) -> None:
    for name in ("own", "other", "gone"):
        (tmp_path / name).write_text("before")
    (tmp_path / "link").symlink_to("own")
    before = snapshot(tmp_path)
    assert not list(changed(before, before, ()))
    for name in ("own", "other", ".own.1.tmp"):
        (tmp_path / name).write_text("after")
    (tmp_path / "gone").unlink()
    (tmp_path / "link").unlink()
    (tmp_path / "link").write_text("no link")
    assert list(changed(before, snapshot(tmp_path), ("own", "link"))) == [
        "left .own.1.tmp behind",
        "gone was removed",
        "link was a link and is file",
        "other was changed",
    ]


def test_another_answer_on_a_spoiled_file_is_noticed(tmp_path: Path) -> None:
    usual = Answer(1, "needs walk-back", "", 0.1)
    assert not same_or_told(usual, usual, tmp_path, "") and not same_or_told(GOOD, usual, tmp_path, "")
    assert same_or_told(Answer(0, "trustworthy", "", 0.1), usual, tmp_path, "")
    assert same_or_told(Answer(1, "another reason", "", 0.1), usual, tmp_path, "")


def test_an_edited_timing_is_told_from_any_other_edit(tmp_path: Path) -> None:
    spoiled, sound = tmp_path / "rows.jsonl", tmp_path / "sound.jsonl"
    sound.write_text('{"epoch": 0, "gamma": [0.1], "seconds": 1.0, "probe_seconds": 0.1}\n')
    for text, alone in {
        '{"epoch": 0, "gamma": [0.1], "seconds": 2.0, "probe_seconds": "x"}': True,
        '{"epoch": 0, "gamma": [0.2], "seconds": 2.0, "probe_seconds": 0.1}': False,
        '{"epoch": 0, "gamma": [0.1], "seconds": 2.0, "probe_seconds": 0.1': False,
        "[]": False,
    }.items():
        spoiled.write_text(f"{text}\n")
        assert differ_in_timings_alone(spoiled, sound) is alone
