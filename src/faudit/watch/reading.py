"""A reading of a foreign model: the same taps, gradients and credits for the same probes.

Differs from a net's reading in where the numbers come from: taps by forward hooks, gradients by one backward pass
through the model's own code, credit from a callable, the loss from the caller. Its float64 twin is a second copy of the
model, cast as a whole, because a model may keep more than parameters.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial

import torch
import torch.nn.functional as F
from torch import Tensor

from faudit.errors import ModelError
from faudit.nets.net import Trace
from faudit.probes import Need
from faudit.probes.probe import Reading
from faudit.rules.rule import State
from faudit.watch.credit import Credit, ExternalCredit
from faudit.watch.net import ForeignNet, Inputs, described, error_text

Loss = Callable[[Tensor, Tensor], Tensor]  # logits, y → the loss of each sample, [n]
Fresh = Callable[[torch.Generator], Credit]  # the credit, had its feedback been drawn from this generator


class ForeignReading(Reading):
    """A foreign model on a batch; ``exact`` is its copy in float64."""

    net: ForeignNet
    rule: ExternalCredit

    def __init__(
        self,
        net: ForeignNet,
        exact: ForeignNet,
        inputs: Inputs,
        y: Tensor,
        *,
        own_loss: Loss | None = None,
        credit: Credit | None = None,
        fresh: Fresh | None = None,
        seed: int = 0,
    ) -> None:
        first = next(iter(inputs.values())) if isinstance(inputs, Mapping) else inputs
        super().__init__(net, ExternalCredit(signal=credit), {}, {}, first, y, seed)
        self.exact, self.inputs, self.own_loss, self.fresh = exact, inputs, own_loss, fresh

    @property
    def offers(self) -> frozenset[Need]:
        """No weights by part and no rule: labels that name classes and a credit, where they were given."""
        given: dict[Need, bool] = {"classes": self.is_classification, "credit": self.rule.signal is not None}
        return frozenset(need for need, is_given in given.items() if is_given)

    @cached_property
    def trace(self) -> Trace:
        with torch.no_grad():
            return self.net.trace({}, self.inputs)

    def loss(self, logits: Tensor) -> Tensor:
        return super().loss(logits) if self.own_loss is None else per_sample(self.own_loss, logits, self.y)

    @torch.no_grad()
    def losses_from(self, tap: int, h: Tensor) -> Tensor:
        return self.loss(self.net.moved(self.inputs, tap, h))

    @cached_property
    def errors(self) -> Tensor:
        return self._errors_at(self.trace.logits)

    @cached_property
    def errors_in_double(self) -> Tensor:
        return self.doubled._errors_at(self.trace.logits.double())  # its labels are float64 too

    def _errors_at(self, logits: Tensor) -> Tensor:
        """The gradient of each sample's loss at these logits."""
        with torch.enable_grad():
            logits = logits.detach().requires_grad_()
            (error,) = torch.autograd.grad(self.loss(logits).sum(), logits)
        return error

    @cached_property
    def gradients(self) -> list[Tensor]:
        with torch.enable_grad():
            seen, logits = self.net.record(self.inputs)
            total = self.loss(logits).sum()
            if not total.requires_grad:
                raise ModelError(
                    f"the loss depends on none of the taps {', '.join(self.net.names)}: its gradient would be nothing. "
                    "Expected taps on the way to the logits, and a loss that can be differentiated."
                )
            try:
                found = torch.autograd.grad(total, [seen[name] for name in self.net.states], allow_unused=True)
            except RuntimeError as error:
                raise ModelError(
                    f"no gradient can be taken through the model: {error_text(error)}. Expected a model that backprop "
                    "can pass, without in-place writes to what it needs."
                ) from error
        for name, gradient in zip(self.net.states, found, strict=True):
            if gradient is None:
                raise ModelError(
                    f"the loss does not depend on the tap {name!r}: it is detached, unused, or not the first tensor "
                    "of its submodule's output. Tap another submodule."
                )
        return [self.net.tap(gradient) for gradient in found]

    @property
    def is_classification(self) -> bool:
        """Whether the logits are scores of classes and y names one for each sample: then accuracy means something."""
        logits, y = self.trace.logits, self.y
        named = logits.ndim == 2 and y.ndim == 1 and y.dtype == torch.int64
        return named and int(y.min()) >= 0 and int(y.max()) < logits.shape[1]

    def credits_under(self, state: State) -> list[Tensor]:
        return self.rule.credit(self.net, {}, state, self.trace.taps, self.trace.logits, self.y)

    def fresh_credits(self, draws: int) -> list[list[Tensor]]:
        """The credits under fresh feedback or, where only one feedback is known, the same credits turned at random."""
        if self.fresh is not None:
            return [self._refreshed(self.fresh, self.generator(f"feedback.{draw}")) for draw in range(draws)]
        # The same turn at every tap: taps may share one feedback, and then hang together under any other.
        turns = [turned(credit, [self.generator(f"turn.{draw}") for draw in range(draws)]) for credit in self.credits]
        return [list(credits) for credits in zip(*turns, strict=True)]

    def _refreshed(self, fresh: Fresh, generator: torch.Generator) -> list[Tensor]:
        try:
            signal = fresh(generator)
        except Exception as error:
            raise ModelError(
                f"the fresh credit failed: {error_text(error)}. Expected fresh(generator) → a credit callable."
            ) from error
        if not callable(signal):
            raise ModelError(f"the fresh credit: expected a credit callable, got {described(signal)}")
        return ExternalCredit(signal=signal).credit(self.net, {}, {}, self.trace.taps, self.trace.logits, self.y)

    @cached_property
    def doubled(self) -> ForeignReading:
        inputs, y = doubled(self.inputs), doubled_one(self.y)
        return type(self)(self.exact, self.exact, inputs, y, own_loss=self.own_loss, seed=self.seed)


