"""Find out which branch the published StudentNet has: train three candidates on the teacher's task and print the facts.

The paper says: no normalisation, φ_α(z) = (1 − α) z + α tanh(z), under DFA a largest growth of about 7× per block, and
no check ever fires. Call: ``python benchmarks/student_forms.py [EPOCHS]`` (default: 40). A line takes a minute or two.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from math import inf

import torch
import torch.nn.functional as F
from torch import Tensor

from faudit import RunConfig
from faudit.data.teacher import teacher
from faudit.experiment import prepare
from faudit.nets.net import Params
from faudit.nets.student import StudentNet
from faudit.store.rows import growth
from faudit.train import measure, one_epoch


@dataclass(frozen=True)
class Bounded(StudentNet):
    """f = φ(W1·h): the norm of the branch cannot exceed √d."""

    def branch(self, params: Params, block: int, h: Tensor) -> Tensor:
        return torch.tanh(F.linear(h, params[f"blocks.{block}.w1.weight"], params[f"blocks.{block}.w1.bias"]))


@dataclass(frozen=True)
class Before(StudentNet):
    """f = W1·φ(h): the activation before the only layer."""

    def branch(self, params: Params, block: int, h: Tensor) -> Tensor:
        return F.linear(torch.tanh(h), params[f"blocks.{block}.w1.weight"], params[f"blocks.{block}.w1.bias"])


FORMS = {"W2·φ(W1·h), as faudit has it": StudentNet, "φ(W·h)": Bounded, "W·φ(h)": Before}


def main(epochs: int) -> None:
    data = teacher()
    for name, form in FORMS.items():
        for rule in ("bp", "dfa"):
            config = RunConfig(net="student", rule=rule, data="teacher", width=128, epochs=epochs)
            experiment = replace(prepare(config, data), net=form(data.sample_shape, data.classes, width=128))
            if form is not StudentNet:  # the other forms have one layer per block
                for unused in [key for key in experiment.state.params if ".w2." in key]:
                    del experiment.state.params[unused]
            largest, smallest = 0.0, inf
            for epoch in range(1, epochs + 1):
                one_epoch(experiment, epoch)
                row = measure(experiment, epoch, train_loss=None, seconds=0.0)
                largest = max(largest, growth(row["hidden_norms"]) or 0.0)
                smallest = min(smallest, row["grad_norms"][-1])
            found = f"largest growth {largest:.1f}×, least ‖g_L‖ {smallest:.1e}, accuracy {row['acc_eval']:.3f}"
            print(f"{name:<30} {rule:>4}: {found}", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 40)
