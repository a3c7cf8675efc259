"""A store of watched runs only, in every command that reads runs: it works, or says in one line why it cannot."""

from __future__ import annotations

import base64
import csv
import gzip
import json
import re
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import faudit
from faudit.audit.judge import INCONCLUSIVE, NETWORK_ONLY, TRUSTWORTHY
from faudit.cli.main import main
from faudit.store.index import entries
from faudit.store.run import Run
from tests.support.watched import DEPTH, MLP, train, watched

EPOCHS, NAME = 8, "dfa"  # the name of a rule of faudit, which the loop is not


def trained(model: Any) -> None:
    train(model, epochs=EPOCHS)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A full run with a control, and a light one."""
    runs = tmp_path_factory.mktemp("watched") / "runs"
    for light in (False, True):
        model = MLP()
        with watched(model, runs, name=NAME, light=light, settings={"lr": 0.5}) as w:
            train(model, w, epochs=EPOCHS)
        if not light:
            faudit.control(MLP, trained, of=w)
    return runs


@pytest.fixture
def names(store: Path) -> tuple[str, str]:
    """The names of the full and of the light run."""
    by_kind = {str(run.config().measures): run.name for run in faudit.runs_in(store)}
    return by_kind["full"], by_kind["light"]


def one_line(capsys: pytest.CaptureFixture[str]) -> str:
    err = capsys.readouterr().err
    assert err.startswith("faudit: ") and err.count("\n") == 1, err
    return err


def test_show(store: Path, names: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    for words in ([], ["--group"], ["--sort", "own-lr"], ["--where", "measures=light"], [names[0]], [names[1]]):
        assert main(["show", *words, "--runs", str(store)]) == 0
        said = capsys.readouterr().out
        assert "measures=light" in said or words in (["--where", "measures=light"], [names[0]])
        assert any(name in said for name in names) or words == ["--group"]
    assert main(["show", "--json", "--runs", str(store)]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [one["epochs"] for one in told] == [EPOCHS] * 2
    assert {one["config"]["watched"] for one in told} == {NAME}


def test_audit(store: Path, names: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    """The exit code is the verdict; the first line says that no credit was judged."""
    assert main(["audit", names[0], "--runs", str(store)]) == 0
    said = capsys.readouterr().out
    assert said.startswith(f"{names[0]}: trustworthy (network only: no credit signal was given)\n")
    assert main(["audit", names[1], "--runs", str(store)]) == 3
    said = capsys.readouterr().out
    assert said.startswith(f"{names[1]}: inconclusive\n") and "light=True, which leaves the costly probes out" in said
    assert "how far its blocks turned was not measured" in said
    assert main(["audit", "--all", "--utility", "--sensitivity", "--json", "--runs", str(store)]) == 3
    told = {Path(one["run"]).name: one for one in json.loads(capsys.readouterr().out)["runs"]}
    assert (told[names[0]]["verdict"], told[names[0]]["covers"]) == (TRUSTWORTHY, NETWORK_ONLY)
    assert told[names[1]]["verdict"] == INCONCLUSIVE
    for flag, bold in (("--markdown", "**{}**"), ("--latex", r"\textbf{{{}}}")):
        assert main(["audit", names[0], flag, "-", "--all-settings", "--runs", str(store)]) == 0
        page = capsys.readouterr().out
        assert bold.format(f"trustworthy ({NETWORK_ONLY})") in page and "control 0" in page


def test_audit_of_a_method_over_seeds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for seed in (0, 1):
        model = MLP()
        with watched(model, tmp_path, seed=seed) as w:
            train(model, w, epochs=EPOCHS)
        faudit.control(MLP, trained, of=w)
    assert main(["audit", "--all", "--runs", str(tmp_path)]) == 0
    assert f"2 seeds: trustworthy ({NETWORK_ONLY})" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["snapshot-resmlp", "penalty-sweep", "atlas"])
@pytest.mark.parametrize("partial", [[], ["--partial"]])
def test_figure(name: str, partial: list[str], store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A figure of a paper shows the runs of its recipe, which no watched run is."""
    out = tmp_path / "figure.svg"
    assert main(["figure", name, "--out", str(out), *partial, "--runs", str(store)]) == 2
    said = one_line(capsys)
    assert f"{name} shows runs that faudit trained" in said and "got 2 watched and no other" in said
    assert "`faudit plot` draws watched runs" in said and not out.exists()


