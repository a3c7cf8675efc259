"""Layers of several runs at once, forward and backward, on tensors whose first dimension is the run.

Each of them gives every run the bits that autograd gives one run alone. A batched product of matrices computes each
matrix as a single product does. Where an operation over all runs would round in another order, it is called once for
each run: the backward pass of a LayerNorm, the mean loss, and ``each``. There is no autograd here, because its own time
would be a large part of a small step. Gradients are written into tensors that are made once.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod

import torch
import torch.nn.functional as F
from torch import Tensor

from faudit.nets.net import Params

EPS = 1e-5  # of a LayerNorm, as in torch
LANES = 64  # a run with a multiple of so many numbers fills whole vectors of the processor, wherever the run is
Normed = tuple[Tensor, Tensor, Tensor]  # input, mean and 1/deviation: what the backward pass of a LayerNorm reads
aten = torch.ops.aten


def linear(params: Params, name: str, x: Tensor) -> Tensor:
    """x Wᵀ + b of every run, [R, n, outputs]."""
    weight, bias = params[f"{name}.weight"].mT, params.get(f"{name}.bias")
    return torch.bmm(x, weight) if bias is None else torch.baddbmm(bias.unsqueeze(1), x, weight)


def linear_back(params: Params, name: str, x: Tensor, g: Tensor, grads: Params) -> None:
    """Write the gradients of a layer's weight and bias, where ``grads`` holds them."""
    if f"{name}.weight" in grads:
        torch.bmm(g.mT, x, out=grads[f"{name}.weight"])
    if f"{name}.bias" in grads:
        torch.sum(g, dim=1, out=grads[f"{name}.bias"])


def layer_norm(params: Params, name: str, h: Tensor) -> tuple[Tensor, Normed]:
    """LayerNorm over the last dimension of every run."""
    normed, mean, rstd = torch.native_layer_norm(h, h.shape[-1:], None, None, EPS)
    weight, bias = params[f"{name}.weight"].unsqueeze(1), params[f"{name}.bias"].unsqueeze(1)
    return torch.addcmul(bias, normed, weight), (h, mean, rstd)


def layer_norm_back(
    params: Params, name: str, held: Normed, g: Tensor, grads: Params, *, inputs: bool
) -> Tensor | None:
    """Write the gradients of a LayerNorm where ``grads`` holds them; returns that of its input if it is wanted."""
    weight, bias = params[f"{name}.weight"], params[f"{name}.bias"]
    trained = f"{name}.weight" in grads
    wanted, shape = [inputs, trained, trained], [weight.shape[-1]]
    if not any(wanted):
        return None
    runs = zip(*(part.unbind() for part in (g, *held, weight, bias)), strict=True)
    parts = [
        aten.native_layer_norm_backward(own, h, shape, mean, rstd, w, b, wanted) for own, h, mean, rstd, w, b in runs
    ]
    if trained:
        torch.stack([part[1] for part in parts], out=grads[f"{name}.weight"])
        torch.stack([part[2] for part in parts], out=grads[f"{name}.bias"])
    return torch.stack([part[0] for part in parts]) if inputs else None


def each(function: Callable[..., Tensor], *tensors: Tensor) -> Tensor:
    """A function of single entries. Torch may round the last entries of a tensor in another way than the others."""
    if fills_vectors(tensors[0]):
        return function(*tensors)
    return torch.stack([function(*parts) for parts in zip(*tensors, strict=True)])


def fills_vectors(tensor: Tensor) -> bool:
    """Whether every run of a tensor fills whole vectors of the processor."""
    return prod(tensor.shape[1:]) % LANES == 0


def cross_entropy(logits: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """The mean loss of every run, [R], and its gradient at the logits."""
    logp = F.log_softmax(logits, dim=-1)
    losses = torch.stack([F.nll_loss(one, own) for one, own in zip(logp.unbind(), y.unbind(), strict=True)])
    slope = torch.zeros_like(logp).scatter_(-1, y.unsqueeze(-1), -1.0 / y.shape[1])
    return losses, aten._log_softmax_backward_data(slope, logp, -1, logp.dtype)


def output_error(logits: Tensor, y: Tensor) -> Tensor:
    """softmax(logits) − onehot(y) of every run."""
    return F.softmax(logits, dim=-1) - F.one_hot(y, logits.shape[-1]).to(logits.dtype)
