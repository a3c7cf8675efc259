"""Write your own rule and use it in your own training loop. faudit computes the gradients; the loop stays yours.

The rule below is DFA with sign feedback: the error reaches each block through the signs of B only.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from faudit import DATASETS, PROBES, LocalRule, Net, Reading, generators
from faudit.nets.net import Params
from faudit.nets.resmlp import ResMLP
from faudit.rules.dfa import direct_feedback
from faudit.rules.rule import State


@dataclass(frozen=True)
class SignDFA(LocalRule):
    """a_l = e sign(B_l)ᵀ."""

    def init(self, net: Net, sample: Tensor, generator: torch.Generator) -> dict[str, Tensor]:
        return {name: matrix.sign() for name, matrix in direct_feedback(net, sample, generator).items()}

    def credit(
        self, net: Net, params: Params, state: State, taps: list[Tensor], logits: Tensor, y: Tensor
    ) -> list[Tensor]:
        error = net.output_error(logits, y)
        return [error @ state[f"B.{l}"].T for l in range(net.signals)]


data = DATASETS["digits"](None)
x, y = data.normalise(data.train_x), data.train_y
net = ResMLP(data.sample_shape, data.classes, depth=3, width=64)
rule = SignDFA(penalty=0.01)

random = generators(seed=0)
params = {name: value.requires_grad_() for name, value in net.init(random["init"]).items()}
state = rule.init(net, x[:1], random["feedback"])
optimizer = torch.optim.AdamW(params.values(), lr=1e-3)

for _ in range(5):
    for batch in torch.randperm(len(x), generator=random["data"]).split(64):
        step = rule.step(net, params, state, x[batch], y[batch])
        for name, gradient in step.grads.items():
            params[name].grad = gradient
        optimizer.step()

reading = Reading(net, rule, params, state, data.normalise(data.test_x), data.test_y)
for name in ("accuracy", "norms", "alignment"):
    print(PROBES[name]().measure(reading))
