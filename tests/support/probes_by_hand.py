"""Every entry of every probe by hand, in numpy and float64, one sample at a time; ``ORACLES`` has them by probe.

On a ResMLP, whose derivatives ``tests/support/oracle.py`` writes out. An undefined number comes out as NaN here, from
0/0, and is given as None; the random directions are the probes' own. The network is float32: a sample whose output
error is below 100 rounding steps of 1 in float32 is fitted and left out.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Callable, Iterator
from copy import copy
from typing import Any

import numpy as np
import pytest
import torch

from faudit.nets.net import part
from faudit.probes.perturbation import DIRECTIONS, DRAWS, STEP, directions
from faudit.probes.probe import Reading
from tests.support.nets import CLASSES, Setup
from tests.support.oracle import Array, Oracle
from tests.support.rules_by_hand import CREDITS, expected, oracle_of

Entries = dict[str, Any]

# float32 against float64: 1e-4 of a number, or 1e-5 of a cosine. A size has no such floor, the study's finite
# differences in float32 a higher one.
FLOOR = {"grad_norms": 0.0, "grad_norms_frobenius": 0.0, "grad_relative": 0.0, "nudging": 1e-7, "nudging_study": 4e-6}
FLOOR |= {"rho_study": 1e-3}  # this and nudging_study are differences of float32 losses, and round with the processor


class Known:
    """What the computation by hand knows of a network: states, gradients, credits, losses, all float64."""

    def __init__(self, setup: Setup, reading: Reading, rule: str) -> None:
        self.setup, self.reading, self.rule = setup, reading, rule
        self.oracle: Oracle = oracle_of(setup)
        self.y = setup.y.numpy()
        self.errors = self.oracle.error(self.y)
        self.is_open = np.array(lengths(self.errors)) >= 100 * 2.0**-23  # float32 has 23 bits after the point
        self.states = self.oracle.h
        self.gradients = self.oracle.bp(self.errors)[1]
        self.credits = self.credits_of(setup)
        self.blocks = range(setup.net.blocks)

    def angles(self, a: Array, b: Array) -> list[float]:
        """The cosine of each sample that is not fitted."""
        return cosines(a[self.is_open], b[self.is_open])

    def credits_of(self, setup: Setup) -> list[Array]:
        return CREDITS[self.rule](setup, self.oracle)

    def redrawn(self) -> Iterator[list[Array]]:
        """The credits under fresh feedback."""
        for draw in range(DRAWS):
            other = copy(self.setup)
            fresh = other.rule.init(other.net, other.x[:1], self.reading.generator(f"feedback.{draw}"))
            other.state = {name: value.double() for name, value in fresh.items()}
            yield self.credits_of(other)

    def losses(self, tap: int, sample: int, states: Array) -> Array:
        """The sample's loss at each of some states of a tap."""
        logits = self.oracle.onward(tap, states)
        above = logits - logits.max(axis=1, keepdims=True)
        return np.asarray(np.log(np.exp(above).sum(axis=1)) - above[:, self.y[sample]])


def value(number: float) -> float | None:
    return None if math.isnan(number) else float(number)


def mean(numbers: list[float]) -> float | None:
    """Over those that have a value."""
    there = [number for number in numbers if not math.isnan(number)]
    return float(np.mean(there)) if there else None


def cosine(a: Array, b: Array) -> float:
    return float((a / np.linalg.norm(a)) @ (b / np.linalg.norm(b)))


def cosines(a: Array, b: Array) -> list[float]:
    return [cosine(one, other) for one, other in zip(a, b, strict=True)]


def lengths(vectors: Array) -> list[float]:
    return [math.sqrt(math.fsum(float(x) ** 2 for x in vector)) for vector in vectors]


def correlation(a: Array, b: Array) -> float:
    return float(np.corrcoef(a.ravel(), b.ravel())[0, 1])


def norms_by_hand(k: Known) -> Entries:
    return {"hidden_norms": [statistics.median(lengths(h)) for h in k.states]}


def gradients_by_hand(k: Known) -> Entries:
    return {
        "grad_norms": [statistics.median(lengths(g)) for g in k.gradients],
        "grad_norms_frobenius": [math.hypot(*lengths(g)) for g in k.gradients],
    }


def alignment_by_hand(k: Known) -> Entries:
    angles = [k.angles(k.credits[l], k.gradients[l]) for l in k.blocks]
    return {
        "gamma": [mean(one) for one in angles],
        "gamma_undefined": [sum(map(math.isnan, one)) for one in angles],
        "fitted": int((~k.is_open).sum()),
    }


