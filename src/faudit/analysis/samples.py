"""Compare the networks of two groups sample by sample: which test samples does one of a pair alone answer rightly?

Both networks of a pair were tested on the same N samples. With b samples that A alone answers rightly, c that B alone
does, and m = b + c:

    B − A        (c − b) / N, the difference of the accuracies
    p (McNemar)  exact: 2 · P(X ≤ min(b, c)) for X ~ Binomial(m, ½), at most 1
    interval     (c − b)/N′ ± 1.96 · √(v / N′),  N′ = N + 2,  v = (m + 1)/N′ − ((c − b)/N′)²

The interval adds half a sample to each of the four outcomes, so it is also valid if the networks never differ. Over all
pairs together, a sample i counts with the mean d_i of its differences over the pairs. The same interval then has Σ d_i
in place of c − b, and Σ d_i² in place of m. A sample that several seeds get wrong is one sample, not several.

These numbers are about these trained networks and all samples of this kind. How another seed would do is a question for
the table over seeds.
References: McNemar, Psychometrika 12, 1947; Agresti & Min, Statistics in Medicine 24, 2005 (the interval).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from pathlib import Path
from typing import Any

from faudit.formats import printed_difference, probability
from faudit.stats import NORMAL, mcnemar_p
from faudit.store import answers
from faudit.store.index import Overview
from faudit.store.run import Run
from faudit.store.where import told

HEAD = ["seed", "samples", "A alone right", "B alone right", "B − A", "95 % interval", "p (McNemar)"]
NOTE = (
    "By sample: the two networks of a seed on the same test samples. The interval and McNemar's exact test (two-sided) "
    "are over the samples, for these networks; they say nothing about other seeds."
)
FEW = 5  # samples that differ, below which the interval can be too narrow: it covers 86 % if two differ on average


@dataclass(frozen=True)
class Answers:
    """The answers of the two networks of a pair: one bit for each test sample, 1 if it is right."""

    samples: int
    a: int
    b: int
    data: str  # the fingerprint of the dataset

    @property
    def alone(self) -> tuple[int, int]:
        """How many samples A alone and B alone answers rightly."""
        return (self.a & ~self.b).bit_count(), (self.b & ~self.a).bit_count()


@dataclass(frozen=True)
class BySample:
    """The pairs of two groups, compared sample by sample."""

    pairs: Mapping[int, Answers]  # seed → answers

    @property
    def is_one_test_set(self) -> bool:
        """Whether all pairs were tested on the same samples, so that a sample has a mean over the pairs."""
        return len({(one.data, one.samples) for one in self.pairs.values()}) == 1

    @property
    def difference(self) -> float:
        """The mean over the pairs of the difference of the accuracies."""
        gains = [(one.alone[1] - one.alone[0]) / one.samples for one in self.pairs.values()]
        return sum(gains) / len(gains)

    @property
    def interval(self) -> tuple[float, float]:
        """The interval over the samples of the mean difference; of pairs that share their test set."""
        return interval_over_samples(list(self.pairs.values()))

    @property
    def notes(self) -> list[str]:
        """What the table means, and where its interval cannot be trusted."""
        few = [seed for seed, one in self.pairs.items() if sum(one.alone) < FEW]
        less = (
            f"Fewer than five samples differ for seed {told(few)}: the interval can be too narrow, the test is exact."
        )
        return [NOTE, less] if few else [NOTE]

    @property
    def table(self) -> list[list[str]]:
        lines = [HEAD]
        for seed, one in self.pairs.items():
            a, b = one.alone
            change = [
                printed_difference((b - a) / one.samples),
                " to ".join(map(printed_difference, interval_over_samples([one]))),
            ]
            lines.append([str(seed), str(one.samples), str(a), str(b), *change, probability(mcnemar_p(a, b))])
        if len(self.pairs) > 1 and self.is_one_test_set:
            samples = str(next(iter(self.pairs.values())).samples)
            over_all = [printed_difference(self.difference), " to ".join(map(printed_difference, self.interval))]
            lines.append(["all", samples, "", "", *over_all, ""])
        return lines

    def to_json(self) -> dict[str, Any]:
        found: dict[str, Any] = {"pairs": {}}
        for seed, one in self.pairs.items():
            a, b = one.alone
            low, high = interval_over_samples([one])
            found["pairs"][str(seed)] = {
                "samples": one.samples,
                "a_alone": a,
                "b_alone": b,
                "difference": (b - a) / one.samples,
                "low": low,
                "high": high,
                "p_mcnemar": mcnemar_p(a, b),
            }
        low_high = self.interval if self.is_one_test_set else (None, None)
        return found | {"difference": self.difference, "low": low_high[0], "high": low_high[1]}


def interval_over_samples(pairs: Sequence[Answers]) -> tuple[float, float]:
    """The 95 % interval of the mean difference of pairs that were tested on the same samples."""
    n, samples = len(pairs), pairs[0].samples + 2
    total = sum(one.b.bit_count() - one.a.bit_count() for one in pairs) / n
    # Σ_i d_i² with d_i the mean over the pairs: the products of all two pairs, counted with the bits of all samples.
    squares = sum(
        (x.b & y.b).bit_count() - (x.b & y.a).bit_count() - (x.a & y.b).bit_count() + (x.a & y.a).bit_count()
        for x in pairs
        for y in pairs
    ) / (n * n)
    mean = total / samples
    half = NORMAL * sqrt(((squares + 1) / samples - mean * mean) / samples)
    return max(-1.0, mean - half), min(1.0, mean + half)


def by_sample(a: Mapping[int, Overview], b: Mapping[int, Overview], remarks: list[str]) -> BySample | None:
    """The answers of the runs of both groups, by seed; None if no pair kept them. Adds what is left out to remarks."""
    found: dict[int, Answers] = {}
    unknown, other = [], []
    for seed in sorted(a.keys() & b.keys()):
        pair = [Run(Path(side[seed]["run"])) for side in (a, b)]
        right = [text for run in pair if (text := answers.of(run)) is not None]
        tested_on = [(run.environment().get("data_sha256"), run.rows()[-1].get("test_samples")) for run in pair]
        (data, samples), _ = tested_on
        if len(right) < len(pair) or data is None or samples is None:
            unknown.append(seed)
        elif tested_on[0] != tested_on[1]:
            other.append(seed)
        else:
            one, other_one = (answers.unpacked(text, samples) for text in right)
            found[seed] = Answers(samples, one, other_one, data)
    if unknown and not (found or other):
        remarks.append("by sample: the runs did not keep their answers, so there is no test over the samples")
    elif unknown:
        remarks.append(f"by sample: the runs of seed {told(unknown)} did not keep their answers and are left out")
    if other:
        remarks.append(f"by sample: the runs of seed {told(other)} have other test samples and are left out")
    return BySample(found) if found else None
