"""``faudit show``: readable at 80 columns, runs that differ look different, seeds together, sorted, chosen by name."""

from __future__ import annotations

import json
import os
import pty
import shutil
import statistics
import struct
import sys
from pathlib import Path

import pytest

from faudit.cli.main import main
from faudit.cli.tables import fitted, groups
from faudit.config import RunConfig
from faudit.store.index import entries
from faudit.store.run import Run
from tests.support.fabricate import write

LONG = RunConfig(net="vit", rule="frozen-dfa", data="fashion-mnist", epochs=2, seed=123456)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("show") / "runs"
    for seed in (1, 2, 3):
        write(RunConfig(rule="bp", epochs=2, seed=seed), path)
        write(RunConfig(rule="dfa", epochs=2, seed=seed, penalty=0.01, no_terminal_norm=True), path)
        write(RunConfig(rule="dfa", epochs=2, seed=seed), path)
    write(RunConfig(rule="dfa", epochs=12, seed=4), path, until=1)
    write(LONG, path)
    return path


def said(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(["show", *words]) == 0
    return capsys.readouterr().out


def on_a_terminal(columns: int, *words: str) -> list[str]:
    """What the command prints on a terminal of this width, line by line."""
    import fcntl
    import re
    import termios

    child, terminal = pty.fork()
    if not child:  # the terminal's size is set before anything is printed
        fcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
        # An environment of its own: readline may have set COLUMNS behind Python's back.
        environment = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
        os.execve(sys.executable, [sys.executable, "-m", "faudit", *words], environment)
    out = b""
    while True:
        try:
            piece = os.read(terminal, 65536)
        except OSError:  # the child has closed its side
            break
        if not piece:
            break
        out += piece
    _, status = os.waitpid(child, 0)
    os.close(terminal)
    assert os.waitstatus_to_exitcode(status) == 0, out.decode()
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", out.decode()).replace("\r", "").splitlines()


def test_a_list_fits_eighty_columns_and_names_are_whole(store: Path) -> None:
    lines = on_a_terminal(80, "show", "--runs", str(store))
    assert max(map(len, lines)) <= 80 and "…" not in "".join(lines)
    for run in store.iterdir():
        assert any(line.split()[0] == run.name for line in lines if line.strip()), run.name
    text = " ".join(lines)
    assert "penalty=0.01" in text and "no-terminal-norm" in text and "test acc" in lines[0]
    wide = on_a_terminal(160, "show", "--runs", str(store))
    assert "‖h_L‖" in wide[0] and "deep Γ" in wide[0] and max(map(len, wide)) <= 160


def test_grouped_seeds_fit_eighty_columns_too(store: Path) -> None:
    lines = on_a_terminal(80, "show", "--runs", str(store), "--group")
    assert max(map(len, lines)) <= 80 and sum("±" in line for line in lines) == 3


def test_columns_are_left_out_from_the_right_until_the_table_fits() -> None:
    rows = [["run", "12345", "1234567890", ""], ["other", "1", "2", "key=value"]]
    for width, kept in ((60, 4), (30, 3), (16, 2)):
        table = fitted(["run", "a", "b"], rows, needed=["run"], width=width)
        assert not isinstance(table, str) and len(table.columns) == kept, width
    narrow = fitted(["run", "a", "b"], rows, needed=["run"], width=14)
    assert [line.split() for line in str(narrow).splitlines()] == [
        ["run", "a"], ["run", "12345"], ["other", "1"], ["key=value"],
    ], "the settings have no room beside the name; below it they leave room for a column"  # fmt: skip


def test_runs_that_differ_in_a_setting_look_different(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = said(capsys, "--runs", str(store), "--where", "rule=dfa", "--where", "seed=1").splitlines()
    assert lines[0].split()[-1] == "settings" and len(lines) == 3
    (penalised,) = [line for line in lines if "penalty=0.01" in line]
    assert "no-terminal-norm" in penalised and all("seed=" not in line for line in lines), "the name tells the seed"


def test_means_are_over_the_finished_seeds(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = said(capsys, "--runs", str(store), "--group", "--where", "rule=bp").splitlines()
    finals = [Run(store / RunConfig(rule="bp", epochs=2, seed=seed).run_id).rows()[-1] for seed in (1, 2, 3)]
    values = [row["test_acc"] for row in finals]
    assert f"{statistics.mean(values):.4f} ± {statistics.stdev(values):.4f}" in lines[1]
    found = said(capsys, "--runs", str(store), "--group", "--where", "rule=dfa")
    assert "0 of 1" in found and found.count("digits") == 3, "a length of its own is a method of its own"
    assert sorted(map(len, groups(entries(store)[0]))) == [1, 1, 3, 3, 3]


def test_an_unfinished_run_does_not_show_the_accuracy_of_epoch_0(tmp_path: Path) -> None:
    """A real row of epoch 0 has a test accuracy; so has every tenth."""
    from faudit.store.rows import to_line
    from faudit.store.summary import overview

    run = write(RunConfig(epochs=30), tmp_path, until=12)
    rows = run.rows()
    rows[0]["test_acc"], rows[10]["test_acc"] = 0.1, 0.5

    def shown(last: int) -> float | None:
        run.rows_file.write_text("".join(map(to_line, rows[: last + 1])))
        accuracy: float | None = overview(run)["test_acc"]
        return accuracy

    assert shown(0) is None and shown(3) is None and shown(10) == 0.5 and shown(12) is None


def test_runs_are_sorted(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def column(*flags: str) -> list[float]:
        found = json.loads(said(capsys, "--runs", str(store), "--json", "--where", "status=done", *flags))
        return [entry["test_acc"] for entry in found]

    assert column("--sort", "test_acc") == sorted(column())
    assert column("--sort", "test_acc", "--descending") == sorted(column(), reverse=True)
    assert main(["show", "--runs", str(store), "--sort", "acc"]) == 2
    assert "--sort unknown key 'acc'" in capsys.readouterr().err
    assert main(["show", "--runs", str(store), "--descending"]) == 2


def test_a_prefix_shows_one_run_and_a_pattern_all_that_fit(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert said(capsys, "vit", "--runs", str(store)).startswith(LONG.run_id)
    assert said(capsys, "*-s2-*", "--runs", str(store)).count("done") == 3
    assert said(capsys, "vit*", "--runs", str(store)).startswith(LONG.run_id), "a pattern that fits one run"
    assert main(["show", "resmlp-bp", "--runs", str(store)]) == 2
    told = capsys.readouterr().err
    assert "3 runs" in told and told.count("resmlp-bp-digits-s") == 3 and told.count("\n") == 1
    assert main(["show", "vit", "--group", "--runs", str(store)]) == 2
    assert "--group is for a list of runs" in capsys.readouterr().err


def test_imported_and_copied_runs_are_listed_under_names_that_show_accepts(
    store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = Run(store / LONG.run_id)
    shutil.copytree(run.path, tmp_path / f"imported-{run.name}")
    shutil.copytree(store / RunConfig(rule="bp", epochs=2, seed=1).run_id, tmp_path / "the best one")
    lines = said(capsys, "--runs", str(tmp_path)).splitlines()
    assert lines[1].startswith(f"imported-{run.name} ") and lines[2].startswith("the best one ")
    assert "rule=bp" in lines[2], "its name does not tell"
    for name in (f"imported-{run.name}", "the best one", "the best"):
        assert said(capsys, name, "--runs", str(tmp_path)).startswith(name)


def test_tables_of_runs_in_latex(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = said(capsys, "--runs", str(store), "--group", "--latex")
    assert text.count(r" \\") == 6 and r"$\pm$" in text and r"\begin{tabular}{@{}lllrrrrrl@{}}" in text
    runs = said(capsys, "--runs", str(store), "--latex", "--where", "rule=dfa", "--where", "status=done")
    assert "% all: net resmlp, data digits, status done, epoch 2/2\n" in runs, "what all rows share is told once"
    assert "rule & seed & test acc & growth & " in runs and runs.count("no-terminal-norm penalty=0.01") == 3
    assert main(["show", "--runs", str(store), "--latex", "--json"]) == 2


def test_an_audit_takes_patterns_and_writes_its_page_in_latex(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from faudit.train import fit
    from tests.support.runs import TINY

    for seed in (1, 2):
        fit(TINY.with_(seed=seed, epochs=1), tmp_path)
    words = ["audit", "resmlp-bp-*", "--runs", str(tmp_path)]
    code = main([*words, "--latex", "-"])
    out = capsys.readouterr().out
    assert code in (0, 1, 3) and out.startswith("% Made by") and "seeds 1, 2" in out
    assert "95 \\% interval over seeds" in out
    assert main([*words, "--latex", "-", "--json"]) == 2
    assert "--latex - and --json: expected one of them on standard output" in capsys.readouterr().err
    assert main(["audit", "resmlp-bp", "--runs", str(tmp_path)]) == 2
    assert "2 runs" in capsys.readouterr().err
