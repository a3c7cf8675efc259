"""The published study's claims, each with its value, our measurement of it, and whether the two agree.  (no torch)

A claim is one row of the study's results; its parts are numbers that the logs of some arms give. Ours is the mean over
the seeds with a 95 % interval (Student's t), for sizes over decades the geometric mean with the range. Agreement is
within a tolerance: ± .015 for accuracies, a factor 3 for norms, ± 2 epochs for the first epoch at which a check fires;
for Γ and ρ twice the study's standard deviation, ± .05 where it gives none. ρ is compared by the study's own definition
(``rho_study``); the sound one stands beside it in the rows. Only one's own runs count, and every arm of a part must
have one; a run that diverged is no agreement.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from faudit.audit.protocol import PROTOCOLS
from faudit.config import command
from faudit.figures.figure import at, deep, draw_spread, of
from faudit.figures.table import Series, Table
from faudit.stats import student
from faudit.store.rows import Row, growth

STUDY_BUFFER = 1024  # the study's gradients are of the mean loss over so many samples
Measure = Callable[[list[Row]], float | None]


@dataclass(frozen=True)
class Part:
    """One number of a claim. ``arms`` are pooled; ``kind`` says how it is compared and written."""

    what: str
    arms: tuple[str, ...]
    measure: Measure
    kind: str  # "accuracy", "norm", "epoch", "never", "cosine"
    published: float | None
    spread: float | None = None  # the study's standard deviation, of a cosine
    seeds: tuple[int, ...] | None = None  # only these, where the study speaks of one seed

    def series(self, table: Table) -> list[Series]:
        """Our runs of it; none unless every arm has one."""
        found = [[one for one in table.series(arm) if not one.imported and self._counts(one)] for arm in self.arms]
        return [one for series in found for one in series] if all(found) else []

    def expected(self, table: Table) -> int:
        """How many runs the plan has for it."""
        return len(self.arms) * sum(self.seeds is None or seed in self.seeds for seed in table.plan.seeds)

    def _counts(self, one: Series) -> bool:
        return self.seeds is None or one.seed in self.seeds

    @property
    def tolerance(self) -> float:
        return 2 * self.spread if self.spread is not None else TOLERANCES[self.kind]


@dataclass(frozen=True)
class Claim:
    """One row of the study's results."""

    name: str
    published: str
    parts: tuple[Part, ...]


def last(value: Callable[[Row], float | None], scale: float = 1.0) -> Measure:
    """An entry of the last row."""

    def measure(rows: list[Row]) -> float | None:
        number = value(rows[-1])
        return None if number is None else number * scale

    return measure


def at_epoch(epoch: int, value: Callable[[Row], float | None]) -> Measure:
    """An entry of one epoch's row."""
    return lambda rows: next((value(row) for row in rows if row["epoch"] == epoch), None)


def fires(check: Callable[[Row], bool]) -> Measure:
    """The first epoch at which a check fires; infinite if it never does."""
    return lambda rows: next((float(row["epoch"]) for row in rows if check(row)), math.inf)


def scale_fires(row: Row) -> bool:
    """Check (a)."""
    grown = growth(row["hidden_norms"])
    return grown is not None and grown > PROTOCOLS["paper"]["scale"].growth


def floor_fires(row: Row) -> bool:
    """Check (b)."""
    gradient = row["grad_norms"][-1]
    return gradient is not None and gradient < PROTOCOLS["paper"]["floor"].floor


def any_fires(row: Row) -> bool:
    return scale_fires(row) or floor_fires(row)


def largest_growth(rows: list[Row]) -> float | None:
    return max((grown for row in rows if (grown := growth(row["hidden_norms"])) is not None), default=None)


ACCURACY, H_L = last(of("test_acc")), last(at("hidden_norms", -1))
G_L, G_2 = (last(at("grad_norms", tap), 1 / STUDY_BUFFER) for tap in (-1, 2))
PENALISED, VANILLA, BP = ("matched dfa λ=0.01",), ("matched dfa",), ("matched bp",)
BP_ARMS = ("resmlp bp", "noln bp", "vit bp", "student bp", "matched bp")


def accuracy(arm: str, published: float, what: str = "accuracy") -> Part:
    return Part(what, (arm,), ACCURACY, "accuracy", published)