def accuracy_by_hand(k: Known) -> Entries:
    losses = [float(k.losses(0, i, k.states[0][i : i + 1])[0]) for i in range(len(k.y))]
    return {"acc_eval": np.mean(k.oracle.logits.argmax(axis=1) == k.y), "loss_eval": np.mean(losses)}


def perturbation_by_hand(k: Known) -> Entries:
    redrawn = list(k.redrawn())
    blocks = [perturbed_block(k, l, [credits[l] for credits in redrawn]) for l in k.blocks]
    return {name: [block[name] for block in blocks] for name in blocks[0]}


def perturbed_block(k: Known, l: int, fresh: list[Array]) -> Entries:
    moves = np.stack([v.numpy() for v in directions(k.reading, l)], axis=1)  # [n, direction, features]
    like = k.gradients[l]
    noise = torch.randn(like.shape, generator=k.reading.generator(f"noise.{l}"), dtype=torch.float64).numpy()
    true, crude = np.zeros((2, len(like), DIRECTIONS))
    for i, (h, v) in enumerate(zip(k.states[l], moves, strict=True)):
        step = STEP * np.linalg.norm(h)
        true[i] = (k.losses(l, i, h + step * v) - k.losses(l, i, h - step * v)) / (2 * step)
        short = np.tile(h.astype(np.float32), (DIRECTIONS, 1))  # the study's step is in the net's own precision
        moved = short + (STEP * v).astype(np.float32)
        crude[i] = (k.losses(l, i, moved.astype(np.float64)) - k.losses(l, i, short.astype(np.float64))) / STEP

    def predicted(signal: Array) -> Array:
        return np.asarray(np.einsum("nd,nkd->nk", signal, moves))

    def correlations(signal: Array) -> list[float]:
        pairs = zip(predicted(signal)[k.is_open], true[k.is_open], strict=True)
        return [correlation(p, t) for p, t in pairs]

    def rho(signal: Array) -> float | None:
        return mean(correlations(signal))

    own = predicted(k.credits[l])
    of_bp, of_noise = rho(like), rho(noise)
    with_noise = sum(not math.isnan(r) for r in correlations(noise))
    valid = of_bp is not None and of_noise is not None and of_bp > 0.99
    valid = valid and abs(of_noise or 0.0) < 5 / math.sqrt((DIRECTIONS - 1) * with_noise)
    single = k.reading.gradients[l].double().numpy()  # what Γ is held against
    gammas = [mean(k.angles(credit, like)) for credit in fresh]
    return {
        "rho": rho(k.credits[l]) if valid else None,
        "rho_valid": valid,
        "rho_undefined": sum(map(math.isnan, correlations(k.credits[l]))),
        "rho_pooled": value(correlation(own[k.is_open], true[k.is_open])) if valid else None,
        "rho_study": value(correlation(own, crude)),
        "rho_bp": of_bp,
        "rho_random": of_noise,
        **null_by_hand("rho", rho(k.credits[l]) if valid else None, [rho(credit) for credit in fresh]),
        **null_by_hand("gamma", mean(k.angles(k.credits[l], like)), gammas),
        "gamma_null_draws": gammas,
        "gamma_bp": mean(k.angles(like, single)),
    }


def null_by_hand(name: str, own: float | None, draws: list[float | None]) -> Entries:
    names = [f"{name}_null_{what}" for what in ("mean", "std", "place", "p")]
    there = [draw for draw in draws if draw is not None]
    if own is None or not there:
        return dict.fromkeys(names)
    spread, below = statistics.stdev(there), sum(draw < own for draw in there)
    place = [below / DRAWS, (1 + DRAWS - below) / (1 + DRAWS)] if spread else [None, None]
    return dict(zip(names, [statistics.mean(there), spread, *place], strict=True))


def precision_by_hand(k: Known) -> Entries:
    errors = np.array(lengths(k.errors))
    angles = []
    for own, true in zip(k.reading.gradients, k.gradients, strict=True):
        both = zip(own.double().numpy()[k.is_open], true[k.is_open], strict=True)
        angles.append([cosine(a, b) for a, b in both if a.any() or b.any()])
    return {
        "precision": [mean(one) for one in angles],
        "precision_agree": [np.mean(np.array(one) > 0.99) if one else None for one in angles],
        "precision_undefined": [int(k.is_open.sum()) - len(one) for one in angles],
        "precision_fitted": int((~k.is_open).sum()),
        "grad_relative": [
            statistics.median([size / e for size, e in zip(lengths(g), errors, strict=True) if e])
            if errors.any()
            else None
            for g in k.gradients
        ],
    }


