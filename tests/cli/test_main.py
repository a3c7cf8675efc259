"""Every command runs end to end, and every kind of bad input gives one line and exit code 2."""

from __future__ import annotations

import json
import os
import re
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from faudit.cli.list import FAMILIES, TABLES
from faudit.cli.main import COMMANDS, main
from faudit.config import RunConfig, all_keys
from tests.support.child import forked
from tests.support.fabricate import write
from tests.support.paths import ROOT

SMALL = ["--width", "16", "--depth", "2", "--batch-size", "128", "--epochs", "2"]


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    code = main(list(words))
    out, err = capsys.readouterr()
    return code, out, err


def one_line(error: str) -> str:
    assert error.count("\n") == 1 and error.startswith("faudit: "), error
    return error


@pytest.mark.parametrize(
    "flags", [["bp"], ["dfa"], ["fa"], ["frozen-dfa"], ["frozen-fa"], ["frozen-bp"], ["dfa", "--penalty", "0.01"]]
)
def test_train_prints_one_json_document(tmp_path: Path, capsys: pytest.CaptureFixture[str], flags: list[str]) -> None:
    code, out, err = run(capsys, "train", "--rule", *flags, *SMALL, "--runs", str(tmp_path), "--json")
    entry = json.loads(out)
    assert code == 0 and entry["status"] == "done" and entry["epochs"] == 2
    assert (
        entry["run"] == str(tmp_path / entry["run_id"]) and 0 <= entry["test_acc"] <= 1 and 0 <= entry["acc_eval"] <= 1
    )
    assert "epoch 2/2" in err
    code, again, err = run(capsys, "train", "--rule", *flags, *SMALL, "--runs", str(tmp_path), "--json")
    assert code == 0 and again == out and err == ""


def test_the_last_line_on_stdout_is_the_runs_directory(tmp_path: Path) -> None:
    done = forked(["train", *SMALL], cwd=tmp_path)
    path = Path(done.out.splitlines()[-1])
    assert done.code == 0 and (tmp_path / path / "done.json").exists() and path.parts[0] == "runs"


