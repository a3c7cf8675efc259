"""The appendix page holds what a reader needs to check a verdict, as Markdown and as LaTeX that compiles."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest

from faudit import RunConfig, fit
from faudit.audit.checks.check import Case, Check, Finding
from faudit.audit.page import protocol_parts, question, value_of
from faudit.audit.protocol import DEFAULT, PROTOCOLS, Protocol
from faudit.audit.sheet import Grid, Heading, Part, Points, Text, Verdict, as_latex, as_markdown
from faudit.cli.main import main
from tests.support.latex import check, compiled
from tests.support.paths import ROOT

SMALL = RunConfig(rule="dfa", epochs=2, width=8, depth=2, batch_size=256, no_terminal_norm=True)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("runs")
    for seed in (1, 2):
        fit(SMALL.with_(seed=seed), path)
    return path


def pages(store: Path, out: Path, *words: str) -> tuple[str, str]:
    flags = ["--runs", str(store), "--markdown", str(out / "page.md"), "--latex", str(out / "page.tex")]
    assert main(["audit", *words, *flags]) in (0, 1, 3)
    return (out / "page.md").read_text(), (out / "page.tex").read_text()


def test_the_page_says_what_the_numbers_were_made_with(store: Path, tmp_path: Path) -> None:
    markdown, latex = pages(store, tmp_path, "--all")
    assert "width = 8" in markdown and "no-terminal-norm = true" in markdown and "weight-decay" not in markdown
    for seed in (1, 2):
        run = store / SMALL.with_(seed=seed).run_id
        done, env = (json.loads((run / name).read_text()) for name in ("done.json", "env.json"))
        for text in (markdown, latex.replace(r"\allowbreak ", "")):
            assert done["weights_sha256"] in text and env["data_sha256"] in text and f"torch {env['torch']}" in text
        assert f"## {run.name}\n" in markdown and rf"\subsection{{{run.name}}}" in latex
    for name in PROTOCOLS[DEFAULT].checks:
        assert f"| {name.name} | {question(name)} | {value_of(name)} |" in markdown
    assert "growth 50" in markdown and "at least one check fired" in markdown and "over seeds 1, 2" in markdown
    everything, _ = pages(store, tmp_path, "--where", "seed=1", "--all-settings")
    assert "weight-decay = 0.01" in everything and everything.count("weights: SHA-256") == 1


def test_the_latex_is_well_formed_and_compiles(store: Path, tmp_path: Path) -> None:
    _, latex = pages(store, tmp_path, "--all", "--utility", "--sensitivity", "--protocol", "faudit-3")
    check(latex)
    assert latex.count(r"\section{") == 1 and r"$\Gamma$" in latex
    labels = re.findall(r"\\label\{(.*?)\}", latex)
    assert len(set(labels)) == len(labels) > 5
    log = compiled(latex, tmp_path)
    if log is None:
        pytest.skip("neither pdflatex nor tectonic is installed")
    assert log == ""


@pytest.mark.parametrize("name", PROTOCOLS)
def test_every_check_is_defined_in_one_sentence(name: str) -> None:
    for one in (*PROTOCOLS[name].checks, *PROTOCOLS[name].labels):
        assert question(one)[-1] in "?." and value_of(one).endswith("."), one.name
        assert 3 <= len(question(one).split()) <= 20 and 3 <= len(value_of(one).split()) <= 25, one.name
    check(as_latex(protocol_parts("Title", PROTOCOLS[name])))


@dataclass(frozen=True)
class Bare(Check):  # noqa: D101  # that it has no docstring is the case
    name = "bare"
    reads = ()

    def find(self, case: Case) -> Finding:
        return self.finding("passed", "always")


def test_a_check_without_a_definition_gets_a_dash() -> None:
    text = as_markdown(protocol_parts("Title", Protocol("mine", checks=(Bare(),))))
    assert re.search(r"^\| bare \| .+ \| – \| – \|$", text, flags=re.MULTILINE)


def test_any_text_survives_in_both_forms() -> None:
    odd = r"a_b 50% & $x | [#1] ^~\ {} <script>"
    parts: list[Part] = [
        Heading(odd, 1),
        Text(odd),
        Verdict(odd, odd),
        Points([f"[{odd}", "f" * 64]),
        Grid([odd], [[odd]], odd),
    ]
    check(as_latex(parts))
    assert r"\item {}[a\_b" in as_latex(parts) and "f" * 8 + r"\allowbreak " in as_latex(parts)
    assert r"50% & $x \| [#1]" in as_markdown(parts).splitlines()[-1]


def test_a_models_page_names_its_weights_and_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from safetensors.torch import save_file
    from torch import nn

    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 16), nn.Tanh(), nn.Linear(16, 10))
    save_file(model.state_dict(), tmp_path / "w.safetensors")
    (tmp_path / "own_page_model.py").write_text(
        "from torch import nn\n\n\ndef build():\n"
        "    return nn.Sequential(nn.Flatten(), nn.Linear(64, 16), nn.Tanh(), nn.Linear(16, 10))\n"
    )
    monkeypatch.chdir(tmp_path)
    words = ["audit", "--model", "own_page_model:build", "--taps", "1", "2", "--data", "digits", "--samples", "32"]
    code = main([*words, "--weights", "w.safetensors", "--markdown", "page.md", "--latex", "page.tex"])
    text = Path("page.md").read_text()
    assert code in (0, 1, 3) and hashlib.sha256(Path("w.safetensors").read_bytes()).hexdigest() in text
    assert "data: digits, SHA-256 " in text and "| scale | " in text and "own_page_model:build" in text
    check(Path("page.tex").read_text())


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--all", "--latex", "-", "--json"], "--latex - and --json: expected one of them"),
        (["--all", "--latex", "-", "--markdown", "-"], "--markdown - and --latex -: expected one of them"),
        (["--all", "--latex", "/nowhere/page.tex"], "nowhere"),
        (["--all", "--all-settings"], "--all-settings: expected with --markdown or --latex"),
        (["--all", "--where", "rule=dfa"], "expected one of RUN names, --all, --where, got --all and --where"),
        (["--all", "x"], "got RUN names and --all"),
        (["--where", "rule=dfaa"], "did you mean 'dfa'?"),
        (["--where", "rule=fa"], "nothing to audit: expected a store with finished runs with rule=fa"),
        (["--all", "--jobs", "2"], "--jobs: expected with --with-controls"),
        (["--all", "--with-controls", "--jobs", "0"], "--jobs: expected at least 1"),
    ],
)
def test_bad_input_is_one_line(store: Path, capsys: pytest.CaptureFixture[str], words: list[str], told: str) -> None:
    assert main(["audit", "--runs", str(store), *words]) == 2
    err = capsys.readouterr().err
    assert told in err and err.count("\n") == 1


def test_where_and_all_choose_finished_runs(store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs = tmp_path / "runs"
    shutil.copytree(store, runs)
    stopped = runs / SMALL.with_(seed=2).run_id
    for words, expected in ((["--all"], 2), (["--where", "seed=1"], 1), (["--where", "rule=dfa"], 2)):
        main(["audit", "--runs", str(runs), *words, "--json"])
        assert len(json.loads(capsys.readouterr().out)["runs"]) == expected
    (stopped / "done.json").unlink()
    main(["audit", "--runs", str(runs), "--all", "--json"])
    out, err = capsys.readouterr()
    assert len(json.loads(out)["runs"]) == 1 and "1 of 2 runs, which are not finished" in err


def test_no_control_is_trained_for_a_stopped_run(
    store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = tmp_path / "runs"
    shutil.copytree(store, runs)
    names = [SMALL.with_(seed=seed).run_id for seed in (1, 2)]
    (runs / names[1] / "done.json").unlink()
    assert main(["audit", *names, "--runs", str(runs), "--with-controls", "--jobs", "1"]) == 2
    assert "needs a finished run" in capsys.readouterr().err
    assert sorted(path.name for path in runs.iterdir()) == sorted(names), "nothing was trained"


def test_a_run_without_a_control_is_told_how_to_get_one(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["audit", "--where", "seed=1", "--runs", str(store), "--markdown", "-"])
    assert "no matched run with frozen blocks (--with-controls trains it)" in capsys.readouterr().out


def test_walk_back_is_defined_in_the_docs() -> None:
    assert "take back conclusions that rest on this run" in (ROOT / "docs" / "protocol.md").read_text()
