"""A file that cannot be imported gets one line, and nothing is written."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from faudit.errors import FauditError, StoreError
from faudit.papers.faeval.import_ import import_file, import_files
from tests.support.faeval import entry, original, penalty_entry, put


def changed(*place: Any, to: Any) -> Callable[[dict[str, Any]], None]:
    """An edit that puts a value at a place of the document, or with ... takes away what is there."""

    def edit(document: dict[str, Any]) -> None:
        inner: Any = document
        for step in place[:-1]:
            inner = inner[step]
        inner[place[-1]] = to
        if to is ...:
            del inner[place[-1]]

    return edit


def nested(depth: int) -> Any:
    value: Any = 0
    for _ in range(depth):
        value = [value]
    return value


OWN = {"dfa_log": {"rule": "dfa", "data": "cifar10", "epochs": 3}}

BAD_DOCUMENTS: dict[str, tuple[Callable[[dict[str, Any]], None], str]] = {
    "null for every log": (changed("dfa_log", to=None), "a log that is not null under bp_log, dfa_log, fa_log, log"),
    "no log": (changed("dfa_log", to=...), "a log that is not null"),
    "empty log": (changed("dfa_log", to=[]), r"dfa_log: expected a list of 1 to 1000000, got \[\]"),
    "log is text": (changed("dfa_log", to="many"), r"dfa_log: expected a list of 1 to 1000000, got 'many'"),
    "endless log": (changed("dfa_log", to=[0] * 1_000_001), r"dfa_log: expected a list of 1 to 1000000, got \[0, 0"),
    "entry is a list": (changed("dfa_log", 1, to=[1]), r"dfa_log\[1\]: expected an object with 'epoch', got \[1\]"),
    **{
        f"no {name}": (changed("dfa_log", 2, name, to=...), rf"dfa_log\[2\]: expected an object with '{name}'")
        for name in entry(0)
    },
    "short list": (changed("dfa_log", 2, "hidden_norms", to=[1.0] * 4), r"dfa_log\[2\], hidden_norms: expected 5 num"),
    "long list": (changed("dfa_log", 0, "bp_grad_norms_F", to=[1.0] * 6), r"\[0\], bp_grad_norms_F: expected 5 num"),
    "empty list": (changed("dfa_log", 0, "hidden_norms", to=[]), r"\[0\], hidden_norms: expected a list"),
    "number for a list": (changed("dfa_log", 1, "hidden_norms", to=4.0), r"\[1\], hidden_norms: expected a list"),
    "another depth": (changed("depth", to=3), "hidden_norms: expected 4 numbers"),
    "depth is text": (changed("depth", to="deep"), "depth: expected a whole number"),
    "text": (changed("dfa_log", 1, "acc_eval", to="0.5"), r"dfa_log\[1\], acc_eval: expected a number .* got '0.5'"),
    "text in a list": (
        changed("dfa_log", 1, "hidden_norms", 3, to="x" * 9999),
        r"dfa_log\[1\], hidden_norms\[3\]: expected a number from 0 to inf, got 'xx",
    ),
    "truth": (changed("dfa_log", 1, "loss_eval", to=True), "loss_eval: expected a number .* got True"),
    "truth in a list": (changed("dfa_log", 1, "bp_grad_norms_F", 0, to=False), r"bp_grad_norms_F\[0\]: expected a num"),
    "text for gamma": (changed("dfa_log", 1, "gamma_dfa", to="high"), "gamma_dfa: expected a number"),
    "negative norm": (changed("dfa_log", 1, "hidden_norms", 0, to=-1e-9), r"hidden_norms\[0\]: expected .* got -1e-09"),
    "negative infinity": (
        changed("dfa_log", 1, "hidden_norms", 0, to=-math.inf),
        "expected a number from 0 .* got -inf",
    ),
    "too large to be a float": (changed("dfa_log", 1, "hidden_norms", 0, to=10**400), "expected a number"),
    "percent": (changed("dfa_log", 1, "acc_eval", to=45.2), "acc_eval: expected a number from 0 to 1, got 45.2"),
    "an epoch twice": (
        changed("dfa_log", 2, "epoch", to=1),
        r"\[2\], epoch: expected more than the 1 before it, got 1",
    ),
    "epochs go back": (changed("dfa_log", 1, "epoch", to=5), r"\[2\], epoch: expected more than the 5 before it"),
    "half an epoch": (changed("dfa_log", 1, "epoch", to=1.5), "epoch: expected a whole number .* got 1.5"),
    "epoch is truth": (changed("dfa_log", 1, "epoch", to=True), "epoch: expected a whole number .* got True"),
    "epoch is text": (changed("dfa_log", 1, "epoch", to="1"), "epoch: expected a whole number .* got '1'"),
    "epoch below 0": (changed("dfa_log", 0, "epoch", to=-1), "epoch: expected a whole number .* got -1"),
    "epoch beyond all": (changed("dfa_log", 3, "epoch", to=10**30), "epoch: expected a whole number"),
    "config is a list": (changed("config", to=[]), "config: expected an object"),
    "seed is text": (changed("config", "seed", to="abc"), "seed: expected a whole number .* got 'abc'"),
    "no samples": (changed("config", "eval_samples", to=0), "eval_samples: expected a whole number from 1"),
    "d_hidden is a list": (changed("d_hidden", to=[256]), "width: expected a whole number"),
    "nested deep": (changed("extra", to=nested(40)), "levels of nesting"),
    "own settings are text": (changed("config", "faudit", to="all"), "config, faudit: expected an object"),
    "own settings lack a log": (changed("config", "faudit", to={}), "faudit: expected an object with 'dfa_log'"),
    "own settings of another rule": (
        changed("config", "faudit", to={"dfa_log": {"rule": "bp"}}),
        "dfa_log, rule: expected 'dfa', got 'bp'",
    ),
    "own settings unknown": (
        changed("config", "faudit", to={"dfa_log": {**OWN["dfa_log"], "warp": 9, "lr": "fast"}}),
        "unknown setting 'warp'.*; lr: expected",
    ),
    "own settings of fewer epochs": (
        changed("config", "faudit", to={"dfa_log": {**OWN["dfa_log"], "epochs": 2}}),
        "at least 3 epochs",
    ),
    "own settings of a net without a depth": (
        changed("config", "faudit", to={"dfa_log": {**OWN["dfa_log"], "net": "cnn"}}),
        "a depth of at least 2",
    ),
}


def refused(path: Path, runs: Path) -> str:
    """The one line that an import is refused with; nothing may have been written."""
    with pytest.raises(FauditError) as caught:
        import_file(path, runs)
    assert "\n" not in str(caught.value) and path.name in str(caught.value) and len(str(caught.value)) < 1000
    assert not runs.exists()
    return str(caught.value)


@pytest.mark.parametrize("name", BAD_DOCUMENTS)
def test_a_bad_document_gets_one_line_and_nothing_is_written(tmp_path: Path, name: str) -> None:
    edit, expected = BAD_DOCUMENTS[name]
    document = original()
    if "log" not in name.split() and "own" not in name.split():  # a good log beside the bad one is not written either
        document["bp_log"] = [entry(epoch) for epoch in range(4)]
    edit(document)
    said = refused(put(document, tmp_path / "snapshot_evolution_s42.json"), tmp_path / "runs")
    assert re.search(expected, said), said


@pytest.mark.parametrize("name", ["h_L_norm", "g_2_norm", "acc_eval"])
@pytest.mark.parametrize("value", ["text", True, -1.0, [1.0]])
def test_a_bad_penalty_entry_gets_one_line(tmp_path: Path, name: str, value: Any) -> None:
    document: dict[str, Any] = {"config": {}, "log": [penalty_entry(0), {**penalty_entry(1), name: value}]}
    said = refused(put(document, tmp_path / "dfa_pen_lam0.01_s42.json"), tmp_path / "runs")
    assert f"log[1], {name}: expected a number" in said
    del document["log"][1][name]
    said = refused(put(document, tmp_path / "dfa_pen_lam0.01_s42.json"), tmp_path / "runs")
    assert f"log[1]: expected an object with '{name}'" in said


@pytest.mark.parametrize("lam", [-0.1, math.inf, True, "strong"])
def test_a_penalty_that_cannot_be_gets_one_line(tmp_path: Path, lam: Any) -> None:
    document = {"config": {"lam": lam}, "log": [penalty_entry(0)]}
    assert "penalty: expected" in refused(put(document, tmp_path / "dfa_pen_s42.json"), tmp_path / "runs")


@pytest.mark.parametrize(
    ("name", "document", "expected"),
    [
        ("evolution.json", {**original(), "config": {}}, "'seed' there or in the file's name"),
        ("dfa_pen_s42.json", {"log": [penalty_entry(0)]}, "'lam' there or in the file's name"),
        ("snapshot_fa_canonical_s42.json", {"fa_log": [entry(0)]}, "snapshot_vit or snapshot_synth in the name"),
        ("snapshot_vit_s42.json", original(), "expected an object with 'hidden_norms_cls'"),
    ],
)
def test_a_file_that_does_not_say_what_it_is_gets_one_line(
    tmp_path: Path, name: str, document: dict[str, Any], expected: str
) -> None:
    assert expected in refused(put(document, tmp_path / "files" / name), tmp_path / "runs")


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", "is not JSON"),
        (b'{"dfa_log": [', "is not JSON"),
        (b"epoch,acc\n0,0.1\n", "is not JSON"),
        (b"[1, 2]", "expected an object"),
        (b"null", "expected an object"),
        (b'"dfa_log"', "expected an object"),
        (b'{"runs": []}', "a log that is not null"),
        (b"\xff\xfe{\x00}\x00", "is not JSON: 'utf-8'"),
        (b'{"dfa_log": "\xe9"}', "is not JSON: 'utf-8'"),
        (b"[" * 200_000, "is not JSON"),
        (b'{"dfa_log": ' + b"[" * 200_000, "is not JSON"),
        (b'{"dfa_log": [{"epoch": ' + b"9" * 5000 + b"}]}", "is not JSON|expected a whole number"),
    ],
)
def test_what_is_no_document_of_the_paper_gets_one_line(tmp_path: Path, content: bytes, expected: str) -> None:
    path = tmp_path / "snapshot_evolution_s42.json"
    path.write_bytes(content)
    said = refused(path, tmp_path / "runs")
    assert re.search(expected, said), said


def test_a_hundred_megabytes_are_refused_unread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "snapshot_evolution_s42.json"
    with open(path, "wb") as file:
        file.truncate(100 * 2**20)

    def opened(*_: Any) -> bytes:
        raise AssertionError("read")

    monkeypatch.setattr(Path, "read_bytes", opened)
    assert "expected at most 16777216 bytes (16 MB), got 104857600" in refused(path, tmp_path / "runs")


def test_what_cannot_be_read_gets_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "expected a file, got none" in refused(tmp_path / "absent.json", tmp_path / "runs")
    (tmp_path / "folder.json").mkdir()
    assert "expected a file, got none" in refused(tmp_path / "folder.json", tmp_path / "runs")
    path = put(original(), tmp_path / "snapshot_evolution_s42.json")

    def denied(*_: Any) -> bytes:
        raise PermissionError(13, os.strerror(13))

    monkeypatch.setattr(Path, "read_bytes", denied)  # injected: tests may run as root, whom permission bits do not bind
    assert "Permission denied. Give yourself permission" in refused(path, tmp_path / "runs")


def test_a_good_file_beside_bad_ones_is_still_used(tmp_path: Path) -> None:
    paths = [
        put("{", tmp_path / "broken_s42.json"),
        put(original(), tmp_path / "snapshot_evolution_s42.json"),
        tmp_path / "absent.json",
    ]
    runs, problems = import_files(paths, tmp_path / "runs")
    assert [run.config().rule for run in runs] == ["dfa"] and runs[0].status == "done"
    assert len(problems) == 2 and "broken_s42.json" in problems[0] and "absent.json" in problems[1]


def test_a_store_that_is_a_file_gets_one_line(tmp_path: Path) -> None:
    path = put(original(), tmp_path / "snapshot_evolution_s42.json")
    (tmp_path / "runs").write_text("not a directory")
    with pytest.raises(StoreError, match="not a file"):
        import_file(path, tmp_path / "runs")
