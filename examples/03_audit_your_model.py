"""Audit your own model: any nn.Module, your data, your credit signal. The audit does not change the model.

A plain residual MLP is trained by backprop. It is trained again with its blocks frozen: this control shows whether the
blocks contribute. Then DFA's credit is compared with the true gradient on it, with feedback that the blocks were not
trained with.
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from faudit import DATASETS, audit_model

WIDTH, CLASSES, DEPTH = 32, 10, 3
Credit = Callable[[list[Tensor], Tensor, Tensor], list[Tensor]]
data = DATASETS["digits"](None)
x, y = data.normalise(data.train_x), data.train_y
test = data.normalise(data.test_x), data.test_y


class Block(nn.Module):
    """A residual branch."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH), nn.GELU(), nn.Linear(WIDTH, WIDTH))

    def forward(self, h: Tensor) -> Tensor:
        return torch.add(h, self.body(h))


def trained(*, frozen: bool) -> nn.Module:
    """The embedding, the blocks and the readout, after five epochs."""
    torch.manual_seed(0)
    embed = nn.Sequential(nn.Flatten(), nn.Linear(64, WIDTH))
    blocks = nn.Sequential(*(Block() for _ in range(DEPTH))).requires_grad_(not frozen)
    model = nn.Sequential(embed, blocks, nn.LayerNorm(WIDTH), nn.Linear(WIDTH, CLASSES))
    optimizer = torch.optim.AdamW((weight for weight in model.parameters() if weight.requires_grad), lr=3e-3)
    for _ in range(5):
        for batch in torch.randperm(len(x)).split(64):
            optimizer.zero_grad()
            F.cross_entropy(model(x[batch]), y[batch]).backward()
            optimizer.step()
    return model


def dfa(generator: torch.Generator) -> Credit:
    """A function credit(taps, logits, y): one signal per tap, shaped like the tap, here e B with one B per tap."""
    matrices = torch.randn(DEPTH + 1, CLASSES, WIDTH, generator=generator)

    def credit(taps: list[Tensor], logits: Tensor, y: Tensor) -> list[Tensor]:
        error = logits.softmax(dim=1) - F.one_hot(y, CLASSES)
        return [error @ matrix for matrix in matrices]

    return credit


model, control = trained(frozen=False), trained(frozen=True)
frozen = float((control(test[0]).argmax(dim=1) == test[1]).float().mean())
taps = ["0", "1.*"]  # names or patterns of model.named_modules(): the embedding, and each block

print("trained by backprop:", audit_model(model, [test], taps=taps, frozen=[frozen]), sep="\n")
mine = dfa(torch.Generator().manual_seed(0))
audited = audit_model(model, [test], taps=taps, frozen=[frozen], credit=mine, fresh=dfa)
print("\nDFA's credit on the same model:", audited, sep="\n")
