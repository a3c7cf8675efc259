"""Rules of the field with one mistake each, for the benchmark. They are in no registry.

Each mistake makes the rule wrong whatever it is trained on: its feedback knows nothing of the weights or points against
them, or its signal belongs to other samples or labels. A mistake that learning can repair, such as the wrong sign of
fixed feedback, is not among them, because weights turn towards any fixed feedback.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import torch
from torch import Tensor

from faudit.bench.protocol.faults import WeightTransport
from faudit.nets.net import Net, Params
from faudit.rules.backward import WeightRule
from faudit.rules.bp import BP
from faudit.rules.dfa_layers import DFALayers
from faudit.rules.dkp import DKP
from faudit.rules.drtp import DRTP
from faudit.rules.ep import EP
from faudit.rules.fa_weights import FAWeights
from faudit.rules.kolen_pollack import KolenPollack
from faudit.rules.local_loss import LocalLoss
from faudit.rules.rule import State, Step
from faudit.rules.sign_symmetry import SignSymmetry, random_signs
from faudit.rules.weight_mirror import WeightMirror


@dataclass(frozen=True)
class RedrawnFAWeights(FAWeights):
    """FA at the weights with new feedback after every update, so the weights have nothing to align with."""

    def after_update(
        self, net: Net, params: Params, state: State, step: Step, *, generator: torch.Generator
    ) -> dict[str, Tensor]:
        return self.drawn(net, generator)


@dataclass(frozen=True)
class OtherTeacher(FAWeights):
    """Reports the credit of its feedback, but trains with the true gradient."""

    def step(
        self,
        net: Net,
        params: Params,
        state: State,
        x: Tensor,
        y: Tensor,
        *,
        generator: torch.Generator | None = None,
    ) -> Step:
        return BP().step(net, params, {}, x, y)


@dataclass(frozen=True)
class UnusedKolenPollack(KolenPollack):
    """Kolen–Pollack that stores and trains its feedback, but sends errors back through the weights."""

    def feedback(self, net: Net, params: Params, state: State) -> dict[str, Tensor]:
        return {}


@dataclass(frozen=True)
class FlippedKolenPollack(KolenPollack):
    """Kolen–Pollack whose feedback gets the updates of the weights with the wrong sign."""

    def step(
        self,
        net: Net,
        params: Params,
        state: State,
        x: Tensor,
        y: Tensor,
        *,
        generator: torch.Generator | None = None,
    ) -> Step:
        return against_state(super().step(net, params, state, x, y, generator=generator), state)


@dataclass(frozen=True)
class FlippedDKP(DKP):
    """Direct Kolen–Pollack whose feedback learns with the wrong sign."""

    def step(
        self,
        net: Net,
        params: Params,
        state: State,
        x: Tensor,
        y: Tensor,
        *,
        generator: torch.Generator | None = None,
    ) -> Step:
        return against_state(super().step(net, params, state, x, y, generator=generator), state)


def against_state(step: Step, state: State) -> Step:
    """The step with the gradients of the state reversed."""
    return replace(step, grads={name: -grad if name in state else grad for name, grad in step.grads.items()})


@dataclass(frozen=True)
class WrongMirror(WeightMirror):
    """A weight mirror with the wrong sign, which converges to minus the weights."""

    def mirrored(self, weight: Tensor, bias: Tensor | None, *, generator: torch.Generator) -> Tensor:
        return -super().mirrored(weight, bias, generator=generator)


@dataclass(frozen=True)
class ShuffledMirror(WeightMirror):
    """A weight mirror that confuses the units of a layer, in another way at every phase."""

    def mirrored(self, weight: Tensor, bias: Tensor | None, *, generator: torch.Generator) -> Tensor:
        order = torch.randperm(len(weight), generator=generator)
        return super().mirrored(weight[order], None if bias is None else bias[order], generator=generator)


@dataclass(frozen=True)
class RandomSigns(SignSymmetry):
    """Sign symmetry with random signs, drawn anew after every update."""

    def magnitudes(self, net: Net, generator: torch.Generator) -> dict[str, Tensor]:
        sizes = super().magnitudes(net, generator)
        return {name: value * random_signs(value, generator) for name, value in sizes.items()}

    def after_update(
        self, net: Net, params: Params, state: State, step: Step, *, generator: torch.Generator
    ) -> dict[str, Tensor]:
        return self.magnitudes(net, generator)

    def feedback(self, net: Net, params: Params, state: State) -> dict[str, Tensor]:
        return WeightRule.feedback(self, net, params, state)


@dataclass(frozen=True)
class OppositeSigns(SignSymmetry):
    """Sign symmetry with the opposite sign of every weight."""

    def feedback(self, net: Net, params: Params, state: State) -> dict[str, Tensor]:
        return {name: -value for name, value in super().feedback(net, params, state).items()}


@dataclass(frozen=True)
class ShuffledDRTP(DRTP):
    """DRTP that projects the label of another sample."""

    def target(self, net: Net, logits: Tensor, y: Tensor) -> Tensor:
        return super().target(net, logits, y.roll(1))


@dataclass(frozen=True)
class Unlabelled(DFALayers):
    """DFA whose error has no label in it: softmax(logits) − 1/C."""

    def target(self, net: Net, logits: Tensor, y: Tensor) -> Tensor:
        return torch.softmax(logits, dim=1) - 1.0 / net.classes


@dataclass(frozen=True)
class ShuffledLocalLoss(LocalLoss):
    """Local losses of the labels of other samples."""

    def _loss_at(self, tap: int, h: Tensor, *, net: Net, state: State, y: Tensor) -> Tensor:
        return super()._loss_at(tap, h, net=net, state=state, y=y.roll(1))


@dataclass(frozen=True)
class WrongWayEP(EP):
    """EP that nudges its states towards a larger loss, and takes the shift for one towards a smaller loss."""

    def nudged(self, net: Net, params: Params, taps: list[Tensor], y: Tensor) -> list[Tensor]:
        settings = {entry.name: getattr(self, entry.name) for entry in fields(self)}
        return EP(**{**settings, "beta": -self.beta}).nudged(net, params, taps, y)

    def _must_settle(self, taps: list[Tensor], summed: Tensor, energy: Tensor) -> None:
        """The energy rises by the mistake itself."""


@dataclass(frozen=True)
class OtherSamples(WeightTransport):
    """The exact gradient of another sample of the batch."""

    def credit(
        self, net: Net, params: Params, state: State, taps: list[Tensor], logits: Tensor, y: Tensor
    ) -> list[Tensor]:
        return [credit.roll(1, dims=0) for credit in super().credit(net, params, state, taps, logits, y)]
