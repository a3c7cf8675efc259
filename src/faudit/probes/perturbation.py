"""Perturbation correlation ρ: does the credit predict how the loss changes when the hidden state is moved?

Per sample 32 random unit directions v; the change that the credit a predicts, ⟨a, v⟩, against the change that happens.
Two definitions, side by side:

    rho        Δ = [ℓ(h + εv) − ℓ(h − εv)] / 2ε with ε = 1e-3·‖h‖, in float64; Pearson r over the directions of one
               sample, mean over the samples that have one
    rho_study  Δ = [ℓ(h + εv) − ℓ(h)] / ε with ε = 1e-3 whatever the size of h, in the net's own precision; Pearson r
               over all samples and directions together

Where ‖h‖ is large, an absolute step is below the resolution of float32 and ``rho_study`` measures rounding. The true
changes do not depend on the credit, so controls come almost free: the BP gradient must give ρ > .99 and a random vector
ρ ≈ 0, else the block's ρ is invalid and is no number (the study's, which has no such control, stays as it came);
feedback drawn afresh gives the null distribution of ρ and Γ for a rule that has feedback. ``gamma_bp`` is Γ of the
gradient in float64: 1, or the reference is off. Every number but the study's leaves out fitted samples
(``Reading.fitted``), as Γ does.
Costs 96 forward passes over the buffer from every tap; memory does not grow with the number of directions.
Reference: arXiv 2606.21126 for ``rho_study``. The relative step and float64 are ours.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from math import sqrt
from typing import Any, ClassVar

import torch
from torch import Tensor

from faudit.probes import Entry, Need, Tier
from faudit.probes.probe import Probe, Reading
from faudit.tensors import Correlation, cosines, mean_defined, norms

DIRECTIONS = 32
DRAWS = 20
AT_ONCE = 8  # directions in memory
STEP = 1e-3  # of ‖h‖ in ours, absolute in the study's
SOUND = 0.99  # least ρ of the BP gradient
CHANCE = 5.0  # standard deviations that noise may be from 0: once in two million blocks


Entries = dict[str, float | int | bool | list[float | None] | None]  # of one block


class Perturbation(Probe):
    """ρ per block with its controls, and the null distribution of ρ and Γ under fresh feedback."""

    tier: ClassVar[Tier] = "full"
    version: ClassVar[int] = 2
    needs: ClassVar[tuple[Need, ...]] = ("credit",)
    entries: ClassVar[tuple[Entry, ...]] = (
        Entry(
            "rho",
            "blocks",
            "ρ: relative step, central differences, float64, mean over the samples that are not fitted; null where "
            "rho_valid is false.",
            unit="correlation",
            symbol=r"\rho_l",
        ),
        Entry("rho_valid", "blocks", "Whether both controls hold: rho_bp near 1 and rho_random near 0.", kind="flag"),
        Entry(
            "rho_undefined", "blocks", "How many of these samples have no correlation.", kind="count", unit="samples"
        ),
        Entry(
            "rho_pooled",
            "blocks",
            "ρ with one correlation over all directions of these samples; null where rho_valid is false.",
            unit="correlation",
        ),
        Entry(
            "rho_study",
            "blocks",
            "ρ as published: absolute step, one-sided difference, the network's own precision, all samples pooled.",
            unit="correlation",
        ),
        Entry("rho_bp", "blocks", "Control: ρ of the BP gradient, which must be near 1.", unit="correlation"),
        Entry("rho_random", "blocks", "Control: ρ of a random vector, which must be near 0.", unit="correlation"),
        Entry(
            "rho_null_mean",
            "blocks",
            "Mean of ρ over fresh draws of the feedback; null for a rule without feedback.",
            unit="correlation",
        ),
        Entry("rho_null_std", "blocks", "Standard deviation of ρ over the same draws.", unit="correlation"),
        Entry(
            "rho_null_place",
            "blocks",
            "Share of the draws whose ρ is below that of the trained feedback; null where they do not differ.",
            unit="share",
        ),
        Entry("rho_null_p", "blocks", "One-sided p-value of ρ against the same draws.", unit="p"),
        Entry(
            "gamma_null_mean",
            "blocks",
            "Mean of Γ over fresh draws of the feedback; null for a rule without feedback.",
            unit="cosine",
        ),
        Entry("gamma_null_std", "blocks", "Standard deviation of Γ over the same draws.", unit="cosine"),
        Entry(
            "gamma_null_place",
            "blocks",
            "Share of the draws whose Γ is below that of the trained feedback; null where they do not differ.",
            unit="share",
        ),
        Entry("gamma_null_p", "blocks", "One-sided p-value of Γ against the same draws.", unit="p"),
        Entry("gamma_null_draws", "draws", "Γ of each draw; empty for a rule without feedback.", unit="cosine"),
        Entry("gamma_bp", "blocks", "Control: Γ of the float64 gradient, which must be near 1.", unit="cosine"),
    )

    def measure(self, reading: Reading) -> dict[str, Any]:
        draws = reading.fresh_credits(DRAWS)
        # Made once, before any thread.
        _ = reading.taps, reading.gradients, reading.credits, reading.fitted, reading.doubled.gradients

        def measured(block: int) -> Entries:
            return one_block(reading, block, [credits[block] for credits in draws])

        blocks = side_by_side(measured, reading)
        return {name: [block[name] for block in blocks] for name in blocks[0]}


def side_by_side(measured: Callable[[int], Entries], reading: Reading) -> list[Entries]:
    """Every block's entries, as many blocks at once as torch has threads, each on one.

    Tensors of this size keep two threads waiting for each other; two blocks do not. Not for a foreign model, whose code
    may not bear being called twice at a time, nor off the CPU.
    """
    threads, blocks = torch.get_num_threads(), range(reading.net.blocks)
    if threads == 1 or not reading.net.is_pure or reading.x.device.type != "cpu":
        return [measured(block) for block in blocks]
    torch.set_num_threads(1)
    try:
        with ThreadPoolExecutor(threads) as pool:
            return list(pool.map(measured, blocks))  # the first block, which has the longest way to go, first
    finally:
        torch.set_num_threads(threads)


def one_block(reading: Reading, block: int, fresh: list[Tensor]) -> Entries:
    """Every entry for one block."""
    tap = reading.net.taught_at(block)
    gradient, credit = reading.gradients[tap], reading.credits[block]
    noise = torch.randn(gradient.shape, generator=reading.generator(f"noise.{block}"), dtype=torch.float64)
    exact = reading.doubled.gradients[tap]  # the control is of the method: rounding is the referee's business
    alike = all(torch.equal(draw, fresh[0]) for draw in fresh)  # FA's last block: rounding is not to look like spread
    drawn = fresh[:1] if alike else fresh
    stacks = [[credit.double(), exact, noise.to(exact)], *([drawn] if drawn else [])]
    signals = [torch.stack(stack, dim=1) for stack in stacks]  # [n, signals, features]
    is_open = ~reading.fitted.cpu()  # as the correlations are
    left = int(is_open.sum())
    own, crude = Correlation(left), Correlation(len(gradient))
    each = [Correlation(len(stack), len(gradient)) for stack in stacks]
    true, rough = central_changes(reading, tap), study_changes(reading, tap)
    for some in groups(directions(reading, tap)):
        changes, crudely = (torch.stack([along(v) for v in some], dim=1) for along in (true, rough))  # [n, directions]
        together = torch.stack(some, dim=1)  # so that the signals are read from memory once for all of them
        predicted = [stack @ together.to(stack.dtype).mT for stack in signals]  # [n, signals, directions]
        for correlation, those in zip(each, predicted, strict=True):
            correlation.add(those.transpose(0, 1), changes)
        own.add(predicted[0][is_open, 0], changes[is_open])
        crude.add(predicted[0][:, 0], crudely)
    means = [mean_defined(row[is_open]) for correlation in each for row in correlation.per_row()]
    null_rho = [mean for mean, _ in means[3:]] * (len(fresh) if alike else 1)
    null_gamma = [mean_defined(cosines(draw, gradient)[is_open])[0] for draw in fresh]
    gamma = mean_defined(cosines(credit, gradient)[is_open])[0]
    valid = holds(means[1][0], means[2][0], samples=left - means[2][1])
    rho = means[0][0] if valid else None
    return {
        "rho": rho,
        "rho_valid": valid,
        "rho_undefined": means[0][1],
        "rho_pooled": own.pooled() if valid else None,
        "rho_study": crude.pooled(),
        "rho_bp": means[1][0],
        "rho_random": means[2][0],
        **null("rho", rho, null_rho),
        **null("gamma", gamma, null_gamma),
        "gamma_null_draws": null_gamma,
        "gamma_bp": mean_defined(cosines(exact, gradient)[is_open])[0],
    }


def holds(gradient: float | None, noise: float | None, *, samples: int) -> bool:
    """Whether both controls came out: the BP gradient predicts the changes of the loss, and noise does not.

    The correlation of noise over D directions has variance 1/(D − 1), its mean over the samples that over n.
    """
    if gradient is None or noise is None:
        return False
    return gradient > SOUND and abs(noise) < CHANCE / sqrt((DIRECTIONS - 1) * samples)


def null(name: str, value: float | None, draws: list[float | None]) -> dict[str, float | None]:
    """A number under fresh feedback: its mean, spread, place and one-sided p-value.

    The place is the share of draws below the trained feedback's value. p is (1 + draws not below it) / (1 + draws).
    Where fresh feedback changes nothing (FA's last block) there is no place to have, and no p.
    """
    known = [draw for draw in draws if draw is not None]
    names = [f"{name}_null_{what}" for what in ("mean", "std", "place", "p")]
    if value is None or len(known) < 2:
        return dict.fromkeys(names)
    spread, below = statistics.stdev(known), sum(draw < value for draw in known)
    place = (below / len(known), (1 + len(known) - below) / (1 + len(known))) if spread else (None, None)
    return dict(zip(names, (statistics.mean(known), spread, *place), strict=True))


Changes = Callable[[Tensor], Tensor]  # unit directions [n, features] → change of each sample's loss along them, [n]


def groups(several: Iterator[Tensor]) -> Iterator[list[Tensor]]:
    """A few directions at a time."""
    while some := list(islice(several, AT_ONCE)):
        yield some


def directions(reading: Reading, tap: int) -> Iterator[Tensor]:
    """Random unit directions, one a sample at a time, float64 [n, features]."""
    generator, shape = reading.generator(f"directions.{tap}"), reading.taps[tap].shape
    for _ in range(DIRECTIONS):
        v = torch.randn(shape, generator=generator, dtype=torch.float32).to(reading.taps[tap].device, torch.float64)
        yield v / norms(v)[:, None]


def central_changes(reading: Reading, tap: int) -> Changes:
    """[ℓ(h + εv) − ℓ(h − εv)] / 2ε with ε relative to ‖h‖, in float64."""
    exact, h = reading.doubled, reading.trace.taps[tap].double()
    step = STEP * norms(reading.taps[tap])

    def changes(v: Tensor) -> Tensor:
        shift = reading.net.lift(step[:, None] * v, h)
        return (exact.losses_from(tap, h + shift) - exact.losses_from(tap, h - shift)) / (2 * step)

    return changes


def study_changes(reading: Reading, tap: int) -> Changes:
    """[ℓ(h + εv) − ℓ(h)] / ε with an absolute ε, in the net's own precision, as the study does it."""
    h = reading.trace.taps[tap]
    before = reading.losses_from(tap, h)

    def changes(v: Tensor) -> Tensor:
        shift = reading.net.lift((STEP * v).to(h.dtype), h)
        return (reading.losses_from(tap, h + shift) - before) / STEP

    return changes
