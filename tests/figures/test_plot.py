"""Plots of any entry: every number comes from the rows, every kind can be drawn, and what is left out is told."""

from __future__ import annotations

import io
import json
import math
import re
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

import pypdf
import pytest
from matplotlib.text import Text
from PIL import Image

from faudit import plot, scatter
from faudit.cli.main import main
from faudit.config import RunConfig
from faudit.errors import ConfigError, StoreError
from faudit.figures.figure import FORMATS, Drawn
from faudit.figures.style import VENUES, rule_look
from faudit.stats import student_interval
from faudit.store.rows import to_line
from faudit.store.run import Run
from tests.support.fabricate import write

SEEDS = (1, 2, 3)
EPOCHS = 4


def config(rule: str, seed: int, **more: Any) -> RunConfig:
    return RunConfig(rule=rule, epochs=EPOCHS, seed=seed, **more)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("plot") / "runs"
    for seed in SEEDS:
        write(config("bp", seed), path)
        for penalty in (0.0, 0.01):
            write(config("dfa", seed, penalty=penalty), path)
    return path


def rows_of(store: Path, one: RunConfig) -> list[Any]:
    return Run(store / one.run_id).rows()


def texts(picture: Drawn) -> str:
    return "\n".join(text.get_text() for text in picture.picture.findobj(Text) if isinstance(text, Text))


def test_a_line_is_the_mean_and_its_band_one_deviation_over_the_seeds(store: Path) -> None:
    """On a log axis both are of the logarithm."""
    drawn = plot("hidden_norms", "gamma", runs=store, layers=[2], by=["rule", "penalty"])
    norms, gammas = drawn.numbers["panels"]
    assert (norms["log"], gammas["log"]) == (True, False) and norms["title"] == "hidden_norms[2]"
    names = [group["name"] for group in drawn.numbers["groups"]]
    assert names == ["BP, λ = 0", "DFA, λ = 0", "DFA, λ = 0.01"]
    line = gammas["lines"][1]
    rows = [rows_of(store, config("dfa", seed)) for seed in SEEDS]
    for place, epoch in enumerate(line["epochs"]):
        values = [run[epoch]["gamma"][2] for run in rows]
        assert line["middle"][place] == pytest.approx(statistics.fmean(values)) and line["n"][place] == 3
        assert line["high"][place] == pytest.approx(statistics.fmean(values) + statistics.stdev(values))
        sizes = [math.log(run[epoch]["hidden_norms"][2]) for run in rows]
        assert norms["lines"][1]["middle"][place] == pytest.approx(math.exp(statistics.fmean(sizes)))
    assert "n = 3 seeds; line: mean, band: ± 1 s.d." in drawn.numbers["footnote"] and drawn.remarks == []


def test_a_mark_is_the_mean_at_the_end_with_students_interval(store: Path) -> None:
    drawn = plot("test_acc", runs=store, where=["rule=dfa", "penalty=0"], at="end")
    (panel,) = drawn.numbers["panels"]
    (line,) = panel["lines"]
    values = [rows_of(store, config("dfa", seed))[-1]["test_acc"] for seed in SEEDS]
    assert sorted(line["by_run"].values()) == sorted(values) and line["middle"] == pytest.approx(
        statistics.fmean(values)
    )
    assert (line["low"], line["high"]) == pytest.approx(student_interval(values))
    assert "95 % interval" in drawn.numbers["footnote"]
    early = plot("acc_eval", runs=store, where=["rule=bp"], at=2).numbers["panels"][0]["lines"][0]
    assert sorted(early["by_run"].values()) == sorted(rows_of(store, config("bp", s))[2]["acc_eval"] for s in SEEDS)


def test_an_interval_stays_within_what_is_possible(store: Path) -> None:
    drawn = plot("acc_eval", runs=store, where=["rule=bp", "seed<3"], at=0)
    (line,) = drawn.numbers["panels"][0]["lines"]
    assert line["n"] == 2 and 0.0 <= line["low"] < line["middle"] < line["high"] <= 1.0


def test_a_scatter_has_a_point_for_each_run(store: Path) -> None:
    drawn = scatter("growth", "test_acc", runs=store, by="rule")
    (panel,) = drawn.numbers["panels"]
    assert (panel["log_x"], panel["log"]) == (True, False) and "9 runs; one point per run" in drawn.numbers["footnote"]
    points = {name: point for line in panel["lines"] for name, point in line["points"].items()}
    for seed in SEEDS:
        one = config("bp", seed)
        assert points[one.run_id][1] == rows_of(store, one)[-1]["test_acc"]
    assert len(points) == 9 and panel["label_x"] == "growth (ratio)"


