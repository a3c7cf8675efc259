"""Figures: every panel comes from the rows, is ready for submission, and says what is missing."""

from __future__ import annotations

import hashlib
import io
import itertools
import json
import math
import shlex
import subprocess
import sys
import time
from functools import cache
from pathlib import Path

import pypdf
import pytest
from matplotlib.figure import Figure as Picture
from matplotlib.text import Text
from PIL import Image

from faudit.cli.main import main, parsed, parser
from faudit.config import RunConfig, all_keys, attribute, command
from faudit.errors import ConfigError, StoreError
from faudit.figures import FIGURES
from faudit.figures.figure import FORMATS, Numbers, deep, final, headed, line, make, of
from faudit.figures.style import VENUES, Style, symbol
from faudit.figures.table import Table
from faudit.papers.faeval import PAPER
from faudit.store.rows import Row, to_line
from tests.support import fabricate
from tests.support.pictures import texts_of

PLAN = PAPER.plan(epochs=12)
# A picture takes seconds to draw, so the fast suite draws each for one venue.
SOME_VENUES = ["neurips", *(pytest.param(venue, marks=pytest.mark.slow) for venue in ("icml", "iclr"))]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with an invented run for every run of the paper."""
    path = tmp_path_factory.mktemp("figures") / "runs"
    fabricate.all_runs(PLAN, path)
    return path


def numbers_of(name: str, runs: Path) -> Numbers:
    return headed(name, FIGURES[name](), Table(PLAN, runs))


@cache
def drawn(name: str, runs: Path, venue: str = "neurips") -> Picture:
    """A drawn figure. The tests share it."""
    return Style(venue).drawn(FIGURES[name](), numbers_of(name, runs))


@pytest.mark.slow
@pytest.mark.parametrize("name", PAPER.figures)
def test_a_figure_comes_in_every_format_with_its_numbers_beside_and_the_same_to_the_byte(
    name: str, runs: Path, tmp_path: Path
) -> None:
    digests = []
    for place in ("once", "twice"):
        (tmp_path / place).mkdir()
        paths = [tmp_path / place / f"{name}.{form}" for form in FORMATS]
        assert make(name, FIGURES[name](), Table(PLAN, runs), style=Style(), paths=paths) == []
        digests.append([hashlib.sha256(path.read_bytes()).hexdigest() for path in paths])
    assert digests[0] == digests[1]
    numbers = json.loads((tmp_path / "once" / f"{name}.json").read_text())
    assert numbers["figure"] == name and numbers["plan"]["seeds"] == [42, 123, 456] and numbers["remarks"] == []


@pytest.mark.parametrize("name", PAPER.figures)
@pytest.mark.parametrize("venue", SOME_VENUES)
def test_a_picture_has_the_venues_width_and_fonts_are_embedded(name: str, venue: str, runs: Path) -> None:
    picture, style = drawn(name, runs, venue), Style(venue)
    page = pypdf.PdfReader(io.BytesIO(style.rendered(picture, "pdf"))).pages[0]
    assert float(page.mediabox.width) == pytest.approx(72 * VENUES[venue][1 if FIGURES[name].wide else 0], abs=0.5)
    fonts = [font.get_object() for font in page["/Resources"]["/Font"].values()]  # type: ignore[index]
    assert fonts
    for font in fonts:
        assert font["/Subtype"] == "/Type0", "Type 3 fonts are refused by venues"
        below = font["/DescendantFonts"][0].get_object()["/FontDescriptor"].get_object()
        assert "/FontFile2" in below, "the font is not embedded"


@pytest.mark.parametrize("name", PAPER.figures)
@pytest.mark.parametrize("venue", SOME_VENUES)
def test_no_label_is_clipped_or_lies_on_another_and_the_legend_covers_no_data(
    name: str, venue: str, runs: Path
) -> None:
    picture = drawn(name, runs, venue)
    picture.canvas.draw()
    seen = [(text.get_text(), text.get_window_extent()) for text in texts_of(picture) if text.get_text().strip()]
    width, height = picture.get_size_inches() * picture.dpi
    for words, box in seen:
        assert box.x0 >= -1 and box.y0 >= -1 and box.x1 <= width + 1 and box.y1 <= height + 1, f"{words!r} is clipped"
    for (one, a), (two, b) in itertools.combinations(seen, 2):
        shared_x, shared_y = min(a.x1, b.x1) - max(a.x0, b.x0), min(a.y1, b.y1) - max(a.y0, b.y0)
        assert shared_x < 1 or shared_y < 1, f"{one!r} lies on {two!r}"
    for legend in picture.legends:
        box = legend.get_window_extent()
        assert box.x0 >= -1 and box.x1 <= width + 1, "the legend is clipped"
        assert not any(box.overlaps(ax.get_window_extent()) for ax in picture.axes)


@pytest.mark.parametrize("name", PAPER.figures)
def test_logarithmic_axes_label_at_least_two_decades(name: str, runs: Path) -> None:
    picture = drawn(name, runs)
    picture.canvas.draw()
    for ax in picture.axes:
        if ax.get_yscale() == "log":
            low, high = ax.get_ylim()
            labelled = [t for t in ax.yaxis.get_major_ticks() if low <= t.get_loc() <= high and t.label1.get_text()]
            assert len(labelled) >= 2 or not ax.yaxis.get_tick_params().get("labelleft", True)


@pytest.mark.parametrize("name", PAPER.figures)
def test_a_figure_is_not_empty_and_says_n(name: str, runs: Path) -> None:
    picture = drawn(name, runs)
    image = Image.open(io.BytesIO(Style().rendered(picture, "png"))).convert("L")
    dark = sum(image.histogram()[:200]) / (image.width * image.height)
    assert dark > 0.01
    assert any("n = 3" in text.get_text() for text in picture.findobj(Text) if isinstance(text, Text))


def test_in_grey_no_two_lines_of_a_panel_share_their_marker(runs: Path) -> None:
    for name in PAPER.figures:
        for ax in drawn(name, runs).axes:
            named = [one for one in ax.lines if not str(one.get_label()).startswith("_")]  # error bars have no name
            markers = [one.get_marker() for one in named if one.get_marker() not in ("None", None, "")]
            assert len(set(markers)) == len(markers), name


def test_the_middle_is_the_geometric_mean_and_the_band_one_deviation_of_the_logarithm(tmp_path: Path) -> None:
    plan = PAPER.plan(epochs=1, seeds=(1, 2))
    for seed, size in ((1, 10.0), (2, 1000.0)):
        run = fabricate.write(plan.config("resmlp bp", seed), tmp_path)
        rows = [{**row, "hidden_norms": [1.0, 1.0, 1.0, 1.0, size]} for row in run.rows()]
        run.rows_file.write_text("".join(map(to_line, rows)))
    one = line(Table(plan, tmp_path), "resmlp bp", lambda row: row["hidden_norms"][-1], log=True)
    assert one is not None and one["n"] == [2, 2] and one["epochs"] == [0, 1]
    assert one["middle"][0] == pytest.approx(100.0)
    assert one["high"][0] == pytest.approx(10 ** (2 + math.sqrt(2)))  # logs 1 and 3: mean 2, standard deviation √2


def test_a_label_is_the_declared_symbol_at_its_place() -> None:
    assert symbol("hidden_norms", "L") == r"$\|h_L\|$" and symbol("gamma", "2") == r"$\Gamma_2$"
    assert symbol("grad_norms", "2") == r"$\|\partial\ell/\partial h_2\|$"


def test_deep_means_every_block_but_the_first_and_undefined_stays_undefined() -> None:
    assert deep("gamma")(Row(gamma=[0.9, 0.1, 0.2, 0.3])) == pytest.approx(0.2)
    assert deep("gamma")(Row(gamma=[0.9, 0.1, None, 0.3])) is None and deep("rho")(Row()) is None


def test_numbers_that_overflowed_are_left_out_of_a_logarithmic_axis_and_told(tmp_path: Path) -> None:
    plan = PAPER.plan(epochs=3, seeds=(42,))
    run = fabricate.write(plan.config("vit dfa", 42), tmp_path)
    fabricate.write(plan.config("vit bp", 42), tmp_path)
    rows = run.rows()
    rows[2]["hidden_norms"] = [1.0, 1.0, 1.0, 1.0, math.inf]
    rows[3] |= {"hidden_norms": [1.0, 1.0, 1.0, 1.0, math.nan], "grad_norms": [0.0] * 5}
    run.rows_file.write_text("".join(map(to_line, rows)))
    (run.path / "done.json").rename(run.path / "failed.json")
    out = tmp_path / "f.png"
    told = make("snapshot-vit", FIGURES["snapshot-vit"](), Table(plan, tmp_path), style=Style(), paths=[out])
    assert any("diverged at epoch 3" in text for text in told) and any("left out" in text for text in told)
    numbers = json.loads(out.with_suffix(".json").read_text())
    assert numbers["panels"][0]["lines"][1]["epochs"] == [0, 1]


def test_seeds_of_different_lengths_are_averaged_where_they_are(tmp_path: Path) -> None:
    plan = PAPER.plan(epochs=6, seeds=(1, 2))
    fabricate.write(plan.config("vit dfa", 1), tmp_path)
    fabricate.write(plan.config("vit dfa", 2), tmp_path, until=2)
    one = line(Table(plan, tmp_path, partial=True), "vit dfa", of("acc_eval"), log=False)
    assert one is not None and one["n"] == [2, 2, 2, 1, 1, 1, 1] and one["low"][3:] == [None] * 4


def test_a_missing_run_is_named_with_the_command_that_makes_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = PAPER.plan("digits", epochs=2, seeds=(42, 7))
    for experiment in ("vit bp", "vit dfa"):
        fabricate.write(plan.config(experiment, 42), tmp_path)
    fabricate.write(plan.config("vit bp", 7), tmp_path)
    flags = ["--runs", str(tmp_path), "--data", "digits", "--epochs", "2", "--seeds", "42", "7"]
    out = tmp_path / "f.pdf"
    assert main(["figure", "snapshot-vit", "--out", str(out), *flags]) == 2
    said = capsys.readouterr().err
    assert "lacks vit dfa, seed 7" in said and "--partial" in said and not out.exists()
    words = next(text for text in said.splitlines() if "Make it with: " in text).split("Make it with: ")[1]
    assert asked(words) == plan.config("vit dfa", 7)
    assert main(["figure", "snapshot-vit", "--out", str(out), "--partial", *flags]) == 0
    assert out.exists() and "missing: vit dfa, seed 7" in capsys.readouterr().err


def test_a_refusal_names_the_first_missing_runs_and_counts_the_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = ["--runs", str(tmp_path), "--data", "digits", "--seeds", *map(str, range(10))]
    assert main(["figure", "snapshot-vit", "--out", str(tmp_path / "f.pdf"), *flags]) == 2
    *named, last = capsys.readouterr().err.splitlines()
    seeds = [text.split(". Make it with: ")[0] for text in named]
    assert seeds == [f"faudit: snapshot-vit lacks vit bp, seed {seed}" for seed in range(3)]
    assert last.startswith("faudit: `faudit reproduce snapshot-vit ") and "` makes these and 17 more; --partial" in last


def asked(words: str) -> RunConfig:
    args = parsed(parser(), shlex.split(words)[1:])
    given = {name: value for name in all_keys() if (value := getattr(args, attribute(name))) is not None}
    return RunConfig.parse(given, where="test")


@pytest.mark.parametrize("experiment", PAPER.recipe().experiments)
def test_the_command_of_every_experiment_makes_that_very_run(experiment: str) -> None:
    for plan in (PAPER.plan(), PAPER.plan("digits", epochs=2, seeds=(7,))):
        assert asked(command(plan.config(experiment, 7), runs="runs")) == plan.config(experiment, 7)


def test_a_partial_figure_of_nothing_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "f.pdf"
    assert main(["figure", "crossarch", "--out", str(out), "--partial", "--runs", str(tmp_path)]) == 2
    assert "none of its runs" in capsys.readouterr().err and not out.exists()


def test_an_unfinished_run_is_missing_unless_the_figure_is_partial(tmp_path: Path) -> None:
    plan = PAPER.plan(epochs=4, seeds=(42,))
    fabricate.write(plan.config("vit bp", 42), tmp_path, until=2)
    assert Table(plan, tmp_path).series("vit bp") == []
    table = Table(plan, tmp_path, partial=True)
    assert [len(one.rows) for one in table.series("vit bp")] == [3] and "up to epoch 2" in table.remarks[0]


def test_a_run_of_other_settings_is_of_no_experiment_and_how_it_was_looked_at_does_not_matter(tmp_path: Path) -> None:
    plan = PAPER.plan(epochs=2, seeds=(42,))
    config = plan.config("resmlp dfa", 42)
    fabricate.write(config.with_(lr=0.1), tmp_path)
    assert Table(plan, tmp_path).series("resmlp dfa") == []
    fabricate.write(config.with_(keep_epochs=(1,), threads=2), tmp_path)
    assert len(Table(plan, tmp_path).series("resmlp dfa")) == 1


def test_shorter_runs_stand_in_where_the_length_was_left_open_and_it_is_told(tmp_path: Path) -> None:
    fabricate.write(PAPER.plan(epochs=10).config("vit bp", 42), tmp_path)
    fabricate.write(PAPER.plan(epochs=3).config("vit bp", 42), tmp_path)
    table = Table(PAPER.plan(seeds=(42,)), tmp_path)
    assert table.series("vit bp")[0].config.epochs == 10 and table.remarks == ["vit bp: 10 epochs, the paper has 100"]
    assert Table(PAPER.plan(epochs=2), tmp_path).series("vit bp") == []
    fabricate.write(PAPER.plan().config("matched bp", 42), tmp_path)
    assert Table(PAPER.plan(seeds=(42,)), tmp_path).series("resmlp bp") == [], "30 epochs are no main run"


def test_a_seed_whose_run_is_shorter_than_the_others_is_left_out_and_it_is_told(tmp_path: Path) -> None:
    fabricate.write(PAPER.plan(epochs=10).config("vit bp", 42), tmp_path)
    fabricate.write(PAPER.plan(epochs=3).config("vit bp", 123), tmp_path)
    table = Table(PAPER.plan(), tmp_path)
    assert [one.seed for one in table.series("vit bp")] == [42]
    assert "vit bp: seed 123 left out, its run is shorter than the others" in table.remarks


def test_a_finished_run_is_not_displaced_by_a_longer_one_under_way(tmp_path: Path) -> None:
    fabricate.write(PAPER.plan(epochs=10).config("vit bp", 42), tmp_path)
    fabricate.write(PAPER.plan(epochs=100).config("vit bp", 42), tmp_path, until=2)
    table = Table(PAPER.plan(seeds=(42,)), tmp_path, partial=True)
    assert [one.config.epochs for one in table.series("vit bp")] == [10]


def test_an_imported_log_stands_in_for_a_seed_without_a_run_and_never_for_a_matched_one(tmp_path: Path) -> None:
    plan = PAPER.plan(seeds=(42, 123))
    for seed, length in ((42, 4), (123, 60)):
        run = fabricate.write(PAPER.plan(epochs=length).config("resmlp dfa", seed), tmp_path)
        run.path.rename(tmp_path / f"imported-{run.name}")
    own = fabricate.write(plan.config("resmlp dfa", 42), tmp_path)
    table = Table(plan, tmp_path)
    assert [one.run.name for one in table.series("resmlp dfa")] == [
        own.name,
        f"imported-{PAPER.plan(epochs=60).config('resmlp dfa', 123).run_id}",
    ]
    assert [one.seed for one in table.series("matched dfa")] == [42], "60 epochs are no matched run of 30"


def test_a_damaged_run_is_told_of_and_the_rest_is_drawn(tmp_path: Path) -> None:
    plan = PAPER.plan(epochs=2, seeds=(1, 2))
    for seed in plan.seeds:
        fabricate.write(plan.config("vit bp", seed), tmp_path)
    fabricate.write(plan.config("vit dfa", 1), tmp_path).rows_file.write_text("{}\n")
    (tmp_path / plan.config("vit bp", 2).run_id / "config.json").write_text("nonsense")
    table = Table(plan, tmp_path)
    assert [one.seed for one in table.series("vit bp")] == [1] and table.series("vit dfa") == []
    assert len([remark for remark in table.remarks if remark.startswith("left out")]) == 2 == len(table.remarks)


def test_text_for_a_number_is_damage_and_huge_numbers_do_not_overflow_a_band(tmp_path: Path) -> None:
    plan = PAPER.plan(epochs=1, seeds=(1, 2, 3))
    sizes: dict[int, object] = {1: 1e300, 2: 1.0, 3: "many"}
    for seed, size in sizes.items():
        run = fabricate.write(plan.config("vit bp", seed), tmp_path)
        rows = [{**row, "hidden_norms": [1.0, 1.0, 1.0, 1.0, size]} for row in run.rows()]
        run.rows_file.write_text("".join(map(to_line, rows)))
    table = Table(plan, tmp_path)
    one = line(table, "vit bp", lambda row: row["hidden_norms"][-1], log=True)
    assert one is not None and one["n"] == [2, 2] and one["high"][0] <= 1e300
    assert any("hidden_norms: expected a list of 5 numbers, got" in remark for remark in table.remarks)


def test_the_last_value_of_a_run_that_diverged_is_no_final_value(tmp_path: Path) -> None:
    plan = PAPER.plan(epochs=2, seeds=(1, 2))
    for seed in plan.seeds:
        run = fabricate.write(plan.config("vit bp", seed), tmp_path)
    (run.path / "done.json").rename(run.path / "failed.json")
    table = Table(plan, tmp_path)
    bar = final(table, "vit bp", of("acc_eval"))
    assert bar is not None and bar["n"] == 1 and any("did not reach its end" in remark for remark in table.remarks)


def test_a_bar_is_the_mean_over_the_seeds_at_the_epoch_asked_for(tmp_path: Path) -> None:
    plan = PAPER.plan(epochs=2, seeds=(1, 2))
    values = {}
    for seed in plan.seeds:
        values[seed] = fabricate.write(plan.config("resmlp bp", seed), tmp_path).rows()[1]["acc_eval"]
    bar = final(Table(plan, tmp_path), "resmlp bp", of("acc_eval"), epoch=1)
    assert bar is not None and bar["middle"] == pytest.approx(sum(values.values()) / 2) and bar["n"] == 2


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["figure", "snapshot-vti", "--out", "f.pdf"], "did you mean 'snapshot-vit'?"),
        (["figure", "snapshot-vit", "--out", "f.jpg"], "expected a file ending in .pdf, .svg, .png"),
        (["figure", "snapshot-vit", "--out", "f.pdf", "--venue", "nips"], "did you mean 'neurips'?"),
        (["figure", "snapshot-vit", "--out", "f.pdf", "--data", "cifar"], "unknown dataset 'cifar'"),
        (["figure", "snapshot-vit", "--out", "f.pdf", "--epochs", "0"], "at least 1"),
        (["figure", "snapshot-vit", "--out", "f.pdf", "--seeds", "x"], "expected a whole number"),
    ],
)
def test_nonsense_gets_one_clear_line(words: list[str], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 2
    said = capsys.readouterr().err
    assert told in said and len(said.splitlines()) == 1


def test_a_place_that_cannot_be_written_is_refused(runs: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file" / "f.pdf", tmp_path / "absent" / "f.pdf"):
        with pytest.raises(StoreError, match="cannot use"):
            make("snapshot-vit", FIGURES["snapshot-vit"](), Table(PLAN, runs), style=Style(), paths=[path])
    with pytest.raises(ConfigError):
        Style("journal")


def test_figures_import_no_torch(runs: Path, tmp_path: Path) -> None:
    code = (
        "import sys; from faudit.cli.main import main; code = main(sys.argv[1:]);"
        "assert 'torch' not in sys.modules, 'torch'; sys.exit(code)"
    )
    words = ["figure", "penalty-rescue", "--epochs", "12", "--runs", str(runs), "--out", str(tmp_path / "f.svg")]
    assert subprocess.run([sys.executable, "-c", code, *words], check=False).returncode == 0


@pytest.mark.slow
def test_a_figure_from_a_thousand_runs_takes_seconds(tmp_path: Path) -> None:
    """The target is 5 s on an idle machine; the bound here leaves room for a busy one."""
    plan = PAPER.plan(epochs=30, seeds=tuple(range(250)))
    fabricate.all_runs(plan, tmp_path / "runs", FIGURES["snapshot-resmlp"].experiments)

    began = time.perf_counter()
    figure = FIGURES["snapshot-resmlp"]()
    paths = [tmp_path / f"f.{form}" for form in FORMATS]
    make("snapshot-resmlp", figure, Table(plan, tmp_path / "runs"), style=Style(), paths=paths)
    assert time.perf_counter() - began < 20
