"""The roofline has exactly the products of the step: no more, which would flatter us, and no fewer."""

from __future__ import annotations

import math
from functools import partial

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from faudit.bench.roofline import (
    Attention,
    Convolution,
    Product,
    Roofline,
    Update,
    adamw,
    fastest,
    pieces,
    roofline,
    update,
)
from faudit.errors import ConfigError
from faudit.nets.cnn import SmallCNN
from faudit.nets.net import Net
from faudit.nets.resmlp import ResMLP
from faudit.nets.vit import ViT
from faudit.rules.bp import BP
from faudit.rules.dfa import DFA
from faudit.rules.rule import Rule

NETS: dict[str, Net] = {
    "resmlp": ResMLP((3, 8, 8), 10, depth=3, width=16),
    "resmlp, no terminal norm": ResMLP((3, 8, 8), 10, depth=1, width=16, no_terminal_norm=True),
    "vit": ViT((3, 8, 8), 10, depth=2, width=16, patch=4, heads=2),
    "vit, no terminal norm": ViT((3, 8, 8), 10, depth=1, width=16, patch=2, no_terminal_norm=True),
    "cnn": SmallCNN((3, 8, 8), 10, width=4),
}


@pytest.mark.parametrize("rule", [BP(), DFA()], ids=["bp", "dfa"])
@pytest.mark.parametrize("name", NETS)
def test_the_operations_are_those_that_torch_counts_in_the_step(name: str, rule: Rule) -> None:
    net, batch = NETS[name], 6
    params = {key: value.requires_grad_() for key, value in net.init(torch.Generator()).items()}
    x, y = torch.randn(batch, *net.sample_shape), torch.randint(10, (batch,))
    state = rule.init(net, x, torch.Generator())
    with FlopCounterMode(display=False) as counter:
        rule.step(net, params, state, x, y)
    listed = pieces(net, type(rule).__name__.lower(), batch=batch)
    assert counter.get_total_flops() == sum(
        piece.operations for piece in listed if not isinstance(piece, Attention)
    )  # torch does not count the fused attention of a processor
    assert sum(isinstance(piece, Attention) for piece in listed) == (net.blocks if isinstance(net, ViT) else 0)


@pytest.mark.parametrize(
    "piece",
    [
        Product(3, 5, 7),
        Convolution(2, 3, 4, 8, input_gradient=True),
        Convolution(2, 3, 4, 8, input_gradient=False),
        Attention(6, 5, 4),
    ],
    ids=str,
)
def test_every_way_does_the_operations_that_its_piece_states(piece: Product | Convolution | Attention) -> None:
    assert len(piece.ways()) > 1
    for name, work in piece.ways().items():
        with FlopCounterMode(display=False) as counter:
            work()
        assert counter.get_total_flops() in ({0} if name == "fused" else {piece.operations}), name


def test_a_products_ways_are_the_eight_layouts() -> None:
    layouts = set()
    for work in Product(3, 5, 7).ways().values():
        assert isinstance(work, partial)
        (a, b), c = work.args, work.keywords["out"]
        assert (a.shape, b.shape, c.shape) == ((3, 5), (5, 7), (3, 7))
        layouts.add((a.is_contiguous(), b.is_contiguous(), c.is_contiguous()))
    assert len(layouts) == 8


def test_the_update_is_that_of_adamw_on_every_weight() -> None:
    net = NETS["resmlp"]
    assert sum(map(math.prod, update(net).shapes)) == sum(
        value.numel() for value in net.init(torch.Generator()).values()
    )
    work = adamw([(3, 4)])
    assert isinstance(work, partial)
    (weights, gradients, means, squares, *_), decay = work.args, work.keywords
    w, g, m, v = (one[0].double().clone() for one in (weights, gradients, means, squares))
    m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
    expected = w * (1 - decay["lr"] * decay["weight_decay"]) - decay["lr"] * (m / 0.1) / ((v / 0.001).sqrt() + 1e-8)
    work()
    torch.testing.assert_close(weights[0].double(), expected, rtol=1e-5, atol=1e-6)


def test_each_piece_runs_as_often_as_it_is_listed_in_its_fastest_way() -> None:
    bound = Roofline([Product(3, 5, 7), Product(3, 5, 7), Update(((3,),))])
    with FlopCounterMode(display=False) as counter:
        bound.run(4)
    assert counter.get_total_flops() == 4 * 2 * Product(3, 5, 7).operations
    slow, quick = (lambda: sum(range(30_000))), (lambda: None)
    assert fastest({"slow": slow, "quick": quick})[0] == "quick"


def test_a_rule_or_net_without_a_roofline_is_refused() -> None:
    with pytest.raises(ConfigError, match="no roofline for rule ep on net ResMLP"):
        roofline(NETS["resmlp"], "ep", batch=2)