def test_a_config_file_and_flags_together(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "run.toml"
    file.write_text('rule = "dfa"\nwidth = 16\ndepth = 2\nepochs = 2\nbatch-size = 128\nseed = 1\n')
    code, out, _ = run(capsys, "train", "--config", str(file), "--seed", "9", "--runs", str(tmp_path), "--json")
    config = json.loads(out)["config"]
    assert code == 0 and (config["rule"], config["seed"], config["batch-size"]) == ("dfa", 9, 128)


def test_every_setting_has_a_flag_and_every_flag_a_help(capsys: pytest.CaptureFixture[str]) -> None:
    code, text, _ = run(capsys, "train", "--help")
    assert code == 0
    assert all(f"--{name}" in text for name in all_keys())


def test_a_diverged_run_exits_1_and_says_where(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flags = ["train", *SMALL, "--optimizer", "sgd", "--lr", "1e30", "--weight-decay", "0", "--runs", str(tmp_path)]
    code, out, err = run(capsys, *flags, "--json")
    entry = json.loads(out, parse_constant=lambda name: pytest.fail(f"{name} is not strict JSON"))
    assert code == 1 and entry["status"] == "failed" and "overflowed at tap" in entry["reason"]
    assert "failed.json" in err.splitlines()[-1]
    code, out, _ = run(capsys, "show", "--runs", str(tmp_path))
    assert code == 0 and "failed" in out
    assert run(capsys, "show", entry["run_id"], "--runs", str(tmp_path), "--json")[0] == 0


def test_show_lists_a_store_and_one_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for rule in ("bp", "dfa"):
        run(capsys, "train", "--rule", rule, *SMALL, "--runs", str(tmp_path))
    code, out, _ = run(capsys, "show", "--runs", str(tmp_path))
    assert code == 0 and out.count("done") == 2 and "‖h_L‖" in out and "2/2" in out
    code, out, _ = run(capsys, "show", "--runs", str(tmp_path), "--json")
    entries = json.loads(out)
    assert [entry["status"] for entry in entries] == ["done", "done"]
    name = entries[0]["run_id"]
    for way in ([name, "--runs", str(tmp_path)], [str(tmp_path / name)]):
        code, out, _ = run(capsys, "show", *way)
        assert code == 0 and name in out and "width=16" in out
        code, out, _ = run(capsys, "show", *way, "--json")
        assert [row["epoch"] for row in json.loads(out)["rows"]] == [0, 1, 2]
    code, out, _ = run(capsys, "show", name[:-1], "--runs", str(tmp_path))
    assert code == 0 and out.startswith(name), "a prefix is enough"
    code, _, err = run(capsys, "show", f"{name}x", "--runs", str(tmp_path))
    assert code == 2 and f"did you mean '{name}'" in one_line(err)


def test_show_names_a_damaged_run_and_shows_the_others(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(capsys, "train", *SMALL, "--runs", str(tmp_path))
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "config.json").write_text("{")
    code, out, err = run(capsys, "show", "--runs", str(tmp_path))
    assert code == 2 and "resmlp-bp-digits" in out and "broken" in one_line(err)
    code, out, _ = run(capsys, "show", "--runs", str(tmp_path), "--json")
    assert code == 2 and len(json.loads(out)) == 1
    assert (tmp_path / "broken" / "config.json").read_text() == "{"


@pytest.mark.parametrize("family", [family for family in FAMILIES if family not in TABLES])  # those are tables
def test_list_tells_of_every_member(capsys: pytest.CaptureFixture[str], family: str) -> None:
    code, out, _ = run(capsys, "list", family)
    assert code == 0 and [line.split()[0] for line in out.splitlines()] == list(FAMILIES[family])
    code, out, _ = run(capsys, "list", family, "--json")
    entries = json.loads(out)
    assert list(entries) == list(FAMILIES[family]) and all(len(text) > 10 for text in entries.values())
    for name in FAMILIES[family]:
        assert FAMILIES[family][name] is not None  # the table's target exists


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["trian"], "unknown command 'trian', did you mean 'train'?"),
        (["train", "--epoch", "3"], "unknown flag '--epoch', did you mean '--epochs'?"),
        (["train", "--rule", "dfaa"], "did you mean 'dfa'?"),
        (["train", "--depth", "0"], "depth: expected a whole number from 1 to 1024, got '0'"),
        (["train", "--penalty", "-1"], "penalty: expected a finite number ≥ 0, got '-1'"),
        (["train", "--lr", "nan"], "lr: expected a finite number > 0, got 'nan'"),
        (["train", "--batch-size", "2000"], "larger than the data: digits has 1437"),
        (["train", "--clip", "2"], "rule bp does not read clip"),
        (["train", "--epochs"], "expected one argument"),
        (["train", "--data", "cifar10"], "--data-dir"),
        (["train", "--data", "cifar10", "--data-dir", "/nowhere"], "faudit data fetch cifar10"),
        (["train", "--config", "/nowhere.toml"], "cannot read the config"),
        (["list", "rulez"], "invalid choice"),
        (["show", "--runs", "/nowhere"], "no run store at /nowhere"),
        (["data", "check", "cifar11"], "did you mean 'cifar10'"),
        (["data", "fetch", "mnist", "--url", "ftp://x/", "--data-dir", "d"], "expected http"),
        (["bench", "train", "--repeats", "0"], "--repeats: expected at least 1, got 0"),
        (["bench", "--repeats", "0"], "--repeats: expected at least 1, got 0"),
        (["bench", "--steps", "0"], "--steps: expected at least 1, got 0"),
        (["bench", "trian"], "unknown benchmark 'trian', did you mean 'train'?"),
        (["bench", "--out", "/nowhere/x.json"], "cannot use /nowhere/x.json: No such file"),
        (["bench", "memory", "--out", "-"], "--out: expected a file"),
        (["bench", "--data-dir", "/nowhere"], "cifar10 was not found"),
        (["bench", "memory", "--data-dir", "/nowhere"], "cifar10 was not found"),
        (["bench", "--seeds", "1"], "bench does not read --seeds"),
        ([], "COMMAND"),
    ],
)
def test_bad_input_is_one_line_and_exit_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, words: list[str], expected: str
) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, err = run(capsys, *words)
    assert code == 2 and out == "" and expected in one_line(err)
    assert not list(tmp_path.rglob("*.json")), "something was half-written"


def test_all_problems_are_listed_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = run(capsys, "train", "--depth", "0", "--lr", "inf", "--rule", "x")
    assert code == 2 and len(err.splitlines()) == 3


