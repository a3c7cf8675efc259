"""Two networks on the same samples: counts and tests by hand, the interval by a slower way and by its coverage."""

from __future__ import annotations

import itertools
import json
import math
import random
from fractions import Fraction
from pathlib import Path

import pytest

from faudit.analysis.compare import compare
from faudit.analysis.runs import runs
from faudit.analysis.samples import Answers, BySample, interval_over_samples
from faudit.cli.main import main
from faudit.config import RunConfig
from faudit.stats import mcnemar_p
from faudit.store import answers
from tests.support.fabricate import write

SAMPLES = 10_000  # the size of the test set of a fabricated run


def bits(text: str) -> int:
    return int(text, 2)


@pytest.mark.parametrize(("a", "b"), [(0, 0), (1, 0), (0, 3), (1, 5), (3, 3), (2, 6), (7, 1)])
def test_the_p_is_the_share_of_ways_to_give_the_samples_away(a: int, b: int) -> None:
    """Each of the 2^m ways to give m samples to A or B; as far from the middle, or farther."""
    ways = list(itertools.product((0, 1), repeat=a + b))
    as_far = [way for way in ways if abs(2 * sum(way) - (a + b)) >= abs(b - a)]
    assert mcnemar_p(a, b) == len(as_far) / len(ways) == mcnemar_p(b, a)


def test_the_p_of_many_samples_is_exact() -> None:
    whole = 2 * sum(math.comb(5000, k) for k in range(2401))
    assert mcnemar_p(2400, 2600) == float(Fraction(whole, 2**5000))
    assert mcnemar_p(0, 5000) == 0.0 or mcnemar_p(0, 5000) < 1e-300


def test_a_pair_by_hand() -> None:
    """Ten samples; A alone is right on one, B alone on three: the difference is .2."""
    one = BySample({7: Answers(10, bits("1111100000"), bits("1111011100"), "d")})
    assert one.pairs[7].alone == (1, 3) and one.difference == pytest.approx(0.2)
    half = 1.96 * math.sqrt((5 / 12 - (2 / 12) ** 2) / 12)
    assert one.interval == pytest.approx((2 / 12 - half, 2 / 12 + half))
    assert one.notes[-1].startswith("Fewer than five samples differ for seed 7"), "1 + 3 samples"
    head, line = one.table
    assert line == ["7", "10", "1", "3", "+0.2", "−0.186 to +0.52", "0.62"] and len(head) == len(line)
    told = one.to_json()
    assert told["pairs"]["7"]["p_mcnemar"] == 0.625 and told["difference"] == pytest.approx(0.2)


def drawn(rng: random.Random, samples: int, right: float) -> int:
    return sum((rng.random() < right) << place for place in range(samples))


@pytest.mark.parametrize("pairs", [1, 2, 5])
def test_the_interval_is_that_of_the_mean_difference_of_each_sample(pairs: int) -> None:
    """The slower way: the difference of every sample, with ½ sample of +1, ½ of −1 and one of 0 added."""
    rng = random.Random(pairs)
    found = [Answers(50, drawn(rng, 50, 0.6), drawn(rng, 50, 0.7), "d") for _ in range(pairs)]
    by_sample = [
        sum((one.b >> place & 1) - (one.a >> place & 1) for one in found) / pairs for place in range(found[0].samples)
    ]
    weighted = [(1.0, value) for value in by_sample] + [(0.5, 1.0), (0.5, -1.0), (1.0, 0.0)]
    total = sum(weight for weight, _ in weighted)
    mean = sum(weight * value for weight, value in weighted) / total
    variance = sum(weight * (value - mean) ** 2 for weight, value in weighted) / total
    half = 1.96 * math.sqrt(variance / total)
    assert interval_over_samples(found) == pytest.approx((mean - half, mean + half))


def test_a_sample_counts_once_however_many_seeds_agree_on_it() -> None:
    rng = random.Random(0)
    one = Answers(40, drawn(rng, 40, 0.5), drawn(rng, 40, 0.8), "d")
    assert interval_over_samples([one] * 5) == pytest.approx(interval_over_samples([one]))


def test_networks_that_never_differ_have_an_interval() -> None:
    low, high = interval_over_samples([Answers(360, 5, 5, "d")])
    assert -0.02 < low < 0 < high < 0.02 and mcnemar_p(0, 0) == 1.0
    assert interval_over_samples([Answers(1, 0, 1, "d")])[1] <= 1.0


