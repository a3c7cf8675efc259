"""Credit bridge: an auxiliary net learns a value of every state whose gradient is the credit.

V(h_l, t_l, e) is a scalar, and a_l = ∂V/∂h_l. It is trained by the mean over l = 0 … L−1 and the batch of

    (V(h_l, t_l, e) − v_l)²,   v_l = −λ log mean_k exp(−V̄(h_{l+1} + σ ε_k, t_{l+1}, e)/λ),   ε_k ~ N(0, I), k = 1 … K,

a soft minimum of a slow copy V̄ at noisy next states, plus ``terminal_weight`` times Σ‖∂V/∂h_L − g_L‖² / Σ‖g_L‖², where
g_L is the true gradient at h_L. V̄ ← μ V̄ + (1 − μ) V after each update, with μ = ``ema``.
DFA teaches the main net during the first ``warmup`` updates; the auxiliary net trains from the first.
Stores the auxiliary net (``rules/auxiliary.py``), its copy ("slow.…"), DFA's matrices ("B.<l>") and the number of
updates. Costs DFA's passes, three passes of the auxiliary net and K of its copy at every tap, and two of the readout.
arXiv 2606.21126 uses DFA for the first 20 % of the epochs; its sizes on CIFAR-10 are unknown, and these are ours.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log
from typing import ClassVar

import torch
from torch import Tensor

from faudit.nets.net import Net, Params, Trace
from faudit.rules import Card
from faudit.rules.auxiliary import TIMES, AuxiliaryRule, time_of
from faudit.rules.dfa import DFA
from faudit.rules.rule import State, Step
from faudit.settings import number, setting, share, whole
from faudit.tensors import sent


@dataclass(frozen=True)
class CreditBridge(AuxiliaryRule):
    """Credit as the gradient of a learned value."""

    card: ClassVar[Card] = Card(
        title="Credit bridge",
        formula="a_l = ∂V/∂h_l; V(h_l) ≈ −λ log mean_k exp(−V̄(h_{l+1} + σ ε_k)/λ), ∂V/∂h_L ≈ ∂ℓ/∂h_L",
        reference="arXiv 2606.21126",
        stores="an auxiliary net of 3 × 256, its slow copy, its optimizer, and DFA's matrices for the warm-up",
        needs=("global error", "auxiliary net"),
        cost="DFA's passes, three passes of the auxiliary net and K of its copy at every tap, two of the readout",
        fails="without terminal matching the credit says nothing about the loss; compare with the rule placebo",
    )

    temperature: float = setting(0.1, number(0.0, above=True), "λ of the soft minimum")
    noise_samples: int = setting(8, whole(1, 4096), "noisy states K in the soft minimum")
    noise_std: float = setting(0.1, number(0.0), "standard deviation σ of their noise")
    terminal_weight: float = setting(1.0, number(0.0), "weight of matching ∂V/∂h_L to the true gradient")
    ema: float = setting(0.995, share, "share μ that the slow copy of the auxiliary net keeps at each update")
    warmup: int = setting(240, whole(0, 1_000_000_000), "updates during which DFA teaches the main net")

    def init(self, net: Net, sample: Tensor, generator: torch.Generator) -> dict[str, Tensor]:
        feedback = DFA().init(net, sample, generator)
        fast = self.new_auxiliary(generator, net.tap_widths(sample), inputs=TIMES + net.classes, outputs=1)
        slow = {slow_name(name): value.clone() for name, value in fast.items()}
        return {**feedback, **fast, **slow, "updates": torch.zeros((), dtype=torch.int64)}

    def on_host(self, name: str) -> bool:
        return name == "updates"

    def value(self, net: Net, state: State, tap: int, h: Tensor, error: Tensor, *, name: str = "aux") -> Tensor:
        """V at the measured part of h_l, […, n]; ``name`` "slow" is V̄."""
        return self.auxiliary(state, h, time_of(net, tap, h), error, name=name).squeeze(-1)

    def credit(
        self, net: Net, params: Params, state: State, taps: list[Tensor], logits: Tensor, y: Tensor
    ) -> list[Tensor]:
        if int(state["updates"]) < self.warmup:
            return DFA().credit(net, params, state, taps, logits, y)
        error = net.output_error(logits, y).detach()
        with torch.enable_grad():
            read = [net.tap(h).detach().requires_grad_() for h in taps[: net.signals]]
            values = [self.value(net, state, tap, h, error).sum() for tap, h in enumerate(read)]
            return list(torch.autograd.grad(torch.stack(values).sum(), read))

    def own_loss(
        self,
        net: Net,
        params: Params,
        state: State,
        trace: Trace,
        y: Tensor,
        *,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        error, taps = net.output_error(trace.logits, y).detach(), [net.tap(h) for h in trace.taps]
        wrong = []
        for l in range(net.blocks):
            target = self.target(net, state, l + 1, taps[l + 1], error, generator=generator)
            wrong.append((self.value(net, state, l, taps[l], error) - target).square().mean())
        return torch.stack(wrong).mean() + self.terminal_weight * self.mismatch(net, params, state, trace, y)

    @torch.no_grad()
    def target(
        self, net: Net, state: State, tap: int, h: Tensor, error: Tensor, *, generator: torch.Generator | None
    ) -> Tensor:
        """The soft minimum of V̄ around a state, [n]."""
        noise = torch.randn(self.noise_samples, *h.shape, generator=generator, dtype=h.dtype)
        values = self.value(net, state, tap, h + self.noise_std * sent(noise, h.device), error, name="slow")  # [K, n]
        summed = torch.logsumexp(-values / self.temperature, dim=0)
        return -self.temperature * (summed - log(self.noise_samples))

    def mismatch(self, net: Net, params: Params, state: State, trace: Trace, y: Tensor) -> Tensor:
        """‖∂V/∂h_L − g_L‖² over the batch, relative to ‖g_L‖²; its graph holds the auxiliary net alone."""
        error, end = net.output_error(trace.logits, y).detach(), trace.taps[-1].detach().requires_grad_()
        fixed = {name: weight.detach() for name, weight in params.items()}
        (true,) = torch.autograd.grad(net.loss(net.readout(fixed, end), y, reduction="sum"), end)
        true, h = net.tap(true), net.tap(end).detach().requires_grad_()
        value = self.value(net, state, net.blocks, h, error).sum()
        (slope,) = torch.autograd.grad(value, h, create_graph=True)
        return (slope - true).square().sum() / true.square().sum().clamp_min(torch.finfo(true.dtype).tiny)

    def after_update(
        self, net: Net, params: Params, state: State, step: Step, *, generator: torch.Generator
    ) -> dict[str, Tensor]:
        fast = [name for name in state if self.trains_state(name)]
        slow = {slow_name(name): torch.lerp(state[name], state[slow_name(name)], self.ema) for name in fast}
        return {**slow, "updates": state["updates"] + 1}


def slow_name(name: str) -> str:
    """The name of a weight's slow copy."""
    return name.replace("aux.", "slow.", 1)