def test_groups_are_by_what_differs_and_a_mixed_one_is_told(store: Path) -> None:
    assert plot("gamma", runs=store).numbers["by"] == ["rule", "penalty"]
    assert plot("gamma", runs=store, where=["rule=bp"]).numbers["by"] == ["rule"]
    drawn = plot("gamma", runs=store, by="rule")
    assert drawn.remarks == ["DFA: its runs differ in more than the seed (penalty 0.0, 0.01), and so does the spread"]
    assert drawn.numbers["groups"][1]["mixes"] == {"penalty": [0.0, 0.01]} and "3–6 runs" in drawn.numbers["footnote"]


def test_the_controls_of_the_papers_rules_are_named_alike() -> None:
    named = {rule: rule_look(f"frozen-{rule}")[0] for rule in ("bp", "fa", "dfa", "drtp")}
    alike = {rule: f"frozen blocks (embed by {rule.upper()})" for rule in ("bp", "fa", "dfa")}
    assert named == alike | {"drtp": "frozen-drtp"}


def test_layers_have_panels_that_share_their_axis(store: Path) -> None:
    drawn = plot("gamma", runs=store, layers=[])
    assert [panel["title"] for panel in drawn.numbers["panels"]] == [f"gamma[{block}]" for block in range(4)]
    limits = {ax.get_ylim() for ax in drawn.picture.axes}
    assert len(limits) == 1 and len(drawn.picture.axes) == 4
    assert "$\\Gamma_{3}$ (cosine)" in texts(drawn)
    both = plot("rho_bp", "gamma", runs=store, over="deep").numbers["panels"]
    assert both[0]["lines"] == [] and both[1]["lines"], "an entry that no run has is an empty panel beside the other"


@pytest.mark.parametrize("venue", ["neurips", *(pytest.param(one, marks=pytest.mark.slow) for one in ("icml", "iclr"))])
def test_a_plot_has_the_venues_width_and_nothing_leaves_the_page(store: Path, venue: str) -> None:
    for drawn, wide in (
        (plot("gamma", runs=store, venue=venue), 0),
        (plot("gamma", "hidden_norms", "acc_eval", runs=store, at="end", venue=venue), 1),
        (scatter("growth", "test_acc", runs=store, venue=venue), 0),
    ):
        page = pypdf.PdfReader(io.BytesIO(drawn.style.rendered(drawn.picture, "pdf"))).pages[0]
        assert float(page.mediabox.width) == pytest.approx(72 * VENUES[venue][wide], abs=0.5)
        drawn.picture.canvas.draw()
        renderer = drawn.picture.canvas.get_renderer()  # type: ignore[attr-defined]  # of the Agg canvas
        edges = drawn.picture.bbox
        for text in drawn.picture.findobj(Text):
            assert isinstance(text, Text)
            if re.search("[A-Za-z]{2}", text.get_text()):  # not a tick, which may be outside of the axis and not drawn
                box = text.get_window_extent(renderer)
                assert box.x0 >= edges.x0 - 1 and box.x1 <= edges.x1 + 1, text.get_text()


def test_the_scale_is_chosen_or_asked_for(store: Path) -> None:
    assert not plot("hidden_norms", runs=store, scale="linear").numbers["panels"][0]["log"]
    assert plot("acc_eval", runs=store, scale="log").numbers["panels"][0]["log"]
    drawn = plot("train_loss", "gamma_undefined", runs=store, scale="log")
    assert drawn.numbers["panels"][1]["lines"] == [] and "a logarithmic axis cannot show" in drawn.remarks[0]


def test_the_command_writes_every_format_with_its_numbers(store: Path, tmp_path: Path) -> None:
    words = ["plot", "hidden_norms", "gamma", "--by", "rule", "--layer", "2", "--runs", str(store), "--out"]
    for form in FORMATS:
        assert main([*words, str(tmp_path / f"my.{form}")]) == 0
    numbers = json.loads((tmp_path / "my.json").read_text())
    assert numbers["plot"] == ["hidden_norms", "gamma"] and len(numbers["panels"]) == 2
    with Image.open(tmp_path / "my.png") as image:
        assert image.size[0] == pytest.approx(300 * VENUES["neurips"][1], abs=2)
    again = plot("hidden_norms", "gamma", by="rule", layers=[2], runs=store)
    assert again.style.rendered(again.picture, "svg") == (tmp_path / "my.svg").read_bytes(), "the same bytes"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["gama"], "unknown entry 'gama', did you mean 'gamma'?"),
        (["gamma", "--by", "rul"], "by: unknown setting 'rul', did you mean 'rule'?"),
        (["gamma", "--where", "rule=fa"], "no run in"),
        (["gamma", "--layer", "9"], "gamma: expected a block from 0 to 3, got 9"),
        (["gamma", "--layer", "x"], "expected a whole number or all, got 'x'"),
        (["gamma", "--layer", "1", "--over", "max"], "not allowed with"),
        (["gamma", "--over", "median"], "Valid: mean, max, last, deep"),
        (["gamma", "--at", "last"], "at: expected an epoch ≥ 0 or end, got 'last'"),
        (["gamma", "--at", "-1"], "at: expected an epoch ≥ 0 or end"),
        (["gamma", "--at", "99"], "has no row of epoch 99"),
        (["gamma", "--scale", "square"], "Valid: auto, log, linear"),
        (["gamma", "--scatter"], "--scatter: expected two entries, got 1"),
        (["gamma", "rho", "--scatter", "--layer", "1", "2"], "--scatter: expected one --layer"),
        (["rho"], "no number to plot: expected rho in the rows, got none"),
        (["gamma", "--venue", "nature"], "unknown venue"),
        (["gamma", "--by", "seed", "rule", "penalty", "--where", "nobody"], "unknown run 'nobody'"),
    ],
)
def test_what_cannot_be_plotted_is_refused(
    store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], told: str
) -> None:
    assert main(["plot", *words, "--runs", str(store), "--out", str(tmp_path / "x.png")]) == 2
    assert told in capsys.readouterr().err and not list(tmp_path.iterdir())