def test_plot(store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "plot.svg"
    entries = ["hidden_norms", "grad_norms", "test_acc", "own.lr"]
    assert main(["plot", *entries, "--by", "measures", "--out", str(out), "--runs", str(store)]) == 0
    told = json.loads(out.with_suffix(".json").read_text())
    assert {"measures = full", "measures = light"} <= set(re.findall(r"measures = \w+", json.dumps(told)))
    full = next(run for run in faudit.runs_in(store) if run.config().measures == "full")
    last = full.rows()[-1]
    assert f"{last['test_acc']:g}" in json.dumps(told) and len(last["hidden_norms"]) == DEPTH + 1
    assert main(["plot", "test_acc", "--by", "own-lr", "--out", str(out), "--runs", str(store)]) == 0
    assert main(["plot", "test_acc", "--by", "own-l", "--out", str(out), "--runs", str(store)]) == 2
    assert "unknown setting 'own-l', did you mean 'own-lr'?" in capsys.readouterr().err.splitlines()[-1]


def data_of(page: str, name: str = "data") -> Any:
    found = re.search(rf'<script[^>]* id="{name}">(.*?)</script>', page, flags=re.DOTALL)
    assert found
    return json.loads(found[1]) if name == "data" else json.loads(gzip.decompress(base64.b64decode(found[1])))


def test_report(store: Path, names: tuple[str, str], tmp_path: Path) -> None:
    pytest.importorskip("vl_convert", reason="the page needs vl-convert-python")
    out = tmp_path / "report.html"
    assert main(["report", "--out", str(out), "--runs", str(store)]) == 0
    page = out.read_text()
    told, series = data_of(page), data_of(page, "series")
    full, light = (told["runs"][name] for name in names)
    assert full["verdict"] == TRUSTWORTHY and full["headline"] == "trustworthy (network only)"
    assert full["sentence"].startswith("Network only: no credit signal was given. 6 checks passed")
    assert light["verdict"] == light["headline"] == INCONCLUSIVE
    assert "were not measured" in light["sentence"] and "faudit audit" not in light["sentence"], "it cannot measure"
    assert not full["command"] and not light["command"], "faudit cannot train it, whatever its name"
    assert sorted(one["headline"] for one in told["methods"]) == ["inconclusive", "trustworthy (network only)"]
    assert "Verdict: trustworthy (network only). Network only: no credit" in told["template"]
    rows = Run(store / names[0]).rows()
    assert series[names[0]]["epoch"] == [row["epoch"] for row in rows] and "own.lr" in series[names[0]]


@pytest.mark.slow
def test_serve(tmp_path: Path) -> None:
    """The real server: its page shows the run, and a control that is attached later is news."""
    pytest.importorskip("vl_convert", reason="the page needs vl-convert-python")
    model, runs = MLP(), tmp_path / "runs"
    with watched(model, runs) as w:
        train(model, w, epochs=EPOCHS)
    command = [sys.executable, "-m", "faudit", "serve", "--port", "0", "--runs", str(runs)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as server:
        try:
            assert server.stdout is not None
            address = server.stdout.readline().strip()

            def got(path: str) -> str:
                with urllib.request.urlopen(address.rstrip("/") + path) as answer:
                    body = answer.read()
                    zipped = answer.headers["Content-Encoding"] == "gzip"
                return (gzip.decompress(body) if zipped else body).decode()

            def verdict() -> str:
                return str(json.loads(got("/data.json"))["runs"][w.run.name]["headline"])

            assert w.run.name in got("/")
            assert verdict() == INCONCLUSIVE
            faudit.control(MLP, trained, of=w)
            until = time.monotonic() + 20.0  # the server looks at the store about once a second
            while verdict() == INCONCLUSIVE and time.monotonic() < until:
                time.sleep(0.2)
            assert verdict() == "trustworthy (network only)"
        finally:
            server.send_signal(signal.SIGINT)
            assert server.wait(30) == 0


def test_export(store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for form in ("csv", "parquet"):
        out = tmp_path / f"rows.{form}"
        assert main(["export", "--format", form, "--out", str(out), "--runs", str(store)]) == 0
    with open(tmp_path / "rows.csv", newline="") as file:
        lines = list(csv.DictReader(file))
    assert len(lines) == 2 * (EPOCHS + 1) and {line["watched"] for line in lines} == {NAME}
    assert {line["measures"] for line in lines} == {"full", "light"} and lines[1]["own.lr"] == "0.5"
    assert pq.read_table(tmp_path / "rows.parquet").num_rows == len(lines)
    capsys.readouterr()
    assert main(["export", "--out", str(tmp_path / "paper"), "--runs", str(store)]) == 2
    assert "Watched runs go into a table: --format csv." in one_line(capsys)


def test_index(store: Path, names: tuple[str, str]) -> None:
    for _ in range(2):  # the second look reads the index
        found, damaged = entries(store)
        assert not damaged and sorted(Path(one["run"]).name for one in found) == sorted(names)
    runs = faudit.runs(store).where(measures="light")
    assert [run.name for run in runs] == [names[1]] and runs[0].audit().verdict.verdict == INCONCLUSIVE


def test_compare(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", "measures=full", "measures=light", "--json", "--runs", str(store)]) == 0
    told = json.loads(capsys.readouterr().out)
    assert '"test_acc"' in json.dumps(told) and "measures=full" in json.dumps(told)
    assert main(["compare", "measures=full", "measures=none", "--runs", str(store)]) == 2
    one_line(capsys)


def test_reproduce(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce", "faeval", "--jobs", "0", "--out", str(store.parent / "o"), "--runs", str(store)]) == 2
    assert "none of its runs is in" in one_line(capsys)