def test_a_store_that_cannot_be_written_gets_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("")
    code, _, err = run(capsys, "train", *SMALL, "--runs", str(tmp_path / "file"))
    assert code == 2 and "not a file" in one_line(err)


def test_a_run_of_a_newer_version_is_left_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flags = ["train", *SMALL, "--runs", str(tmp_path)]
    run(capsys, *flags)
    (path,) = tmp_path.glob("resmlp-*")
    (path / "done.json").unlink()
    newer = (path / "config.json").read_text().replace('"format": 1', '"format": 9')
    (path / "config.json").write_text(newer)
    code, _, err = run(capsys, *flags)
    assert code == 2 and "newer version" in one_line(err) and (path / "config.json").read_text() == newer


@pytest.mark.slow
def test_demo_trains_prints_a_table_draws_two_figures_and_is_instant_the_second_time(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from faudit.cli import demo

    titles = [config.label() for config in demo.demo_runs()]
    for title in ("bp", "fa", "dfa", "dfa + λ=0.01", "frozen-dfa", "frozen-fa", "frozen-bp", "dfa, no terminal norm"):
        assert title in titles
    assert len(set(titles)) == len(titles) == 12
    monkeypatch.setattr(demo, "EPOCHS", 2)
    out = tmp_path / "d"
    code, said, _ = run(capsys, "demo", "--out", str(out))
    assert code == 0 and said.count("done") == 12 and str(out / "runs") in said
    assert said.splitlines()[-1] == f"report: {out / 'report.html'}" and (out / "report.html").stat().st_size > 500_000
    drawn = [out / f"{name}.{form}" for name in demo.DRAWN for form in ("pdf", "svg", "png", "json")]
    assert all(path.stat().st_size > 500 for path in drawn) and all(str(path) in said for path in drawn[2::4])
    before = [path.stat().st_mtime_ns for path in drawn]
    code, again, err = run(capsys, "demo", "--out", str(out))
    assert code == 0 and again == said and err == "" and before == [path.stat().st_mtime_ns for path in drawn]


def test_a_finished_run_needs_no_torch(tmp_path: Path) -> None:
    words = ["train", *SMALL, "--runs", str(tmp_path)]
    assert main(words) == 0
    code = (
        f"import sys\nfrom faudit.cli.main import main\nassert main({words!r}) == 0\nassert 'torch' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_a_listener_that_leaves_does_not_stop_the_training(tmp_path: Path) -> None:
    words = f"{sys.executable} -m faudit train --epochs 6 --width 8 --runs {tmp_path} 2>&1 | head -1"
    subprocess.run(["bash", "-c", words], capture_output=True, text=True, check=False)
    (run,) = tmp_path.iterdir()
    assert (run / "done.json").exists()


def test_a_store_with_strange_rows_or_names_gets_lines_not_tracebacks(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(capsys, "train", *SMALL, "--runs", str(tmp_path))
    (good,) = tmp_path.iterdir()
    first = json.loads((good / "rows.jsonl").read_text().splitlines()[0])
    for name, row, told in (
        ("no-entries", {"epoch": 0}, "acc_eval: expected in every row, got none"),
        ("text", {**first, "hidden_norms": "x"}, "hidden_norms: expected a list of numbers, got 'x'"),
        ("object", {**first, "gamma": {"a": 1}}, "gamma: expected a list of 2 numbers, got {'a': 1}"),
        ("huge", {**first, "epoch": 10**400}, "epoch: expected a whole number, got 1000"),
    ):
        (tmp_path / name).mkdir()
        for file in ("config.json", "env.json"):
            (tmp_path / name / file).write_text((good / file).read_text())
        (tmp_path / name / "rows.jsonl").write_text(json.dumps(row) + "\n")
        code, _, err = run(capsys, "show", name, "--runs", str(tmp_path))
        assert code == 2 and f"{tmp_path / name}/rows.jsonl, line 1 is damaged: {told}" in one_line(err)
    code, out, err = run(capsys, "show", "--runs", str(tmp_path))
    assert code == 2 and good.name in out and err.count("\n") == 4
    code, _, err = run(capsys, "show", "--runs", "x" * 300)
    assert code == 2 and "File name too long" in one_line(err)


@pytest.mark.parametrize(
    ("words", "trains"),
    [
        (["train"], True),
        (["sweep", "rules"], True),
        (["reproduce", "all"], True),
        (["demo"], True),
        (["audit", "--with-controls"], True),
        (["audit"], False),
        (["show"], False),
        (["export", "--out", "x"], False),
        (["import", "x"], False),
        (["bench", "train"], False),
    ],
)
def test_what_makes_runs_says_how_to_go_on_when_it_is_interrupted(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, words: list[str], trains: bool
) -> None:
    def stop(_: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(COMMANDS[words[0]], "run", stop)
    code, out, err = run(capsys, *words)
    assert (code, out) == (130, "") and err.startswith("\nfaudit: interrupted.")
    assert ("The same command goes on from the last checkpoint" in err) is trains


def test_names_are_shown_as_they_are(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Square brackets and colons are printed as they are, not as markup."""
    write(RunConfig(epochs=1), tmp_path).path.rename(tmp_path / "odd[b] :cat:")
    code, out, _ = run(capsys, "show", "odd[b] :cat:", "--runs", str(tmp_path))
    assert code == 0 and out.startswith("odd[b] :cat:") and "epochs=1" in out


def test_data_check_tells_what_is_there(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "data", "check", "digits")
    assert code == 0 and "1,437" in out and "360" in out


def test_data_fetch_of_what_ships_fetches_nothing(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    code, _, err = run(capsys, "data", "fetch", "digits", "--data-dir", str(tmp_path))
    assert code == 0 and "ships with faudit" in err and not list(tmp_path.iterdir())


LIGHT: list[list[str]] = [
    ["--help"],
    ["--version"],
    ["train", "--help"],
    ["list", "rules"],
    ["list", "nets"],
    ["show", "--runs", "."],
    ["train", "--depth", "0"],
]


@pytest.mark.parametrize("words", LIGHT, ids=" ".join)
def test_what_needs_no_torch_imports_none(words: list[str]) -> None:
    code = f"import sys\nfrom faudit.cli.main import main\nmain({words!r})\nassert 'torch' not in sys.modules"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT / "tests", check=False)
    assert done.returncode == 0, done.stderr


def test_help_starts_as_fast_as_a_few_modules_of_python() -> None:
    """As CPU time over that of Python with some of its own modules, so that neither load nor processor decides.

    0.2 s against 0.12 s. An import of numpy would add 0.14 s, one of torch many times that.
    """

    def seconds(*words: str) -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, *words], capture_output=True, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    modules = "import asyncio, email.message, unittest.mock, xml.dom.minidom, http.server"
    times = [(seconds("-m", "faudit", "--help"), seconds("-c", modules)) for _ in range(5)]
    ours, python = (min(column) for column in zip(*times, strict=True))
    assert ours < 2.5 * python


@pytest.mark.slow
def test_an_ascii_terminal_is_no_reason_to_crash(tmp_path: Path) -> None:
    environment: dict[str, Any] = {**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONPATH": str(ROOT / "src")}
    words = [sys.executable, "-m", "faudit", "train", *SMALL, "--runs", str(tmp_path)]
    done = subprocess.run(words, capture_output=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr


def test_a_reader_that_leaves_is_no_reason_to_crash() -> None:
    words = f"{sys.executable} -m faudit train --help | head -1"
    done = subprocess.run(["bash", "-c", words], capture_output=True, text=True, check=False)
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_on_a_terminal_there_is_a_bar_and_stdout_stays_clean(tmp_path: Path) -> None:
    """A real pseudo-terminal as stderr; stdout is a pipe and holds the JSON alone."""
    import pty

    ours, theirs = pty.openpty()
    words = [sys.executable, "-m", "faudit", "train", *SMALL, "--runs", str(tmp_path), "--json"]
    child = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=theirs, env={**os.environ, "TERM": "xterm-256color"})
    os.close(theirs)
    shown = b""
    while True:
        try:
            piece = os.read(ours, 4096)
        except OSError:  # the terminal closes with its last user
            break
        if not piece:
            break
        shown += piece
    assert child.stdout is not None
    assert json.loads(child.stdout.read())["status"] == "done" and child.wait() == 0
    child.stdout.close()
    os.close(ours)
    plain = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", shown.decode())
    assert "2/2" in plain and "growth" in plain and len(plain) < len(shown)
