"""A store that holds watched loops alone: every command that reads a store copes with it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import faudit
from faudit.cli.main import main
from faudit.report.server import Live
from faudit.store.run import runs_in
from tests.support.stores import SCRIPT, look

Said = pytest.CaptureFixture[str]
pytestmark = pytest.mark.slow  # it trains and probes four networks


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two loops of the user's, two seeds each."""
    path = tmp_path_factory.mktemp("watched") / "runs"
    for name, rate in (("slow", 0.01), ("quick", 0.5)):
        for seed in (0, 1):
            torch.manual_seed(seed)
            x, y = torch.randn(48, 6), torch.arange(48) % 3
            blocks = nn.Sequential(nn.Sequential(nn.Linear(8, 8), nn.Tanh()), nn.Sequential(nn.Linear(8, 8), nn.Tanh()))
            model = nn.Sequential(nn.Linear(6, 8), *blocks, nn.Linear(8, 3))
            optimizer = torch.optim.SGD(model.parameters(), lr=rate)
            settings = {"note": SCRIPT, "rate": rate}
            with faudit.watch(
                model, eval_batch=(x, y), taps=["1", "2"], runs=path, name=name, seed=seed, settings=settings
            ) as w:
                for epoch in range(2):
                    w.log(epoch)
                    optimizer.zero_grad()
                    F.cross_entropy(model(x), y).backward()
                    optimizer.step()
    assert len(runs_in(path)) == 4
    return path


def said(capsys: Said, code: int, *words: str) -> tuple[str, str]:
    capsys.readouterr()
    assert main([*words]) == code
    found = capsys.readouterr()
    return found.out, found.err


def test_show_lists_groups_and_sorts_them(store: Path, capsys: Said) -> None:
    out, _ = said(capsys, 0, "show", "--runs", str(store))
    names = [line.split()[0] for line in out.splitlines()[1:]]
    assert sorted(names) == sorted(run.name for run in runs_in(store)) and "own-rate=0.5" in out
    assert said(capsys, 0, "show", names[0], "--runs", str(store))[0].startswith(names[0])
    grouped = said(capsys, 0, "show", "--group", "--runs", str(store))[0].splitlines()
    assert len(grouped) == 3 and all(" 2 " in line for line in grouped[1:])


def test_an_audit_a_comparison_a_plot_and_a_table(store: Path, tmp_path: Path, capsys: Said) -> None:
    words = ("--runs", str(store))
    out, _ = said(capsys, main(["audit", "--all", *words]), "audit", "--all", *words, "--json")
    assert len(json.loads(out)["runs"]) == 4
    assert "acc_eval" in said(capsys, 0, "compare", "rule=slow", "rule=quick", "--entry", "acc_eval", *words)[0]
    said(capsys, 0, "plot", "hidden_norms", "loss_eval", "--by", "rule", "--out", str(tmp_path / "p.svg"), *words)
    assert "slow" in (tmp_path / "p.json").read_text()
    assert (
        said(capsys, 0, "export", "--format", "csv", "--out", "-", *words)[0].count("\n") == 13
    )  # a head, and 4 runs of 3 rows
    _, err = said(capsys, 2, "figure", "snapshot-resmlp", "--out", str(tmp_path / "f.png"), *words)
    assert "snapshot-resmlp shows runs that faudit trained" in err


def test_the_page_and_the_live_page_show_their_verdicts_and_their_settings_as_text(store: Path) -> None:
    pytest.importorskip("vl_convert", reason="the page needs vl-convert-python")
    from faudit.report.page import html

    found = look(store)
    assert {run["verdict"] for run in found.runs.values()} <= {"trustworthy", "inconclusive", "needs walk-back"}
    assert sorted(method["rule"] for method in found.document["methods"]) == ["quick", "slow"]
    page = html(found)
    assert page.count("</script>") == 4 and "<script>alert" not in page
    data = json.loads(re.search(r'id="data">(.*?)</script>', page, flags=re.DOTALL)[1])  # type: ignore[index]
    assert {run["config"]["own-note"] for run in data["runs"].values()} == {SCRIPT}
    assert json.loads(Live(found).changes("")[1] or b"")["order"] == [run.name for run in runs_in(store)]
