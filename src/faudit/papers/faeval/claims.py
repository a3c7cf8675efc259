"""The claims of the paper, one for each row of its results.

ρ is compared by the paper's own definition (``rho_study``). The rows also hold the sound one (``rho``). Gradients
are compared in the paper's unit.
"""

from __future__ import annotations

from faudit.audit.protocol import PROTOCOLS
from faudit.figures.figure import at, deep, draw_spread, of
from faudit.papers.claim import Claim, Part, at_epoch, fires, last
from faudit.store.rows import Row, growth

BUFFER = 1024  # samples: the paper's gradients are of the mean loss over this many


def scale_fires(row: Row) -> bool:
    """Check (a) of the paper."""
    grown = growth(row["hidden_norms"])
    return grown is not None and grown > PROTOCOLS["paper"]["scale"].growth


def floor_fires(row: Row) -> bool:
    """Check (b) of the paper."""
    gradient = row["grad_norms"][-1]
    return gradient is not None and gradient < PROTOCOLS["paper"]["floor"].floor


def any_fires(row: Row) -> bool:
    return scale_fires(row) or floor_fires(row)


def largest_growth(rows: list[Row]) -> float | None:
    return max((grown for row in rows if (grown := growth(row["hidden_norms"])) is not None), default=None)


ACCURACY, H_L = last(of("test_acc")), last(at("hidden_norms", -1))
G_L, G_2 = (last(at("grad_norms", tap), 1 / BUFFER) for tap in (-1, 2))
PENALISED, VANILLA, BP = ("matched dfa λ=0.01",), ("matched dfa",), ("matched bp",)
EVERY_BP = ("resmlp bp", "noln bp", "vit bp", "student bp", "matched bp")


def accuracy(experiment: str, published: float, what: str = "accuracy") -> Part:
    return Part(what, (experiment,), ACCURACY, "accuracy", published)


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
    Claim("BP, any net, any seed: (a), (b) fire", "never", (Part("fires", EVERY_BP, fires(any_fires), "never", None),)),
    Claim(
        "StudentNet DFA: largest growth of a block; fires",
        "≈ 7×; never",
        (
            Part("growth", ("student dfa",), largest_growth, "norm", 7.0),
            Part("fires", ("student dfa",), fires(any_fires), "never", None),
        ),
    ),
)  # fmt: skip
