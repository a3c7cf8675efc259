"""The roofline of a training step: its products and the traffic of its optimizer, timed alone.

A step cannot be faster than the work that no trainer can leave out:

- every product of the forward pass, of the gradients of the weights, and of the gradients of the inputs where a weight
  further down needs them;
- the convolutions and the attention in the same three roles, and the feedback products of DFA;
- one update of AdamW, which reads and writes every weight and both of its means.

Each product has its real shape and runs as often as in the step. Everything is as favourable as possible. The operands
are in memory, aligned and shared by all products of one shape. The result has its place. Of the layouts of a product,
the formats of a convolution, the ways to compute attention and the ways to hold the weights, the fastest on this
machine is taken. So the sum is a bound from below: activations, norms, losses, batches, clipping and dispatch come on
top. Biases, which are no products, are left out. ``tests/bench/test_roofline.py`` counts the operations of the step.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import product as pairs

import torch
import torch.nn.functional as F
from torch import Tensor

from faudit.bench.timing import Work, seconds
from faudit.errors import ConfigError
from faudit.nets.cnn import SmallCNN
from faudit.nets.net import Net
from faudit.nets.resmlp import ResMLP
from faudit.nets.vit import ViT

TRIES = 5  # runs of each way to do a piece of work; the quickest run counts
LONG = 0.5  # seconds of trials after which no further round is made: a long product needs fewer


class Piece(ABC):
    """One piece of a step's work, by its shape."""

    @property
    @abstractmethod
    def operations(self) -> int:
        """Floating-point operations, two for each multiplication that is added."""

    @abstractmethod
    def ways(self) -> dict[str, Work]:
        """The ways to do this work, by name, each with operands of its own."""


@dataclass(frozen=True)
class Product(Piece):
    """C = A·B with A of m × k and B of k × n."""

    m: int
    k: int
    n: int

    @property
    def operations(self) -> int:
        return 2 * self.m * self.k * self.n

    def ways(self) -> dict[str, Work]:
        """Each operand and the result by rows or by columns."""
        found: dict[str, Work] = {}
        for a, b, c in pairs(("rows", "columns"), repeat=3):
            left, right = laid_out(self.m, self.k, a), laid_out(self.k, self.n, b)
            found[f"A by {a}, B by {b}, C by {c}"] = partial(torch.mm, left, right, out=laid_out(self.m, self.n, c))
        return found


def laid_out(rows: int, columns: int, order: str) -> Tensor:
    """A random matrix whose rows, or whose columns, lie one after another in memory."""
    return torch.randn(rows, columns) if order == "rows" else torch.randn(columns, rows).T


@dataclass(frozen=True)
class Convolution(Piece):
    """A convolution of 3 × 3 with padding 1: forward, and the gradient of the weight, of the input too if needed."""

    images: int
    inputs: int
    outputs: int
    side: int  # pixels
    input_gradient: bool

    @property
    def operations(self) -> int:
        once = 2 * self.images * self.inputs * self.outputs * 9 * self.side**2
        return once * (3 if self.input_gradient else 2)

    def ways(self) -> dict[str, Work]:
        """Channels first or channels last."""
        return {str(form): partial(self._both, *self._operands(form)) for form in
                (torch.contiguous_format, torch.channels_last)}  # fmt: skip

    def _operands(self, form: torch.memory_format) -> tuple[Tensor, Tensor, Tensor]:
        x = torch.randn(self.images, self.inputs, self.side, self.side).to(memory_format=form)
        weight = torch.randn(self.outputs, self.inputs, 3, 3).to(memory_format=form)
        gradient = torch.randn(self.images, self.outputs, self.side, self.side).to(memory_format=form)
        return x, weight, gradient

    def _both(self, x: Tensor, weight: Tensor, gradient: Tensor) -> None:
        F.conv2d(x, weight, padding=1)
        wanted = [self.input_gradient, True, False]  # the gradients of input, weight and bias
        torch.ops.aten.convolution_backward(gradient, x, weight, None, [1, 1], [1, 1], [1, 1], False, [0, 0], 1, wanted)