def test_a_file_that_cannot_be_written_is_refused(
    store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for out, told in (
        (tmp_path / "x.gif", "expected a file ending in .pdf"),
        (Path("-"), "standard output"),
        (tmp_path / "none" / "x.png", "cannot use"),
    ):
        assert main(["plot", "gamma", "--runs", str(store), "--out", str(out)]) == 2
        said = capsys.readouterr().err
        assert told in said and said.count("\n") == 1


def test_too_many_groups_are_refused(tmp_path: Path) -> None:
    for seed in range(25):
        write(RunConfig(epochs=1, seed=seed), tmp_path)
    with pytest.raises(ConfigError, match="expected at most 24 groups of runs, got 25 by seed"):
        plot("gamma", runs=tmp_path, by="seed")


def test_unfinished_damaged_and_overflowed_runs_are_told(tmp_path: Path) -> None:
    write(config("bp", 1), tmp_path)
    stopped = write(config("bp", 2), tmp_path, until=2)
    wild = write(config("bp", 3), tmp_path)
    *before, last = wild.rows()
    last["hidden_norms"] = [math.inf] * 5
    wild.rows_file.write_text("".join(map(to_line, [*before, last])))
    broken = write(config("bp", 4), tmp_path)
    broken.rows_file.write_text("{\n")
    drawn = plot("hidden_norms", runs=tmp_path)
    assert any("is stopped: drawn up to epoch 2" in remark for remark in drawn.remarks)
    assert any("1 values that overflowed" in remark for remark in drawn.remarks)
    assert any("line 1 is damaged" in remark for remark in drawn.remarks)
    assert drawn.numbers["panels"][0]["lines"][0]["n"] == [3, 3, 3, 2, 1]
    at_end = plot("acc_eval", runs=tmp_path, at="end")
    assert any(f"{stopped.name} is stopped, so it has no end" in remark for remark in at_end.remarks)
    (tmp_path / "empty").mkdir()
    with pytest.raises(StoreError, match="no run in"):
        plot("gamma", runs=tmp_path / "empty")


def test_a_notebook_shows_the_picture_and_text_stays_text(store: Path) -> None:
    drawn = plot("gamma", runs=store, by="rule")
    page = drawn._repr_html_()
    assert page.startswith('<figure><img src="data:image/png;base64,') and "differ in more than the seed" in page
    assert repr(drawn) == "Drawn('gamma (mean)'; write it with .save('FILE.pdf'))"
    evil = Drawn("<script>", {**drawn.numbers, "remarks": ["</figure><script>"]}, drawn.picture, drawn.style)
    assert "<script>" not in evil._repr_html_()


@pytest.mark.slow
def test_a_thousand_runs_are_plotted_within_five_seconds(tmp_path: Path) -> None:
    """Processor time, not time on the clock: the machine may be busy with other tests."""
    template = write(RunConfig(rule="dfa", epochs=30, seed=10**6), tmp_path / "template").path
    files = {path.name: path.read_text() for path in template.iterdir()}
    for seed in range(1000):
        one = RunConfig(rule=("bp", "fa", "dfa", "frozen-dfa")[seed % 4], epochs=30, seed=seed)
        folder = tmp_path / "runs" / one.run_id
        folder.mkdir(parents=True)
        document = {"format": 1, "run_id": one.run_id, "config": one.to_json()}
        for name, text in {**files, "config.json": json.dumps(document)}.items():
            (folder / name).write_text(text)
    words = ["plot", "hidden_norms", "gamma", "--by", "rule", "--layer", "2", "--runs", str(tmp_path / "runs")]
    words += ["--out", str(tmp_path / "x.pdf")]
    code = (
        f"import resource\nfrom faudit.cli.main import main\nassert main({words!r}) == 0\n"
        "used = resource.getrusage(resource.RUSAGE_SELF)\nprint(used.ru_utime + used.ru_stime)"
    )

    def spent() -> float:
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        return float(done.stdout.split()[-1])

    assert min(spent() for _ in range(3)) <= 5.0