def stability_by_hand(k: Known) -> Entries:
    size = len(k.y) // 8
    middle = k.gradients[len(k.blocks) // 2]
    means = [middle[b * size : (b + 1) * size].mean(axis=0) for b in range(8)] if size else []
    angles = [cosine(a, b) for a, b in itertools.combinations(means, 2)]
    return {"stability": value(float(np.mean(angles))) if angles else None, "stability_samples": size}


def nudging_by_hand(k: Known) -> Entries:
    def nudged(l: int, signal: Array) -> float | None:
        changes = []
        for i, (h, a) in enumerate(zip(k.states[l], signal, strict=True)):
            if k.is_open[i] and a.any():
                moved = h - 0.01 * np.linalg.norm(h) * a / np.linalg.norm(a)
                changes.append(float(k.losses(l, i, moved[None])[0] - k.losses(l, i, h[None])[0]))
        return mean(changes)

    def as_the_study(l: int) -> float | None:
        changes = []
        for i, (h, a) in enumerate(zip(k.states[l], k.credits[l], strict=True)):
            short = h.astype(np.float32)
            moved = (short - (0.01 * a).astype(np.float32)).astype(np.float64)
            changes.append(float(k.losses(l, i, moved[None])[0] - k.losses(l, i, short[None].astype(np.float64))[0]))
        return mean(changes) if k.credits[l].any() else None

    noise = [
        torch.randn(k.states[l].shape, generator=k.reading.generator(f"nudge.{l}"), dtype=torch.float64).numpy()
        for l in k.blocks
    ]
    return {
        "nudging": [nudged(l, k.credits[l]) for l in k.blocks],
        "nudging_random": [nudged(l, noise[l]) for l in k.blocks],
        "nudging_study": [as_the_study(l) for l in k.blocks],
    }


def distribution_by_hand(k: Known) -> Entries:
    angles = [[c for c in k.angles(k.credits[l], k.gradients[l]) if not math.isnan(c)] for l in k.blocks]
    means = [mean(one) for one in angles]
    assert len(means) == 3, "one interior block"
    return {
        "gamma_quantiles": [
            np.quantile(one, [0.05, 0.25, 0.5, 0.75, 0.95]).tolist() if one else None for one in angles
        ],
        "gamma_chance": [1.96 / math.sqrt(k.gradients[0].shape[1] * len(one)) if one else None for one in angles],
        "gamma_first": means[0],
        "gamma_interior": means[1],
        "gamma_last": means[2],
    }


def update_by_hand(k: Known) -> Entries:
    own = expected(k.rule, k.setup, 0.0, eps=1e-6, clip=1.0)
    true = k.oracle.bp(k.errors / len(k.y))[0]

    def compared(names: list[str]) -> tuple[float | None, float | None]:
        mine, bp = (np.concatenate([grads[name].ravel() for name in names]) for grads in (own, true))
        ratio = np.linalg.norm(mine) / np.linalg.norm(bp) if mine.any() and bp.any() else math.nan
        return value(cosine(mine, bp)), value(float(ratio))

    parts = ["embed", *(f"blocks.{l}" for l in k.blocks), "readout"]
    each = [compared([name for name in k.setup.params if part(name) == one]) for one in parts]
    whole = compared(list(k.setup.params))
    return {
        "update_cosine": whole[0],
        "update_ratio": whole[1],
        "update_cosines": [cosine for cosine, _ in each],
        "update_ratios": [ratio for _, ratio in each],
    }


def linear_by_hand(k: Known) -> Entries:
    def read(h: Array) -> float | None:
        fit, test = h[::2], h[1::2]
        if not len(test):
            return None
        centre = fit.mean(axis=0)
        scale = np.sqrt(((fit - centre) ** 2).mean()) or 1.0
        a, b = (fit - centre) / scale, (test - centre) / scale
        targets = np.eye(CLASSES)[k.y[::2]]
        rest = targets - targets.mean(axis=0)
        weights = np.linalg.solve(a.T @ a + 1e-3 * len(a) * np.eye(a.shape[1]), a.T @ rest)
        return float(np.mean((b @ weights + targets.mean(axis=0)).argmax(axis=1) == k.y[1::2]))

    return {"linear_acc": [read(h) for h in k.states]}


def movement_by_hand(k: Known) -> Entries:
    def turn(name: str) -> float:
        w = k.oracle.p[name]
        return math.sqrt(1 - cosine(w.ravel(), w[::-1].ravel()) ** 2)

    return {"block_turn": [min(turn(f"blocks.{l}.w1.weight"), turn(f"blocks.{l}.w2.weight")) for l in k.blocks]}


def rank_by_hand(k: Known) -> Entries:
    def rank(g: Array) -> float | None:
        squares = mean([cosine(a, b) ** 2 for a, b in itertools.permutations(g, 2)])
        return None if squares is None else 1 / squares

    return {"reference_rank": [rank(g) for g in k.gradients]}


def weights_by_hand(k: Known) -> Entries:
    if k.rule != "dfa":
        return {"weight_cosine": [], "weight_angle": []}
    rows, matrices = k.oracle.p["readout.head.weight"], [k.setup.state[f"B.{l}"].numpy().T for l in k.blocks]
    whole = [cosine(b.ravel(), rows.ravel()) for b in matrices]
    return {
        "weight_cosine": [mean(cosines(b, rows)) for b in matrices],
        "weight_angle": [None if c != c else math.degrees(math.acos(c)) for c in whole],
    }


def swap_by_hand(k: Known) -> Entries:
    other = copy(k.setup)
    fresh = other.rule.init(other.net, other.x[:1], k.reading.generator("swap"))
    other.state = {name: value.double() for name, value in fresh.items()}
    own, swapped = (expected(k.rule, setup, 0.0, eps=1e-6, clip=1.0) for setup in (k.setup, other))

    def compared(names: list[str]) -> float | None:
        return value(cosine(*(np.concatenate([grads[name].ravel() for name in names]) for grads in (own, swapped))))

    parts = ["embed", *(f"blocks.{l}" for l in k.blocks), "readout"]
    return {
        "swap_cosine": compared(list(k.setup.params)),
        "swap_cosines": [compared([name for name in k.setup.params if part(name) == one]) for one in parts],
    }


def samples_by_hand(k: Known) -> Entries:
    """E[T] and E[T²] of T = mean of C[i, π(i)]: two samples are paired with any two others, each as often."""

    def paired(a: Array, g: Array) -> tuple[float | None, float | None]:
        defined = [bool(one.any() and other.any()) for one, other in zip(a, g, strict=True)]
        a, g = a[k.is_open & defined], g[k.is_open & defined]
        n = len(a)
        if n < 2:
            return None, None
        c = [[cosine(one, other) for other in g] for one in a]
        two = list(itertools.permutations(range(n), 2))
        squares = sum(c[i][j] ** 2 for i in range(n) for j in range(n)) / n
        products = sum(c[i][j] * c[h][m] for i, h in two for j, m in two) / (n * (n - 1))
        first = statistics.fmean(number for row in c for number in row)
        return first, math.sqrt(max((squares + products) / n**2 - first**2, 0.0))

    pairs = [paired(k.credits[l], k.gradients[l]) for l in k.blocks]
    return {"gamma_others": [pair[0] for pair in pairs], "gamma_others_std": [pair[1] for pair in pairs]}


ORACLES: dict[str, Callable[[Known], Entries]] = {
    "norms": norms_by_hand,
    "gradients": gradients_by_hand,
    "alignment": alignment_by_hand,
    "accuracy": accuracy_by_hand,
    "perturbation": perturbation_by_hand,
    "precision": precision_by_hand,
    "stability": stability_by_hand,
    "nudging": nudging_by_hand,
    "distribution": distribution_by_hand,
    "update": update_by_hand,
    "linear": linear_by_hand,
    "movement": movement_by_hand,
    "rank": rank_by_hand,
    "weights": weights_by_hand,
    "swap": swap_by_hand,
    "samples": samples_by_hand,
}


def agree(name: str, got: Any, want: Any) -> bool:
    """Whether what a probe gave is what the hand gives, in shape, type and number."""
    if isinstance(want, list):
        return isinstance(got, list) and len(got) == len(want) and all(map(agree, [name] * len(want), got, want))
    if want is None or got is None or isinstance(want, bool | int):
        return type(got) is type(want) and got == want
    return isinstance(got, float) and got == pytest.approx(want, rel=1e-4, abs=FLOOR.get(name, 1e-5))
