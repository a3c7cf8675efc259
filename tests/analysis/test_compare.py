"""Two groups paired by seed: the numbers by hand, what is refused, and text, Markdown, LaTeX and JSON."""

from __future__ import annotations

import itertools
import json
import math
import statistics
from pathlib import Path

import pytest

from faudit.analysis.compare import Compared, compare
from faudit.analysis.runs import runs
from faudit.cli.main import main
from faudit.config import RunConfig
from faudit.errors import ConfigError
from faudit.stats import least_sign_flip_p, sign_flip_p, student_p
from faudit.store.quantity import Quantity
from faudit.store.rows import to_line
from faudit.store.run import Run
from tests.support.fabricate import write

ACCURACY = Quantity("test_acc")


def compared(differences: list[float]) -> Compared:
    return Compared(ACCURACY, {seed: (0.5, 0.5 + one) for seed, one in enumerate(differences)})


def test_three_pairs_by_hand() -> None:
    """d = 0.1, 0.2, 0.3: mean 0.2, s 0.1, t = 0.2 / (0.1 / √3) = √12; for 2 degrees p = 1 − t / √(2 + t²)."""
    one = compared([0.1, 0.2, 0.3])
    assert one.n == 3 and one.mean == pytest.approx(0.2) and one.deviation == pytest.approx(0.1)
    assert one.effect == pytest.approx(2.0) and one.t == pytest.approx(math.sqrt(12))
    assert one.p_t == pytest.approx(1 - math.sqrt(12 / 14))
    assert one.p_exact == 0.25, "of 8 sign patterns, +++ and −−− are as far from 0"
    low, high = one.interval or (0.0, 0.0)
    half = 4.302652729749464 * 0.1 / math.sqrt(3)  # the quantile of Student's t with 2 degrees
    assert low == pytest.approx(0.2 - half) and high == pytest.approx(0.2 + half)


def test_two_pairs_by_hand() -> None:
    """One degree of freedom is Cauchy's distribution: p = 1 − 2/π · arctan t."""
    one = compared([0.1, 0.3])
    assert one.t == pytest.approx(2.0) and one.p_t == pytest.approx(1 - 2 / math.pi * math.atan(2.0))
    assert one.p_exact == 0.5
    assert one.interval is None, "Student's interval, −1.07 to 1.47, holds every difference of two accuracies"
    close = compared([0.5, 0.6])
    low, high = close.interval or (0.0, 0.0)
    assert low == pytest.approx(0.55 - 12.7062 * 0.05, abs=1e-4) and high == 1.0, "no accuracies differ by more"


def test_one_pair_has_a_difference_and_no_test() -> None:
    one = compared([0.1])
    assert one.mean == pytest.approx(0.1) and one.interval is None
    assert (one.t, one.p_t, one.p_exact, one.effect) == (None, None, None, None)


def test_equal_differences_have_no_t_and_no_effect() -> None:
    one = Compared(ACCURACY, {1: (0.25, 0.5), 2: (0.5, 0.75)})
    assert one.t is one.p_t is one.effect is None and one.interval == (0.25, 0.25) and one.p_exact == 0.5
    zero = Compared(ACCURACY, {1: (0.5, 0.5), 2: (0.25, 0.25)})
    assert zero.p_exact == 1.0 and zero.mean == 0.0


@pytest.mark.parametrize("values", [[1.0, -2.0, 4.0, 0.5, 3.0], [0.3, 0.1, 0.2, -0.1], [1.0, 0.0, 2.0], [-1.0] * 6])
def test_the_exact_p_is_the_share_of_sign_patterns(values: list[float]) -> None:
    sums = [
        abs(sum(s * v for s, v in zip(signs, values, strict=True)))
        for signs in itertools.product((1, -1), repeat=len(values))
    ]
    assert sign_flip_p(values) == sum(one >= abs(sum(values)) - 1e-12 for one in sums) / len(sums)


def test_the_exact_p_has_a_smallest_value_and_does_not_ask_the_scale() -> None:
    for n in range(2, 9):
        assert sign_flip_p([1.0 + place for place in range(n)]) == least_sign_flip_p(n) == 2 / 2**n
    assert sign_flip_p([1e-30, 2e-30, -1e-30]) == sign_flip_p([1.0, 2.0, -1.0])
    assert sign_flip_p([0.1, 0.2, -0.3]) == 1.0, "a sum of 0 but for rounding"
    assert sign_flip_p([1.0] * 17) is None and sign_flip_p([]) is None and least_sign_flip_p(0) == 1.0


def test_students_p_is_that_of_the_quantile_and_of_closed_forms() -> None:
    for t in (0.0, 0.5, 3.0, 40.0):
        assert student_p(t, 2) == student_p(-t, 2) == pytest.approx(1 - t / math.sqrt(2 + t * t))
    assert student_p(2.2281388519649385, 10) == pytest.approx(0.05)  # the quantile of tables
    assert student_p(1e6, 30) >= 0.0


@pytest.fixture
def store(tmp_path: Path) -> Path:
    path = tmp_path / "runs"
    for rule, seed in itertools.product(("bp", "dfa"), (1, 2, 3)):
        write(RunConfig(rule=rule, epochs=2, seed=seed), path)
    write(RunConfig(rule="dfa", epochs=2, seed=4), path)
    write(RunConfig(rule="bp", epochs=2, seed=5), path, until=1)
    write(RunConfig(rule="dfa", epochs=2, seed=1, penalty=0.01), path)
    return path


