"""A rule that is known only by its credit: a callable ``(taps, logits, y) -> credits``, shaped like the taps.

It can be measured, because Γ, ρ and nudging need only the credit. It cannot train a model.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from faudit.errors import ModelError
from faudit.nets.net import Net, Params
from faudit.rules.rule import Rule, State, Step
from faudit.watch.net import ForeignNet, described, error_text

Credit = Callable[[list[Tensor], Tensor, Tensor], Sequence[Tensor]]


@dataclass(frozen=True)
class ExternalCredit(Rule):
    """A rule whose credit comes from a callable."""

    signal: Credit | None = None

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
        raise ModelError("a credit callable gives a signal but no update: it can be measured but not trained with.")

    def credit(
        self, net: Net, params: Params, state: State, taps: list[Tensor], logits: Tensor, y: Tensor
    ) -> list[Tensor]:
        assert isinstance(net, ForeignNet) and self.signal is not None, "called only if a credit was given"
        taps = taps[-len(net.names) :]  # without the input of the first block, which is no output of a submodule
        try:
            # Copies, because a callable may write into its arguments.
            signals = self.signal([h.detach().clone() for h in taps], logits.detach().clone(), y.clone())
        except Exception as error:
            raise ModelError(
                f"the credit callable failed: {error_text(error)}. Expected credit(taps, logits, y) with {len(taps)} "
                f"taps, logits {described(logits)} and y {described(y)}."
            ) from error
        return [net.tap(signal) for signal in checked(signals, net.names, taps)]


def checked(signals: object, names: Sequence[str], taps: Sequence[Tensor]) -> list[Tensor]:
    """Check that the callable returned one finite signal for each tap, of the shape of the tap."""
    if not isinstance(signals, list | tuple) or len(signals) != len(taps):
        came = f"{len(signals)}" if isinstance(signals, list | tuple) else type(signals).__name__
        raise ModelError(
            f"the credit callable: expected a list of {len(taps)} tensors, one for each tap ({', '.join(names)}), "
            f"got {came}"
        )
    for name, signal, h in zip(names, signals, taps, strict=True):
        if not isinstance(signal, Tensor) or signal.shape != h.shape or not signal.is_floating_point():
            raise ModelError(
                f"the credit callable at the tap {name!r}: expected a signal of the shape of the tap, {described(h)}, "
                f"got {described(signal)}"
            )
        if not bool(torch.isfinite(signal).all()):
            raise ModelError(
                f"the credit callable at the tap {name!r}: expected finite numbers, got {not_finite(signal)} that are "
                "not. Give zeros where nothing is taught."
            )
    return [signal.detach().to(h.device) for signal, h in zip(signals, taps, strict=True)]


def not_finite(values: Tensor) -> int:
    """The number of values that are NaN or infinite."""
    return int((~torch.isfinite(values)).sum())
