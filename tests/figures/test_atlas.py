"""The atlas shows each rule's accuracy against BP's, its deep Γ and the verdict of the audit that was kept."""

from __future__ import annotations

import itertools
import runpy
import shutil
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import pytest
from matplotlib.patches import Rectangle

from faudit.audit.audit import audit
from faudit.audit.method import worst
from faudit.audit.protocol import DEFAULT, protocol
from faudit.cli.main import main
from faudit.figures.atlas import GLYPHS, NOT_AUDITED, Atlas
from faudit.figures.figure import headed, make
from faudit.figures.plan import Plan, Recipe
from faudit.figures.style import Style
from faudit.figures.table import Table
from faudit.papers.paper import recipe_with
from faudit.store.audits import FILE
from faudit.store.run import Run, runs_in
from faudit.sweep.study import study_of
from faudit.train import fit
from tests.support import fabricate
from tests.support.paths import ROOT
from tests.support.pictures import texts_of

DOCUMENT: dict[str, Any] = {
    "name": "{data} {net} {rule}", "epochs": 5, "batch-size": 128, "eval-size": 64, "log-every": 5, "lr": 1e-2,
    "include": [
        {"net": "mlp", "sizes": [8, 8, 8],
         "grid": {"rule": ["bp", "frozen-bp", "dfa-layers", "frozen-dfa-layers"], "seed": [1, 2]}},
        {"net": "resmlp", "width": 8, "depth": 2, "grid": {"rule": ["bp", "frozen-bp"], "seed": [1, 2]}},
    ],
}  # fmt: skip


def small() -> Plan:
    found = study_of(DOCUMENT, {}, where="").experiments
    return Recipe({name: runs[0] for name, runs in found.items()}, data="digits", seeds=(1, 2)).plan()


