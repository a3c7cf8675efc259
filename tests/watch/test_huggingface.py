"""Models of Hugging Face's ``transformers``, built from small configs: nothing is downloaded."""

from __future__ import annotations

import copy
import os
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from faudit import audit_model
from faudit.audit.judge import TRUSTWORTHY, WALK_BACK
from tests.support.models import everything

os.environ["HF_HUB_OFFLINE"] = "1"
CLASSES = 4
pytestmark = pytest.mark.slow  # to import the library takes seconds


def library() -> Any:
    """Imported by the tests that use it: every worker collects this file."""
    return pytest.importorskip(
        "transformers", reason="transformers is not here: pip install -e '.[dev]' (Python 3.11 or newer)"
    )


def vit() -> nn.Module:
    transformers = library()
    torch.manual_seed(0)
    sizes = {"hidden_size": 8, "num_hidden_layers": 3, "num_attention_heads": 2, "intermediate_size": 8}
    config = transformers.ViTConfig(**sizes, image_size=4, patch_size=2, num_channels=1, num_labels=CLASSES)
    return transformers.ViTForImageClassification(config)  # type: ignore[no-any-return]  # transformers is Any here


def resnet() -> nn.Module:
    transformers = library()
    torch.manual_seed(0)
    sizes = {"embedding_size": 4, "hidden_sizes": [4, 8], "depths": [2, 1], "layer_type": "basic"}
    config = transformers.ResNetConfig(**sizes, num_channels=1, num_labels=CLASSES)
    return transformers.ResNetForImageClassification(config)  # type: ignore[no-any-return]


def batch(size: int, samples: int = 16) -> tuple[Tensor, Tensor]:
    draw = torch.Generator().manual_seed(1)
    return torch.randn(samples, 1, size, size, generator=draw), torch.arange(samples) % CLASSES


def gradients_by_hand(model: nn.Module, x: Tensor, y: Tensor, names: list[str]) -> list[Tensor]:
    """Through the library's own pass in eval mode, with plain hooks that keep what they see."""
    states: dict[str, Tensor] = {}
    handles = [
        model.get_submodule(name).register_forward_hook(lambda _m, _a, out, name=name: states.update({name: out}))
        for name in names
    ]
    loss = F.cross_entropy(model.eval()(x).logits, y, reduction="sum")
    found = torch.autograd.grad(loss, [states[name] for name in names])
    for handle in handles:
        handle.remove()
    return list(found)


@pytest.mark.parametrize(
    ("build", "pattern", "names"),
    [
        (vit, "vit.layers.*", [f"vit.layers.{l}" for l in range(3)]),
        (resnet, "**.stages.*.layers.*", [f"resnet.encoder.stages.{l}" for l in ("0.layers.0", "0.layers.1",
                                                                                 "1.layers.0")]),
    ],
    ids=["vit", "resnet"],
)  # fmt: skip
def test_it_is_measured_at_its_blocks_and_left_alone(build: Any, pattern: str, names: list[str]) -> None:
    x, y = batch(4 if build is vit else 8)
    model = build().train()
    model(x, labels=y).loss.backward()  # moves a BatchNorm's running statistics, too
    gradients = gradients_by_hand(copy.deepcopy(model), x, y, names)
    before = everything(model)
    audited = audit_model(model, [(x[:10], y[:10]), (x[10:], y[10:])], taps=pattern, credit=lambda *_: gradients)
    assert everything(model) == before and model.training
    assert audited.taps == tuple(names) and min(audited.row["precision_agree"]) == 1.0
    assert audited.row["gamma"] == pytest.approx([1.0] * 3, abs=1e-6) and min(audited.row["rho"]) > 0.99
    sizes = [float(g.flatten(1).norm(dim=1).double().quantile(0.5)) for g in gradients]
    assert audited.row["grad_norms"] == pytest.approx(sizes, rel=1e-4)
    wrong = audit_model(model, [(x, y)], taps=pattern, credit=lambda *_: [-g for g in gradients])
    assert wrong.row["gamma"] == pytest.approx([-1.0] * 3, abs=1e-6) and wrong.verdict.verdict == WALK_BACK


def test_inputs_by_name_and_taps_inside_a_model_output() -> None:
    x, y = batch(8)
    taps = ["resnet.embedder", "resnet.encoder"]
    audited = audit_model(resnet(), [({"pixel_values": x}, y)], taps=taps, frozen=[0.0], protocol="faudit-1")
    assert audited.taps == ("resnet.embedder", "resnet.encoder") and audited.verdict.verdict == TRUSTWORTHY
    attention = audit_model(vit(), [batch(4)], taps="vit.layers.*.attention")
    assert len(attention.taps) == 3, "an attention returns a tuple"
