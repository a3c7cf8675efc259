"""Watch a training loop of your own: a plain MLP with direct feedback alignment written by hand, on the digits.

Five lines belong to faudit, each with the comment "added". Without them the script trains the same weights. The last
line trains the same code again with frozen blocks, as a control, and prints the verdict. The verdict is about the
network alone, because faudit was given no credit signal: see ``credit=`` in docs/watch.md.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import faudit  # added
from faudit.data import DATASETS

CLASSES, WIDTH, EPOCHS = 10, 64, 6
digits = DATASETS["digits"](None)
train_x, train_y = digits.normalise(digits.train_x).flatten(1), digits.train_y
test_x, test_y = digits.normalise(digits.test_x).flatten(1), digits.test_y


class MLP(nn.Module):
    """A linear embedding, three hidden layers with tanh, a linear head."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.head = nn.Linear(64, WIDTH), nn.Linear(WIDTH, CLASSES)
        self.blocks = nn.ModuleList(nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh()) for _ in range(3))

    def states(self, x: Tensor) -> list[Tensor]:
        states = [self.embed(x)]
        for block in self.blocks:
            states.append(block(states[-1]))
        return states

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.states(x)[-1])  # type: ignore[no-any-return]  # nn.Module returns Any


@torch.no_grad()
def dfa(model: MLP, x: Tensor, y: Tensor, feedback: list[Tensor]) -> None:
    """Fill ``.grad``: every layer is taught by the output error through its own random matrix."""
    states = model.states(x)
    error = (model.head(states[-1]).softmax(dim=1) - F.one_hot(y, CLASSES)) / len(x)
    taught = [(model.embed, x, error @ feedback[0]), (model.head, states[-1], error)]
    for l, block in enumerate(model.blocks):
        assert isinstance(block, nn.Sequential)
        taught.append((block[0], states[l], (error @ feedback[l + 1]) * (1 - states[l + 1] ** 2)))  # type: ignore[arg-type]  # a Linear
    for layer, before, delta in taught:
        layer.weight.grad, layer.bias.grad = delta.T @ before, delta.sum(dim=0)


def train(model: MLP) -> None:
    draw = torch.Generator().manual_seed(1)
    feedback = [torch.randn(CLASSES, WIDTH, generator=draw) / 8 for _ in range(4)]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(EPOCHS):
        for some in torch.randperm(len(train_x), generator=draw).split(32):
            dfa(model, train_x[some], train_y[some], feedback)
            w.compare(train_x[some], train_y[some])  # added; before the step, and the row keeps the last of the epoch
            optimizer.step()
        w.log(epoch, lr=0.1)  # added


if __name__ == "__main__":
    torch.manual_seed(0)
    model = MLP()
    with faudit.watch(model, eval_batch=(test_x, test_y), taps="blocks.*", runs="runs", name="my-dfa") as w:  # added
        train(model)
    print(faudit.control(MLP, train, of=w), w.verdict())  # added; the accuracy with frozen blocks, and the verdict