CLAIMS: tuple[Claim, ...] = (
    Claim("BP accuracy, 100 epochs", ".615 ± .004", (accuracy("resmlp bp", 0.615),)),
    Claim(
        "BP ‖h_L‖ at the end; ‖g_L‖ (n = 1024)",
        "≈ 200; 3–5e-5",
        (
            Part("‖h_L‖", ("resmlp bp",), H_L, "norm", 200.0),
            Part("‖g_L‖", ("resmlp bp",), G_L, "norm", 4e-5),
        ),
    ),
    Claim("DFA accuracy, 100 epochs", ".306 ± .008", (accuracy("resmlp dfa", 0.306),)),
    Claim(
        "DFA ‖h_L‖; (b) first fires, seed 42",
        "≈ 5e8; epoch 4",
        (
            Part("‖h_L‖", ("resmlp dfa",), H_L, "norm", 5e8),
            Part("(b) fires", ("resmlp dfa",), fires(floor_fires), "epoch", 4, seeds=(42,)),
        ),
    ),
    Claim(
        "DFA Γ: layer 0; layers 1–3",
        "+.42; ≈ 0",
        (
            Part("Γ_0", ("resmlp dfa",), last(at("gamma", 0)), "cosine", 0.42),
            Part("deep Γ", ("resmlp dfa",), last(deep("gamma")), "cosine", 0.0),
        ),
    ),
    Claim("FA (block-level) accuracy, 100 epochs", ".401 ± .009", (accuracy("resmlp fa", 0.401),)),
    Claim("frozen blocks, embed by DFA", ".349 ± .003", (accuracy("resmlp frozen-dfa", 0.349),)),
    Claim(
        "matched 30 epochs: BP / BP + λ = 1e-2",
        ".585 ± .001 / .532 ± .007",
        (accuracy("matched bp", 0.585, "BP"), accuracy("matched bp λ=0.01", 0.532, "BP + λ")),
    ),
    Claim(
        "matched 30 epochs: DFA / DFA + λ = 1e-2",
        ".301 ± .006 / .360 ± .002",
        (accuracy("matched dfa", 0.301, "DFA"), accuracy("matched dfa λ=0.01", 0.360, "DFA + λ")),
    ),
    Claim(
        "λ = 1e-2: ‖h_L‖; ‖g_2‖ (n = 1024); deep Γ; deep ρ",
        "4e4; ≈ 9e-7; +.151 ± .025; +.080 ± .012",
        (
            Part("‖h_L‖", PENALISED, H_L, "norm", 4e4),
            Part("‖g_2‖", PENALISED, G_2, "norm", 9e-7),
            Part("deep Γ", PENALISED, last(deep("gamma")), "cosine", 0.151, spread=0.025),
            Part("deep ρ", PENALISED, last(deep("rho_study")), "cosine", 0.080, spread=0.012),
        ),
    ),
    Claim(
        "vanilla DFA at epoch 1: deep Γ; deep ρ",
        "−.008 ± .013; −.003 ± .005",
        (
            Part("deep Γ", VANILLA, at_epoch(1, deep("gamma")), "cosine", -0.008, spread=0.013),
            Part("deep ρ", VANILLA, at_epoch(1, deep("rho_study")), "cosine", -0.003, spread=0.005),
        ),
    ),
    Claim(
        "λ = 1e-4: deep Γ; deep ρ",
        "−.02; −.004",
        (
            Part("deep Γ", ("matched dfa λ=0.0001",), last(deep("gamma")), "cosine", -0.02),
            Part("deep ρ", ("matched dfa λ=0.0001",), last(deep("rho_study")), "cosine", -0.004),
        ),
    ),
    Claim(
        "fresh-B null on the λ = 1e-2 networks: deep Γ (20 draws)",
        "+.002 ± .022",
        (
            Part("deep Γ", PENALISED, last(deep("gamma_null_mean")), "cosine", 0.002, spread=0.022),
            Part("s.d. of a draw", PENALISED, last(draw_spread("gamma")), "cosine", 0.022, spread=0.022),
        ),
    ),
    Claim(
        "BP gradient as credit: deep Γ; deep ρ",
        "1.000; +.997",
        (
            Part("deep Γ", BP, last(deep("gamma")), "cosine", 1.0, spread=0.0005),
            Part("deep ρ", BP, last(deep("rho_study")), "cosine", 0.997, spread=0.0025),
        ),
    ),
    Claim(
        "ViT-Mini DFA, seed 42: (a), (b) first fire; accuracy",
        "epochs 1, 3; .256",
        (
            Part("(a) fires", ("vit dfa",), fires(scale_fires), "epoch", 1, seeds=(42,)),
            Part("(b) fires", ("vit dfa",), fires(floor_fires), "epoch", 3, seeds=(42,)),
            Part("accuracy", ("vit dfa",), ACCURACY, "accuracy", 0.256, seeds=(42,)),
        ),
    ),
    Claim("BP, any net, any seed: (a), (b) fire", "never", (Part("fires", BP_ARMS, fires(any_fires), "never", None),)),
    Claim(
        "StudentNet DFA: largest growth of a block; fires",
        "≈ 7×; never",
        (
            Part("growth", ("student dfa",), largest_growth, "norm", 7.0),
            Part("fires", ("student dfa",), fires(any_fires), "never", None),
        ),
    ),
)  # fmt: skip