def loss_of(given: Loss | None) -> Loss:
    """The loss of each sample, checked: the caller's, or cross-entropy."""
    loss = partial(F.cross_entropy, reduction="none") if given is None else given
    return lambda logits, y: per_sample(loss, logits, y)


def per_sample(loss: Loss, logits: Tensor, y: Tensor) -> Tensor:
    """The loss of each sample by a function that may be the caller's; an exception becomes a one-line error."""
    try:
        losses = loss(logits, y)
    except Exception as error:
        raise ModelError(
            f"the loss failed: {error_text(error)}. Expected loss(logits, y) with logits {described(logits)} and "
            f"y {described(y)}."
        ) from error
    if not isinstance(losses, Tensor) or losses.shape != (len(y),):
        raise ModelError(
            f"the loss: expected one number for each of {len(y)} samples, got {described(losses)}. "
            "Use reduction='none', and sum what belongs to one sample."
        )
    return losses


def doubled(x: Inputs) -> Inputs:
    """Floating point in float64; token ids and masks as they are."""
    return {name: doubled_one(value) for name, value in x.items()} if isinstance(x, Mapping) else doubled_one(x)


def doubled_one(x: Tensor) -> Tensor:
    return x.double() if x.is_floating_point() else x


def turned(credit: Tensor, generators: Sequence[torch.Generator]) -> list[Tensor]:
    """A credit [n, features] under a random rotation of the features from each generator, one for all samples.

    Lengths, angles between samples and rank stay; where it points is lost: A = U S Vᵀ becomes U S Qᵀ, Q a random
    orthonormal frame. For Gaussian feedback, a = eB, this is the distribution under fresh draws of B. Shuffling the
    credits among samples is not: a feedback is shared by all of them, so its chance alignment does not average out.
    """
    u, s, _ = torch.linalg.svd(credit.double(), full_matrices=False)
    rank = int((s > s[0] * max(credit.shape) * torch.finfo(credit.dtype).eps).sum())
    scores = u[:, :rank] * s[:rank]  # [n, rank]
    return [(scores @ frame(credit.shape[1], rank, generator).to(scores).T).to(credit) for generator in generators]


def frame(features: int, rank: int, generator: torch.Generator) -> Tensor:
    """Orthonormal columns, uniform over all such frames, float64 [features, rank]."""
    q, r = torch.linalg.qr(torch.randn(features, rank, generator=generator, dtype=torch.float64))
    return q * r.diagonal().sign()  # type: ignore[no-any-return]  # torch.linalg is untyped; without the signs, not uniform