@pytest.fixture(scope="module")
def audited(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small atlas: trained and audited."""
    store = tmp_path_factory.mktemp("atlas") / "runs"
    runs = [fit(config, store) for config in study_of(DOCUMENT, {}, where="").runs]
    for run in runs:
        audit(run, protocol(DEFAULT), data_dir=None)
    return store


@pytest.fixture
def store(audited: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(audited, tmp_path / "runs"))


def cells(store: Path) -> dict[tuple[str, str], dict[str, Any]]:
    numbers = Atlas().numbers(Table(small(), store))
    return {(one["net"], one["rule"]): one for one in numbers["cells"]}


def runs_of(store: Path, rule: str) -> list[Run]:
    found = [run for run in runs_in(store) if run.config().net == "mlp" and run.config().rule == rule]
    return sorted(found, key=lambda run: run.config().seed)


def test_a_cell_is_the_difference_to_bp_the_deep_gamma_and_the_worst_verdict(store: Path) -> None:
    own, bp = runs_of(store, "dfa-layers"), runs_of(store, "bp")
    last = [run.rows()[-1] for run in own]
    lost = [100 * (a["test_acc"] - b.rows()[-1]["test_acc"]) for a, b in zip(last, bp, strict=True)]
    one = cells(store)["mlp", "dfa-layers"]
    assert one["difference"]["middle"] == pytest.approx(fmean(lost))
    assert one["difference"]["high"] - one["difference"]["middle"] == pytest.approx(stdev(lost))
    assert one["gamma"]["middle"] == pytest.approx(fmean((row["gamma"][1] + row["gamma"][2]) / 2 for row in last))
    assert one["frozen"]["middle"] == pytest.approx(
        fmean(run.rows()[-1]["test_acc"] for run in runs_of(store, "frozen-dfa-layers"))
    )
    judged = [audit(run, protocol(DEFAULT), data_dir=None) for run in own]
    assert one["verdict"] == worst([each.verdict for each in judged]) and sum(one["verdicts"].values()) == 2
    assert one["null"]["middle"] == pytest.approx(
        fmean(fmean(each.case.last["gamma_null_mean"][1:]) for each in judged)
    )
    fired = {finding.check for each in judged for finding in each.verdict.findings if finding.status == "fired"}
    assert one["verdict"] != "needs walk-back" or set(one["reasons"]) == fired


def test_a_pair_that_the_study_leaves_out_does_not_apply(store: Path) -> None:
    assert cells(store)["resmlp", "dfa-layers"] == {
        "data": "digits", "net": "resmlp", "rule": "dfa-layers", "applies": False,
    }  # fmt: skip


def test_logs_without_weights_give_the_same_atlas(store: Path) -> None:
    before = cells(store)
    for run in runs_in(store):
        run.checkpoint.unlink()
    assert cells(store) == before


def test_a_run_that_was_not_audited_is_said_to_be(store: Path) -> None:
    (runs_of(store, "dfa-layers")[0].path / FILE).unlink()
    one = cells(store)["mlp", "dfa-layers"]
    assert one["verdicts"][NOT_AUDITED] == 1 and one["verdict"] in (NOT_AUDITED, "needs walk-back")


def test_a_method_that_diverged_with_one_seed_needs_walk_back(store: Path) -> None:
    run = runs_of(store, "bp")[0]
    (run.path / "done.json").unlink()
    run.fail({"reason": "diverged: planted", "epoch": 5, "entry": None, "tap": None})
    one = cells(store)["mlp", "bp"]
    assert one["verdict"] == "needs walk-back" and one["reasons"]["diverged"] == 1 and one["accuracy"]["n"] == 1


def test_every_verdict_is_drawn_as_a_sign_and_what_does_not_apply_is_hatched(store: Path) -> None:
    numbers = headed("atlas", Atlas(), Table(small(), store))
    picture = Style().drawn(Atlas(), numbers)
    (ax,) = picture.axes
    there = [one for one in numbers["cells"] if one["applies"]]
    drawn = [text.get_text() for text in ax.texts if text.get_text() in GLYPHS.values()]
    assert sorted(drawn) == sorted(GLYPHS[one["verdict"]] for one in there) and len(there) == 3
    assert sum(bool(patch.get_hatch()) for patch in ax.patches if isinstance(patch, Rectangle)) == 1
    footnote = picture._supxlabel.get_text()  # type: ignore[attr-defined]  # it has no getter
    assert "n = 2 seeds" in footnote.replace("\n", " ") and DEFAULT in footnote


def test_a_missing_run_is_named_with_the_sweep_that_makes_it(
    store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.rmtree(runs_of(store, "bp")[0].path)
    told = make("atlas", Atlas(), Table(small(), store, partial=True), style=Style(), paths=[tmp_path / "atlas.png"])
    assert "missing: digits mlp bp, seed 1" in told
    assert main(["figure", "atlas", "--runs", str(store), "--out", str(tmp_path / "a.png")]) == 2
    said = capsys.readouterr().err
    assert "atlas lacks digits mlp bp, seed 42" in said and "`faudit sweep atlas --runs" in said


def test_the_logs_that_are_kept_without_weights_give_the_same_verdicts(
    store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    head = "".join(f"{key} = {DOCUMENT[key]}\n" for key in ("epochs", "batch-size", "eval-size", "log-every", "lr"))
    grid = '[grid]\nrule = ["bp", "frozen-bp", "dfa-layers", "frozen-dfa-layers"]\nseed = [1, 2, 3]\n'
    (tmp_path / "study.toml").write_text(f'{head}net = "mlp"\nsizes = [8, 8, 8]\n{grid}')
    keep = runpy.run_path(str(ROOT / "scripts" / "keep-logs"))["main"]
    assert keep(str(tmp_path / "study.toml"), str(store), str(tmp_path / "kept")) == 1
    assert capsys.readouterr().out.startswith("4 runs of ")
    kept = list(runs_in(tmp_path / "kept"))
    assert len(kept) == 8 and not list((tmp_path / "kept").rglob("*.safetensors"))
    assert sum((run.path / FILE).exists() for run in kept) == 4, "of the rules, not of their controls"
    before, after = cells(store), cells(tmp_path / "kept")
    assert all(after["mlp", rule] == before["mlp", rule] for rule in ("bp", "dfa-layers"))


@pytest.mark.slow
@pytest.mark.parametrize("venue", ["neurips", "icml"])
def test_the_whole_atlas_is_legible_at_the_width_of_a_page(venue: str, tmp_path: Path) -> None:
    plan = recipe_with("atlas").plan()
    fabricate.all_runs(plan, tmp_path)
    numbers = headed("atlas", Atlas(), Table(plan, tmp_path))
    assert len(numbers["cells"]) == 18 * 3 * 2 and not numbers["rehearsal"]
    picture = Style(venue).drawn(Atlas(), numbers)
    picture.canvas.draw()
    width, height = picture.get_size_inches() * picture.dpi
    seen = [(text, text.get_window_extent()) for text in texts_of(picture) if text.get_text().strip()]
    for text, box in seen:
        assert float(text.get_fontsize()) >= 6
        assert box.x0 >= -1 and box.y0 >= -1 and box.x1 <= width + 1 and box.y1 <= height + 1, text.get_text()
    for (one, a), (two, b) in itertools.combinations(seen, 2):
        across, down = min(a.x1, b.x1) - max(a.x0, b.x0), min(a.y1, b.y1) - max(a.y0, b.y0)
        assert across < 1 or down < 1, f"{one.get_text()!r} lies on {two.get_text()!r}"