@dataclass(frozen=True)
class Attention(Piece):
    """The attention of many heads: two products forward and four backward for each."""

    heads: int  # of all images
    tokens: int
    width: int  # of one head

    @property
    def operations(self) -> int:
        return 6 * 2 * self.heads * self.tokens**2 * self.width

    def ways(self) -> dict[str, Work]:
        """The fused attention of torch, or its six products alone."""
        q, k, v, gradient = (torch.randn(1, self.heads, self.tokens, self.width) for _ in range(4))
        operands = [tensor.requires_grad_() for tensor in (q, k, v)]
        scores = torch.randn(self.heads, self.tokens, self.tokens)
        state = torch.randn(self.heads, self.tokens, self.width)
        return {
            "fused": partial(fused_attention, operands, gradient),
            "six products": partial(six_products, scores, state, torch.empty_like(scores), torch.empty_like(state)),
        }


def fused_attention(operands: Sequence[Tensor], gradient: Tensor) -> None:
    q, k, v = operands
    torch.autograd.grad(F.scaled_dot_product_attention(q, k, v), operands, gradient)


def six_products(scores: Tensor, state: Tensor, new_scores: Tensor, new_state: Tensor) -> None:
    """Q·Kᵀ and dO·Vᵀ give scores; P·V, Pᵀ·dO, dS·K and dSᵀ·Q give states."""
    for _ in range(2):
        torch.bmm(state, state.transpose(1, 2), out=new_scores)
        torch.bmm(scores, state, out=new_state)
        torch.bmm(scores.transpose(1, 2), state, out=new_state)


@dataclass(frozen=True)
class Update(Piece):
    """One update of AdamW over weights of these shapes."""

    shapes: tuple[tuple[int, ...], ...]

    @property
    def operations(self) -> int:
        return 0  # its memory decides, not its arithmetic

    def ways(self) -> dict[str, Work]:
        """As separate weights, or as one vector that holds all of them."""
        total = sum(map(math.prod, self.shapes))
        return {"apart": adamw(self.shapes), "as one vector": adamw([(total,)])}


def adamw(shapes: Sequence[tuple[int, ...]]) -> Work:
    """The kernel of fused AdamW alone, without what the optimizer does around it."""
    weights, gradients, means = ([torch.randn(shape) for shape in shapes] for _ in range(3))
    squares = [torch.rand(shape) for shape in shapes]
    counts = [torch.ones(()) for _ in shapes]
    return partial(
        torch._fused_adamw_, weights, gradients, means, squares, [], counts, amsgrad=False, lr=1e-3, beta1=0.9,
        beta2=0.999, weight_decay=0.01, eps=1e-8, maximize=False, grad_scale=None, found_inf=None,
    )  # fmt: skip


class Roofline:
    """The pieces of one step, each done in the way that was fastest here."""

    def __init__(self, pieces: Sequence[Piece]) -> None:
        self.pieces = list(pieces)
        chosen = [done_fastest(piece, torch.get_num_threads()) for piece in pieces]
        self.ways = {str(piece): name for piece, (name, _) in zip(pieces, chosen, strict=True)}
        self._works = [work for _, work in chosen]

    def run(self, steps: int = 1) -> None:
        """Do the work of some steps."""
        for _ in range(steps):
            for work in self._works:
                work()


@cache
def done_fastest(piece: Piece, threads: int) -> tuple[str, Work]:
    """The fastest way to do a piece with so many threads. The products of one shape share its operands."""
    return fastest(piece.ways())