@pytest.mark.parametrize(
    ("a_alone", "b_alone", "least"),
    [(0.05, 0.05, 0.935), (0.02, 0.08, 0.935), (0.0, 0.05, 0.91), (0.0, 0.01, 0.84)],  # the last: two samples differ
)
def test_the_interval_covers_the_true_difference_as_often_as_it_says(
    a_alone: float, b_alone: float, least: float
) -> None:
    """2,000 test sets of 200 samples with a known difference; at 95 % the standard error of the share is .005."""
    rng = random.Random(1)
    covered = 0
    for _ in range(2000):
        a = b = 0
        for place in range(200):
            luck = rng.random()
            a |= (luck < a_alone) << place
            b |= (a_alone <= luck < a_alone + b_alone) << place
        low, high = interval_over_samples([Answers(200, a, b, "d")])
        covered += low <= b_alone - a_alone <= high
    assert least <= covered / 2000 < 0.99


def keep(config: RunConfig, store: Path, right: int, *, data: str = "d") -> None:
    """A finished run that answers the first so many samples rightly."""
    run = write(config, store)
    (run.path / "env.json").write_text(json.dumps({"data_sha256": data}))
    text = answers.packed(place < right for place in range(SAMPLES))
    (run.path / "done.json").write_text(json.dumps({"epochs": config.epochs, answers.KEY: text}))


def test_a_comparison_of_the_test_accuracy_has_a_table_over_the_samples(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for seed, right in ((1, 9000), (2, 9100)):
        keep(RunConfig(rule="bp", epochs=2, seed=seed), tmp_path, right)
        keep(RunConfig(rule="dfa", epochs=2, seed=seed), tmp_path, right - 100 * seed)
    words = ["compare", "rule=bp", "rule=dfa", "--runs", str(tmp_path)]
    assert main([*words, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)["samples"]
    assert told["difference"] == pytest.approx(-0.015) and told["low"] < -0.015 < told["high"]
    assert [(one["a_alone"], one["b_alone"]) for one in told["pairs"].values()] == [(100, 0), (200, 0)]
    for flags, marks in (
        ([], ["seed  samples", "1     10000    100            0", "all   10000", "say nothing about other seeds"]),
        (["--markdown"], ["| seed | samples |", "| 2 | 10000 | 200 | 0 |"]),
        (["--latex"], ["seed & samples & A alone right", "$2$ & $10000$ & $200$ & $0$"]),
    ):
        assert main([*words, *flags]) == 0
        said = capsys.readouterr().out
        assert all(mark in said for mark in marks), said
    found = runs(tmp_path)
    assert "A alone right" in compare(found.where(rule="bp"), found.where(rule="dfa"))._repr_html_()
    assert main([*words, "--entry", "acc_eval", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["samples"] is None, "the answers are those of the test accuracy"
    assert main([*words, "--at", "1", "--entry", "acc_eval", "test_acc"]) in (0, 2)
    assert "A alone right" not in capsys.readouterr().out, "the answers are those of the end"


def test_runs_without_answers_or_with_other_samples_are_left_out_and_told(tmp_path: Path) -> None:
    keep(RunConfig(rule="bp", epochs=2, seed=1), tmp_path, 9000)
    keep(RunConfig(rule="dfa", epochs=2, seed=1), tmp_path, 9000, data="other")
    keep(RunConfig(rule="bp", epochs=2, seed=2), tmp_path, 9000)
    write(RunConfig(rule="dfa", epochs=2, seed=2), tmp_path)
    found = runs(tmp_path)

    def of(*seeds: int) -> tuple[BySample | None, str]:
        result = compare(found.where(rule="bp", seed=list(seeds)), found.where(rule="dfa", seed=list(seeds)))
        return result.samples, " ".join(result.remarks)

    assert of(1) == (None, "by sample: the runs of seed 1 have other test samples and are left out")
    assert of(2) == (None, "by sample: the runs did not keep their answers, so there is no test over the samples")
    assert of(1, 2)[0] is None and "seed 2 did not keep" in of(1, 2)[1] and "seed 1 have other" in of(1, 2)[1]


def test_pairs_on_different_data_have_no_interval_over_all() -> None:
    pairs = {1: Answers(4, 0b1100, 0b1110, "one"), 2: Answers(4, 0b1100, 0b1110, "two")}
    assert len(BySample(pairs).table) == 3 and BySample(pairs).to_json()["low"] is None
    same = {seed: Answers(4, one.a, one.b, "one") for seed, one in pairs.items()}
    assert BySample(same).table[-1][:2] == ["all", "4"]


def test_damaged_answers_are_refused_in_a_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for rule in ("bp", "dfa"):
        keep(RunConfig(rule=rule, epochs=2, seed=1), tmp_path, 9000)
    file = next(tmp_path.glob("*-dfa-*")) / "done.json"
    file.write_text(file.read_text().replace('"test_right": "/', '"test_right": "'))
    assert main(["compare", "rule=bp", "rule=dfa", "--runs", str(tmp_path)]) == 2
    said = capsys.readouterr()
    assert "is damaged: test_right: expected one bit for each of 10000 samples" in said.err and said.out == ""