TOLERANCES = {"accuracy": 0.015, "norm": 3.0, "epoch": 2.0, "cosine": 0.05, "never": 0.0}


def judged(table: Table) -> list[dict[str, Any]]:
    """Every claim with our numbers: one JSON-able entry each."""
    entries = []
    for number, claim in enumerate(CLAIMS, start=1):
        parts = [measured(part, table) for part in claim.parts]
        arms = list(dict.fromkeys(arm for part in claim.parts for arm in part.arms))
        verdicts = {part["verdict"] for part in parts}
        plan = table.plan
        entries.append(
            {
                "number": number,
                "claim": claim.name,
                "published": claim.published,
                "parts": parts,
                "verdict": next(verdict for verdict in VERDICTS if verdict in verdicts),
                "commands": [
                    command(plan.config(arm, seed), runs=str(table.runs)) for arm in arms for seed in plan.seeds
                ],
            }
        )
    return entries


VERDICTS = ("deviates", "not run", "reproduced")  # the first that a part has is the claim's


def measured(part: Part, table: Table) -> dict[str, Any]:
    """A part with our values of it, their middle and interval, and the verdict."""
    series = part.series(table)
    diverged = [one.seed for one in series if one.status == "failed"]
    found = {one.run.name: part.measure(one.rows) for one in series if one.status == "done"}
    values = [value for value in found.values() if value is not None and not math.isnan(value)]
    entry: dict[str, Any] = {
        "what": part.what,
        "kind": part.kind,
        "published": part.published,
        "tolerance": part.tolerance,
        "n": len(values),
        "expected": part.expected(table),
        "diverged": len(diverged),
        "shorter": sorted({one.config.epochs for one in series} - {table.plan.config(arm).epochs for arm in part.arms}),
        "values": [None if math.isinf(value) else value for value in values],
    }
    if part.kind == "accuracy":
        buffer = [row for one in series if (row := one.rows[-1].get("acc_eval")) is not None]
        entry["on_buffer"] = statistics.fmean(buffer) if buffer else None
    if not values:
        verdict = "deviates" if diverged else "not run"
        return {**entry, "ours": None, "low": None, "high": None, "verdict": verdict}
    middle, low, high = interval(values, part.kind)
    entry |= {
        name: v if v is not None and math.isfinite(v) else None
        for name, v in (("ours", middle), ("low", low), ("high", high))
    }
    agree = agrees(part, middle, values) and not diverged
    return {**entry, "verdict": "reproduced" if agree else "deviates"}


def interval(values: list[float], kind: str) -> tuple[float, float | None, float | None]:
    """Middle, low and high: mean and 95 % interval (none of one value); for norms and epochs a middle and the range."""
    if kind == "norm" and all(0 < value < math.inf for value in values):
        return statistics.geometric_mean(values), min(values), max(values)
    if kind in ("norm", "epoch", "never"):
        return statistics.median(values), min(values), max(values)
    return statistics.fmean(values), *(student(values) or (None, None))


def agrees(part: Part, middle: float, values: list[float]) -> bool:
    if part.kind == "never":
        return all(math.isinf(value) for value in values)
    assert part.published is not None, "only a claim of never has no number"
    if part.kind == "norm":
        return 0 < middle < math.inf and abs(math.log(middle / part.published)) <= math.log(part.tolerance)
    return abs(middle - part.published) <= part.tolerance