def fastest(ways: Mapping[str, Work]) -> tuple[str, Work]:
    """The way whose quickest run is the quickest, all tried in turns; the first run of each warms up."""
    best = dict.fromkeys(ways, math.inf)
    spent = 0.0
    for attempt in range(1 + TRIES):
        for name, work in ways.items():
            took = seconds(work)
            spent += took
            best[name] = min(best[name], took if attempt else math.inf)
        if attempt and spent > LONG:
            break
    name = min(best, key=best.__getitem__)
    return name, ways[name]


def roofline(net: Net, rule: str, *, batch: int) -> Roofline:
    """The roofline of one step of BP or DFA with AdamW."""
    return Roofline([*pieces(net, rule, batch=batch), update(net)])


def update(net: Net) -> Update:
    """The update of every weight of a net."""
    return Update(tuple(tuple(value.shape) for value in net.init(torch.Generator()).values()))


def pieces(net: Net, rule: str, *, batch: int) -> list[Piece]:
    """The products of one step of BP or DFA, in the order of the forward pass."""
    local = {"bp": False, "dfa": True}.get(rule)
    declared = next((made for kind, made in NETS.items() if isinstance(net, kind)), None)
    if local is None or declared is None:
        raise ConfigError(f"no roofline for rule {rule} on net {type(net).__name__}: expected bp or dfa on "
                          f"{', '.join(kind.__name__ for kind in NETS)}")  # fmt: skip
    feedback: list[Piece] = []
    if local:
        widths = net.tap_widths(torch.zeros(1, *net.sample_shape))[: net.signals]
        feedback = [Product(batch, net.classes, width) for width in widths]
    return [*declared(net, batch, local), *feedback]


def linear(rows: int, inputs: int, outputs: int, *, input_gradient: bool = True) -> list[Piece]:
    """A linear layer: forward, the gradient of the weight, and of the input if it is needed."""
    forward, weight = Product(rows, inputs, outputs), Product(outputs, rows, inputs)
    return [forward, weight, Product(rows, outputs, inputs)] if input_gradient else [forward, weight]


def resmlp(net: ResMLP, batch: int, local: bool) -> list[Piece]:
    """A block's LayerNorm has weights, so a local rule needs the gradient of W1's input too."""
    d = net.width
    readout = linear(batch, d, net.classes, input_gradient=not (local and net.no_terminal_norm))
    blocks = [piece for _ in range(net.depth) for piece in (*linear(batch, d, d), *linear(batch, d, d))]
    return [*linear(batch, math.prod(net.sample_shape), d, input_gradient=False), *blocks, *readout]


def vit(net: ViT, batch: int, local: bool) -> list[Piece]:
    """All tokens pass through the blocks, the class token alone through the head."""
    d, rows = net.width, batch * net.tokens
    block = [
        *linear(rows, d, 3 * d),
        Attention(batch * net.heads, net.tokens, d // net.heads),
        *linear(rows, d, d),
        *linear(rows, d, net.mlp_ratio * d),
        *linear(rows, net.mlp_ratio * d, d),
    ]
    pixels = net.sample_shape[0] * net.patch**2
    readout = linear(batch, d, net.classes, input_gradient=not (local and net.no_terminal_norm))
    return [*linear(batch * (net.tokens - 1), pixels, d, input_gradient=False), *net.depth * block, *readout]


def cnn(net: SmallCNN, batch: int, local: bool) -> list[Piece]:
    """No weight lies between the input of a block and its product, so a local rule needs no gradient of inputs."""
    channels, side, _ = net.sample_shape
    w = net.width
    return [
        Convolution(batch, channels, w, side, input_gradient=False),
        Convolution(batch, w, 2 * w, side, input_gradient=not local),
        Convolution(batch, 2 * w, 4 * w, side // 2, input_gradient=not local),
        *linear(batch, 4 * w * (side // 4) ** 2, 8 * w, input_gradient=not local),
        *linear(batch, 8 * w, net.classes, input_gradient=not local),
    ]


NETS: dict[type[Net], Callable[..., list[Piece]]] = {ResMLP: resmlp, ViT: vit, SmallCNN: cnn}
