"""Taps of a foreign model: which names a pattern means, in which order they run, and what a tap may return."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from faudit import audit_model
from faudit.watch.net import matches, tap_names
from tests.support.models import CLASSES, WIDTH, Block, batch


@pytest.mark.parametrize(
    ("name", "pattern", "means"),
    [
        ("blocks.0", "blocks.*", True), ("blocks.0.mlp", "blocks.*", False), ("blocks.0.mlp", "blocks.**", True),
        ("blocks", "blocks.**", True), ("vit.layers.11.mlp", "**.layers.*.mlp", True),
        ("layers.1", "**.layers.*", True),
        ("layer12", "layer*", True), ("layer12", "layer1", False), ("layer1", "layer1", True), ("aXb", "a*b", True),
        ("ab", "ab*ab", False), ("abxcab", "ab*c*ab", True), ("abcab", "ab*cc*ab", False), ("a.b", "*", False),
    ],
)  # fmt: skip
def test_a_star_stays_within_one_component_and_two_go_on(name: str, pattern: str, means: bool) -> None:
    assert matches(name, pattern) is means


def test_taps_come_in_the_order_in_which_they_run_each_once() -> None:
    class Backwards(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.late, self.early = nn.Linear(WIDTH, CLASSES), nn.Linear(WIDTH, WIDTH)
            self.held = nn.ModuleList([nn.Linear(WIDTH, WIDTH)])

        def forward(self, x: Tensor) -> Any:
            return self.late(self.held[0](self.early(x)))

    model = Backwards()
    assert tap_names(model, ["**", "late"]) == ("late", "early", "held.0"), "a ModuleList never runs"
    assert audit_model(model, [batch()], taps="**").taps == ("early", "held.0", "late")


@pytest.mark.parametrize("kind", ["tuple", "list", "dict", "named"])
def test_a_tap_may_be_the_first_tensor_of_a_structure_and_the_rest_is_kept(kind: str) -> None:
    from typing import NamedTuple

    class Pair(NamedTuple):
        hidden: Tensor
        scale: Tensor

    class Wrapped(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Linear(WIDTH, WIDTH)

        def forward(self, x: Tensor) -> Any:
            h, scale = self.inner(x), x.mean(dim=1, keepdim=True)
            return {"tuple": (None, h, scale), "list": [[h], scale], "dict": {"hidden": h, "scale": scale},
                    "named": Pair(h, scale)}[kind]  # fmt: skip

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.body, self.head = Wrapped(), nn.Linear(WIDTH, CLASSES)

        def forward(self, x: Tensor) -> Any:
            out = self.body(x)
            if kind == "named":
                return self.head(out.hidden * out.scale), "and more"
            _, h, scale = out if kind == "tuple" else (None, *(out.values() if kind == "dict" else (out[0][0], out[1])))
            return self.head(h * scale), "and more"

    audited = audit_model(Model(), [batch()], taps=["body.inner", "body"], credit=lambda taps, logits, y: list(taps))
    for entry in ("hidden_norms", "grad_norms", "gamma", "rho_bp"):
        inner, outer = audited.row[entry]
        assert inner == pytest.approx(outer, rel=1e-5)
    assert min(audited.row["rho_bp"]) > 0.99, "a moved state reaches the logits"


def test_token_ids_stay_integers_and_a_mapping_goes_in_by_name() -> None:
    class Words(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.table, self.body, self.head = nn.Embedding(11, WIDTH), Block(WIDTH), nn.Linear(WIDTH, CLASSES)

        def forward(self, ids: Tensor, mask: Tensor) -> Any:
            assert ids.dtype == torch.int64
            h = self.body(self.table(ids)) * mask[:, :, None]
            return {"logits": self.head(h.sum(dim=1))}

    ids, mask = torch.arange(60).reshape(20, 3) % 11, torch.ones(20, 3)
    y = torch.arange(20) % CLASSES
    batches = [({"ids": ids[i : i + 8], "mask": mask[i : i + 8]}, y[i : i + 8]) for i in (0, 8, 16)]
    audited = audit_model(Words(), batches, taps=["table", "body"], samples=10)
    assert audited.samples == 10 and min(audited.row["precision_agree"]) == 1.0
    alone = audit_model(Words(), [({"ids": ids[:10], "mask": mask[:10]}, y[:10])], taps=["table", "body"])
    assert alone.row == audited.row