def test_a_comparison_is_of_the_last_rows_of_common_seeds(store: Path) -> None:
    found = runs(store)
    result = compare(found.where(rule="bp"), found.where(rule="dfa", penalty=0.0), "test_acc", "gamma", over="deep")
    accuracy, gamma = result.results
    assert list(accuracy.pairs) == [1, 2, 3] and result.differ == {"rule": ["bp", "dfa"]} and result.a == "rule=bp"
    for seed, (a, b) in accuracy.pairs.items():
        assert a == Run(store / RunConfig(rule="bp", epochs=2, seed=seed).run_id).rows()[-1]["test_acc"]
        assert b == Run(store / RunConfig(rule="dfa", epochs=2, seed=seed).run_id).rows()[-1]["test_acc"]
        row = Run(store / RunConfig(rule="dfa", epochs=2, seed=seed).run_id).rows()[-1]
        assert gamma.pairs[seed][1] == pytest.approx(statistics.fmean(row["gamma"][1:]))
    assert any("seed 4 has no partner" in remark for remark in result.remarks)
    assert any("is stopped and is left out" in remark for remark in result.remarks)
    notes = " ".join(result.notes)
    assert "cannot give a p below 0.25" in notes and "2 quantities are tested" in notes
    at_one = compare(found.where(rule="bp"), found.where(rule="dfa", penalty=0), "acc_eval", at=1).results[0]
    assert at_one.pairs[1][0] == Run(store / RunConfig(rule="bp", epochs=2, seed=1).run_id).rows()[1]["acc_eval"]


@pytest.mark.parametrize(
    ("a", "b", "told"),
    [
        (
            "rule=bp",
            "rule=dfa",
            "rule=dfa mixes methods: expected runs that differ in the seed alone, got penalty 0.0, 0.01",
        ),
        ("rule=bp,seed=1", "rule=dfa,seed=2", "no pairs: expected runs with the same seeds, got seeds 1"),
        ("rule=bp", "rule=bp", "is in both groups"),
        ("rule=bp", "rule=fa", "rule=fa: expected finished runs, got none"),
        ("rule=bp", "rule=bp,seed=5", "expected finished runs, got none"),
        ("rule=bp", "penalty=0.01,epochs=9", "expected finished runs, got none"),
        ("rule=bp", ",", "expected a group such as rule=dfa"),
        ("rule=bp", "nobody", "unknown run 'nobody'"),
    ],
)
def test_groups_that_cannot_be_compared_are_refused(
    store: Path, capsys: pytest.CaptureFixture[str], a: str, b: str, told: str
) -> None:
    assert main(["compare", a, b, "--runs", str(store)]) == 2
    said = capsys.readouterr()
    assert told in said.err and said.out == "" and said.err.count("\n") == 1


def test_two_runs_of_one_seed_are_refused(store: Path) -> None:
    write(RunConfig(rule="bp", epochs=2, seed=2, keep_epochs=(1,)), store)
    found = runs(store)
    with pytest.raises(ConfigError, match="has two runs of seed 2"):
        compare(found.where(rule="bp"), found.where(rule="dfa", penalty=0))


def test_a_pair_that_overflowed_is_left_out_and_none_is_refused(store: Path) -> None:
    found = runs(store)
    a, b = found.where(rule="bp", seed=[1, 2]), found.where(rule="dfa", penalty=0, seed=[1, 2])
    for place, run in enumerate(b):
        *before, last = run.rows()
        last["loss_eval"] = math.inf if place else 1.0
        run.rows_file.write_text("".join(map(to_line, [*before, last])))
    result = compare(a, b, "loss_eval")
    assert result.results[0].n == 1 and "seed 2 has no finite value" in result.remarks[0]
    with pytest.raises(ConfigError, match="expected a finite value in both runs of a pair, got none"):
        compare(a, b, "rho")
    with pytest.raises(ConfigError, match="unknown entry 'tst_acc', did you mean 'test_acc'"):
        compare(a, b, "tst_acc")


def test_the_command_prints_text_markdown_latex_and_json(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["compare", "rule=bp", "rule=dfa,penalty=0", "--runs", str(store)]

    def said(*flags: str) -> str:
        assert main([*words, *flags]) == 0
        return capsys.readouterr().out

    document = json.loads(said("--json"))
    (numbers,) = document["results"]
    assert numbers["n"] == 3 and numbers["difference"] == pytest.approx(numbers["mean_b"] - numbers["mean_a"])
    text, page, tex = said(), said("--markdown"), said("--latex")
    assert text.splitlines()[0].split()[:4] == ["n", "A", "B", "B"] and "cannot give a p below 0.25" in text
    assert page.startswith("|  | n | A | B |") and "| test_acc | 3 |" in page
    assert (
        r"\begin{tabular}{@{}lrrrrrrrr@{}}" in tex and r"test\_acc & $3$ &" in tex and "±" not in tex.split("begin")[1]
    )
    assert main([*words, "--json", "--latex"]) == 2
