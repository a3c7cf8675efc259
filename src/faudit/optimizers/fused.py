"""torch's fused Adam and AdamW with less Python in each step: the same kernel, the same state, the same bits.

torch raises one step count per tensor and sorts all tensors in every step, which takes half as long as the update of a
small net. Here the counts of the tensors that step together are one vector. ``state`` holds views of it.
"""

from __future__ import annotations

from collections.abc import Callable
from inspect import unwrap
from typing import Any

import torch
from torch import Tensor

from faudit.optimizers.optimizer import Trained


class FusedAdam(torch.optim.Adam):
    """Adam on the CPU; on another device it is torch's own."""

    def __init__(self, params: Trained, *, kernel: Callable[..., None] = torch._fused_adam_, **settings: Any) -> None:
        super().__init__(params, fused=True, **settings)
        self._kernel = kernel
        self._together: dict[int, Tensor] = {}  # the step counts of each group

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """As torch's own, which first imports torch's compiler: that takes longer than a small run trains."""
        unwrap(torch.optim.Adam.add_param_group)(self, param_group)

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        if closure is not None or any(group["params"][0].device.type != "cpu" for group in self.param_groups):
            return super().step(closure)
        for place, group in enumerate(self.param_groups):
            trained = [weight for weight in group["params"] if weight.grad is not None]
            if not trained:
                continue
            states = [self.state[weight] or self._begun(weight) for weight in trained]
            self._counts(place, states).add_(1)
            self._kernel(
                trained,
                [weight.grad for weight in trained],
                [state["exp_avg"] for state in states],
                [state["exp_avg_sq"] for state in states],
                [],
                [state["step"] for state in states],
                lr=group["lr"],
                beta1=group["betas"][0],
                beta2=group["betas"][1],
                weight_decay=group["weight_decay"],
                eps=group["eps"],
                amsgrad=False,
                maximize=False,
            )
        return None

    def _begun(self, weight: Tensor) -> dict[str, Any]:
        """The state of a tensor before its first step, as torch makes it."""
        state: dict[str, Any] = self.state[weight]
        state["step"] = torch.zeros((), dtype=torch.float32)
        state["exp_avg"], state["exp_avg_sq"] = torch.zeros_like(weight), torch.zeros_like(weight)
        return state

    def _counts(self, place: int, states: list[dict[str, Any]]) -> Tensor:
        """The step counts of these states as one vector; made anew if they do not all lie in the last one, in order."""
        counts = self._together.get(place)
        if counts is None or not holds(counts, states):
            counts = torch.stack([state["step"] for state in states])
            for state, count in zip(states, counts.unbind(), strict=True):
                state["step"] = count
            self._together[place] = counts
        return counts


def holds(counts: Tensor, states: list[dict[str, Any]]) -> bool:
    """Whether the step counts of the states are the entries of a vector.

    Another set of tensors, a restored state or a stack of runs has them elsewhere.
    """
    first, size = counts.data_ptr(), counts.element_size()
    return len(counts) == len(states) and all(
        state["step"].data_ptr() == first + size * k for k, state in enumerate(states)
    )


class FusedAdamW(FusedAdam):
    """AdamW on the CPU; on another device it is torch's own."""

    def __init__(self, params: Trained, **settings: Any) -> None:
        super().__init__(params, kernel=torch._fused_adamw_, decoupled_weight_decay=True, **settings)
