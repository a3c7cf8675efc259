"""What the nets share: layers drawn as torch draws them, and GELU."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from faudit.nets.net import gelu, linear


def test_linear_draws_as_torch_does() -> None:
    torch.manual_seed(0)
    theirs = nn.Linear(300, 400)
    weight, bias = linear(torch.Generator().manual_seed(0), inputs=300, outputs=400)
    for mine, reference in ((weight, theirs.weight.detach()), (bias, theirs.bias.detach())):
        assert mine.shape == reference.shape
        assert float(mine.std()) == pytest.approx(float(reference.std()), rel=0.1)
        assert float(mine.abs().max()) == pytest.approx(300**-0.5, rel=0.02)


def test_gelu_is_gelu_whichever_way_it_is_computed() -> None:
    x = torch.cat([torch.linspace(-40, 40, 4001, dtype=torch.float64), torch.tensor([0.0, 1e-300, 1e300, torch.inf])])
    torch.testing.assert_close(gelu(x), nn.functional.gelu(x), rtol=1e-15, atol=1e-15)
    assert gelu(x.clone().requires_grad_()).grad_fn is not None
    # torch's own gives nan at infinity on some processors
    torch.testing.assert_close(gelu(x.float()), nn.functional.gelu(x.float()), rtol=0.0, atol=0.0, equal_nan=True)
