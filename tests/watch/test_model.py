"""Foreign models: the numbers are those of our own nets, the model is left alone, and the verdict is the judge's."""

from __future__ import annotations

import json
import math
import random
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import faudit
from faudit import audit_model
from faudit.audit.checks.check import FIRED, NOT_APPLICABLE, NOT_MEASURED, PASSED, UNDECIDED
from faudit.audit.checks.null import score
from faudit.audit.judge import INCONCLUSIVE, TRUSTWORTHY, WALK_BACK
from faudit.probes import PROBES
from faudit.probes.probe import Reading
from faudit.rules.rule import output_error
from faudit.store.rows import ENTRIES, Row
from faudit.tensors import cosines
from faudit.watch.copies import inspected
from faudit.watch.model import AuditedModel
from faudit.watch.net import matches, tap_names
from faudit.watch.reading import ForeignReading, turned
from tests.support.models import CLASSES, WIDTH, Around, Block, batch, everything, mlp, resmlp
from tests.support.nets import Setup

TAPS = ["0", "2", "4"]  # the linear layers of `mlp` before its head


def true_gradients(model: nn.Module, x: Tensor, y: Tensor) -> list[Tensor]:
    """∂ℓ_i/∂h one sample at a time, through a hand-written pass over the stack; a second computation."""
    rows: list[list[Tensor]] = []
    for i in range(len(x)):
        h, states = x[i : i + 1], []
        for name, layer in model.named_children():
            h = layer(h) if not isinstance(layer, nn.ReLU) else h.clamp(min=0)
            if name in TAPS:
                states.append(h)
        rows.append(list(torch.autograd.grad(F.cross_entropy(h, y[i : i + 1]), states)))
    return [torch.cat([row[tap] for row in rows]) for tap in range(len(TAPS))]


def status(audited: AuditedModel) -> dict[str, str]:
    return {finding.check: finding.status for finding in audited.verdict.findings}


def test_a_resmlp_as_a_plain_sequential_gives_the_very_numbers_of_ours() -> None:
    """Norms, gradients, Γ, ρ, nulls, nudging, precision and stability, to 1e-12 in float64."""
    setup = Setup("dfa", "resmlp")
    net, state = setup.net, setup.state
    draw = torch.Generator().manual_seed(3)
    x = torch.randn(16, *net.sample_shape, dtype=torch.float64, generator=draw)
    y = torch.randint(net.classes, (16,), generator=draw)
    reading = Reading(net, setup.rule, setup.params, state, x, y, seed=5)
    ours = {name: value for probe in PROBES for name, value in PROBES[probe]().measure(reading).items()}

    def dfa(feedback: dict[str, Tensor]) -> Any:
        def credit(taps: list[Tensor], logits: Tensor, y: Tensor) -> list[Tensor]:
            error = output_error(logits, y)
            return [*(error @ feedback[f"B.{l}"].double().T for l in range(net.blocks)), torch.zeros_like(taps[-1])]

        return credit

    model = resmlp(setup.params, inputs=16, width=6, depth=3, classes=net.classes)
    theirs = audit_model(
        model,
        [(x[:9], y[:9]), (x[9:], y[9:])],
        taps=["embed", "0", "1", "2"],
        credit=dfa(state),
        fresh=lambda generator: dfa(setup.rule.init(net, x[:1], generator)),
        seed=5,
    )
    assert theirs.taps == ("embed", "0", "1", "2")
    per_tap = ("hidden_norms", "grad_norms", "grad_norms_frobenius", "precision", "precision_agree", "grad_relative",
               "linear_acc", "acc_eval", "loss_eval", "stability", "stability_samples", "reference_rank")  # fmt: skip
    per_block = ("gamma", "gamma_undefined", "gamma_chance", "rho", "rho_bp", "rho_random", "rho_pooled",
                 "rho_null_mean", "rho_null_std", "rho_null_place", "gamma_null_mean", "gamma_null_std",
                 "gamma_null_place", "nudging", "nudging_random", "nudging_study")  # fmt: skip
    for name in per_tap:
        np.testing.assert_allclose(theirs.row[name], ours[name], rtol=1e-12, atol=1e-12, err_msg=name)
    for name in per_block:
        np.testing.assert_allclose(theirs.row[name][:3], ours[name], rtol=1e-10, atol=1e-12, err_msg=name)
    assert theirs.row["gamma"][3] is None, "the last tap is taught nothing"
    assert theirs.row["null_of"] == "fresh feedback" and status(theirs)["feedback"] == PASSED


def test_gradients_equal_a_slow_loop_though_activations_write_in_place() -> None:
    model, (x, y) = mlp(dtype=torch.float64), batch(dtype=torch.float64)
    row = audit_model(model, [(x, y)], taps=TAPS).row
    gradients = true_gradients(model, x, y)
    np.testing.assert_allclose(row["grad_norms"], [np.median(g.norm(dim=1).numpy()) for g in gradients], rtol=1e-12)
    h = x
    for tap, place in enumerate((0, 2, 4)):
        h = model[place](h.clamp(min=0) if tap else h)
        assert row["hidden_norms"][tap] == pytest.approx(np.median(h.detach().norm(dim=1).numpy()), rel=1e-12)


def test_the_true_gradient_as_credit_has_gamma_one_its_negative_minus_one_and_a_random_one_nothing() -> None:
    model, (x, y) = mlp(dtype=torch.float64), batch(64, dtype=torch.float64)
    gradients = true_gradients(model, x, y)
    noise = [torch.randn(g.shape, dtype=g.dtype, generator=torch.Generator().manual_seed(1)) for g in gradients]
    right = audit_model(model, [(x, y)], taps=TAPS, credit=lambda taps, logits, y: gradients, frozen=[0.0])
    np.testing.assert_allclose(right.row["gamma"], 1.0, rtol=1e-12)
    assert all(value > 0.99 for value in right.row["rho"]) and status(right)["null"] == PASSED
    assert all(value < 0 for value in right.row["nudging"]), "a step against the gradient lowers the loss"
    wrong = audit_model(model, [(x, y)], taps=TAPS, credit=lambda taps, logits, y: [-g for g in gradients])
    np.testing.assert_allclose(wrong.row["gamma"], -1.0, rtol=1e-12)
    assert all(value < -0.99 for value in wrong.row["rho"]) and wrong.verdict.verdict == WALK_BACK
    blind = audit_model(model, [(x, y)], taps=TAPS, credit=lambda taps, logits, y: noise)
    assert all(abs(value) < 0.3 for value in blind.row["gamma"]) and status(blind)["null"] == FIRED
    assert right.row["null_of"] == "the same credit turned at random"


@pytest.mark.parametrize(("samples", "features", "rank"), [(12, 5, 3), (5, 12, 5), (1, 4, 1), (4, 3, 0)])
def test_a_turned_credit_keeps_lengths_and_angles_and_points_elsewhere(samples: int, features: int, rank: int) -> None:
    draw = torch.Generator().manual_seed(0)
    credit = torch.randn(samples, rank, generator=draw) @ torch.randn(rank, features, generator=draw)
    first, second = turned(credit, [torch.Generator().manual_seed(seed) for seed in (1, 2)])
    for other in (first, second):
        assert other.shape == credit.shape and other.dtype == credit.dtype
        torch.testing.assert_close(other @ other.T, credit @ credit.T, rtol=1e-5, atol=1e-5)
    assert rank == 0 or float((first - second).norm()) > 0.1 * float(credit.norm())


def test_the_null_without_fresh_feedback_is_as_wide_as_with_it() -> None:
    """Feedback that has nothing to do with the net: its Γ must lie within the null, as often as chance has it."""
    model, (x, y) = mlp(dtype=torch.float64), batch(128, dtype=torch.float64)
    net, exact = inspected(model, x, patterns=TAPS, samples=len(y))

    def dfa(generator: torch.Generator) -> Any:
        matrices = torch.randn(3, CLASSES, WIDTH, generator=generator, dtype=torch.float64)
        return lambda taps, logits, y: [output_error(logits, y) @ matrix for matrix in matrices]

    scores: dict[bool, list[float]] = {False: [], True: []}
    for seed in range(100):
        credit = dfa(torch.Generator().manual_seed(1000 + seed))
        for fresh in scores:
            reading = ForeignReading(net, exact, x, y, credit=credit, fresh=dfa if fresh else None, seed=seed)
            gammas = [
                [float(cosines(one, g).nanmean()) for one, g in zip(credits, reading.gradients, strict=True)]
                for credits in (reading.credits, *reading.fresh_credits(20))
            ]
            draws = np.array(gammas[1:])
            row = Row(gamma=gammas[0], gamma_null_draws=draws.T.tolist())
            scores[fresh].append(score(row, [0, 1, 2]))
    for found in scores.values():
        assert 0.8 < np.std(found) < 1.25 and np.mean(np.array(found) > 1.77) < 0.13


def test_a_credit_that_is_the_same_for_every_sample_fires_and_one_of_zeros_never_passes() -> None:
    model, data = mlp(), [batch()]
    same = audit_model(model, data, taps=TAPS, credit=lambda taps, logits, y: [torch.ones_like(h) for h in taps])
    assert status(same)["null"] == FIRED
    zero = audit_model(
        model, data, taps=TAPS, credit=lambda taps, logits, y: [0 * h for h in taps], frozen=[0.0], protocol="faudit-1"
    )
    assert status(zero)["null"] in (NOT_MEASURED, UNDECIDED) and zero.verdict.verdict == INCONCLUSIVE
    assert zero.row["gamma"] == [None] * 3


def test_without_credit_the_checks_of_credit_do_not_apply_and_depth_wants_a_control() -> None:
    model, data = mlp(), [batch(200)]
    audited = audit_model(model, data, taps=TAPS, protocol="faudit-1")  # it is untrained, which faudit-2 would say
    found = status(audited)
    assert all(found[name] == NOT_APPLICABLE for name in ("movement", "feedback", "null", "controls"))
    assert found["depth"] == NOT_MEASURED and all(found[name] == PASSED for name in ("scale", "reference", "rank"))
    assert audited.verdict.verdict == INCONCLUSIVE and "--frozen-accuracy" in audited.verdict.reasons[0]
    assert not {"gamma", "rho"} & audited.row.keys()
    for frozen, verdict in (([0.0, 0.0], TRUSTWORTHY), ([0.9], WALK_BACK)):
        assert audit_model(model, data, taps=TAPS, frozen=frozen, protocol="faudit-1").verdict.verdict == verdict


@pytest.mark.parametrize("has_credit", [True, False])
@pytest.mark.parametrize("has_classes", [True, False])
def test_every_probe_is_measured_or_the_reason_is_known(has_credit: bool, has_classes: bool) -> None:
    x, y = batch(64)
    audited = audit_model(
        mlp(), [(x, y if has_classes else x[:, :CLASSES])], taps=TAPS,
        credit=(lambda taps, logits, y: [torch.ones_like(h) for h in taps]) if has_credit else None,
        loss=None if has_classes else lambda out, y: (out - y).square().sum(1),
    )  # fmt: skip
    offered: set[str] = {name for name, given in (("credit", has_credit), ("classes", has_classes)) if given}
    measured = {name for name in PROBES if offered.issuperset(PROBES.declared(name).needs)}
    entries = {entry.name for name in measured for entry in PROBES.declared(name).entries}
    assert audited.row.keys() == {"null_of", "dtype", "eval_samples", *entries}
    assert audited.not_measured.keys() == PROBES.keys() - measured >= {"update", "movement", "weights"}
    assert audited.to_json()["not_measured"].get("alignment") == (None if has_credit else "no credit was given")
    for name, value in audited.row.items():
        assert isinstance(value, list) is (ENTRIES[name].shape != "scalar"), name
        assert not isinstance(value, list) or len(value) == len(TAPS), name


def test_outputs_that_are_no_scores_of_classes_are_measured_all_the_same() -> None:
    """One number a sample, a regression, labels that a loss ignores: none is asked for accuracy or rank."""
    model, (x, y) = mlp(), batch(64)
    to_one = nn.Sequential(*model, nn.Linear(CLASSES, 1), nn.Flatten(0))
    cases: list[tuple[nn.Module, Tensor, Any]] = [
        (to_one, x[:, 0], lambda out, y: (out - y).square()),
        (nn.Sequential(*model, nn.Linear(CLASSES, 1)), x[:, :1], lambda out, y: (out - y).square().sum(1)),
        (model, torch.where(y == 0, -100, y), lambda out, y: F.cross_entropy(out, y, reduction="none")),
    ]
    for one, targets, loss in cases:
        audited = audit_model(one, [(x, targets)], taps=TAPS, loss=loss)
        assert audited.row["acc_eval"] is None and "linear_acc" not in audited.row
        assert status(audited)["rank"] == NOT_APPLICABLE and status(audited)["reference"] == PASSED


def test_taps_that_share_one_feedback_hang_together_under_the_null_too() -> None:
    """The same credit at every tap: its mean over taps is no better known than at one."""
    model, (x, y) = mlp(dtype=torch.float64), batch(64, dtype=torch.float64)
    net, exact = inspected(model, x, patterns=TAPS, samples=len(y))
    matrix = torch.randn(CLASSES, WIDTH, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    reading = ForeignReading(
        net, exact, x, y, credit=lambda taps, logits, y: [output_error(logits, y) @ matrix for _ in taps]
    )
    for draw in reading.fresh_credits(3):
        assert torch.equal(draw[0], draw[1]) and torch.equal(draw[1], draw[2])


def test_float64_finds_out_a_float32_model_whose_states_exploded() -> None:
    """A stream of 1e9 behind a LayerNorm: float32 has lost what is added to it, loss and accuracy do not show it."""

    def stack(offset: float) -> nn.Sequential:
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(WIDTH, WIDTH), Block(WIDTH), nn.LayerNorm(WIDTH), nn.Linear(WIDTH, CLASSES))
        with torch.no_grad():
            model.get_parameter("0.bias").add_(offset)
        return model

    sound, broken = (audit_model(stack(offset), [batch(64)], taps=["0", "1"]) for offset in (0.0, 1e9))
    assert status(sound)["reference"] == PASSED and min(sound.row["precision_agree"]) == 1.0
    assert status(broken)["reference"] == FIRED and broken.verdict.verdict == WALK_BACK
    assert math.isfinite(broken.row["loss_eval"]) and broken.row["hidden_norms"][1] > 1e9


def test_a_model_that_overflows_is_walked_back_and_told_in_strict_json() -> None:
    model = mlp()
    with torch.no_grad():
        for name in ("2.weight", "4.weight"):
            model.get_parameter(name).mul_(1e25)
    audited = audit_model(
        model, [batch()], taps=TAPS, credit=lambda taps, logits, y: [torch.ones_like(h) for h in taps]
    )
    assert audited.verdict.verdict == WALK_BACK and status(audited)["scale"] == FIRED
    text = json.dumps(audited.to_json(), allow_nan=False)
    assert json.loads(text)["verdict"] == WALK_BACK and "inf" in str(audited)


def spoiled() -> nn.Module:
    """A BatchNorm ResNet in train mode with grads, a frozen weight, a submodule in eval mode and a hook of its own."""
    torch.manual_seed(0)
    conv = nn.Conv2d(1, 4, 3, padding=1)
    body = nn.Sequential(nn.BatchNorm2d(4), nn.ReLU(inplace=True), nn.Conv2d(4, 4, 3, padding=1), nn.BatchNorm2d(4))
    model = nn.Sequential(conv, body, nn.Dropout(0.5), nn.Flatten(), nn.Linear(64, CLASSES)).train()
    model(torch.randn(8, 1, 4, 4)).sum().backward()
    conv.bias.requires_grad_(False)  # type: ignore[union-attr]  # a Conv2d with a bias
    body[0].eval()
    model[0].register_forward_hook(lambda module, args, output: None)
    return model


@pytest.mark.parametrize("refused", [False, True])
def test_a_model_is_left_as_it_was_to_the_last_bit(refused: bool) -> None:
    model = spoiled()
    x, y = torch.randn(12, 1, 4, 4), torch.arange(12) % CLASSES
    loader: Any = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), batch_size=4, shuffle=True)
    before = everything(model)

    def credit(taps: list[Tensor], logits: Tensor, y: Tensor) -> list[Tensor]:
        torch.rand(1), np.random.rand(), random.random()
        for h in (*taps, logits):
            h.add_(1.0)  # writing into what it is given spoils nothing
        return [] if refused else [h - 1.0 for h in taps]

    if refused:
        with pytest.raises(faudit.FauditError):
            audit_model(model, loader, taps=["0", "1"], credit=credit)
    else:
        once = audit_model(model, loader, taps=["0", "1"], credit=credit)
        assert everything(model) == before
        assert once.row == audit_model(model, loader, taps=["0", "1"], credit=credit).row
    assert everything(model) == before


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_it_works_where_gradients_are_switched_off(mode: Any) -> None:
    model, data = mlp(), [batch()]
    wanted = audit_model(model, data, taps=TAPS).row
    with mode():
        assert audit_model(model, data, taps=TAPS).row == wanted


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


def test_a_loss_of_ones_own_is_what_is_differentiated() -> None:
    model, (x, _) = mlp(dtype=torch.float64), batch(dtype=torch.float64)
    y = torch.randn(len(x), CLASSES, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    row = audit_model(model, [(x, y)], taps=["4"], loss=lambda out, y: (out - y).square().sum(dim=1)).row
    h = x
    for layer in list(model)[:5]:
        h = layer(h) if isinstance(layer, nn.Linear) else h.clamp(min=0)
    error = 2 * (model[6](h.clamp(min=0)) - y)  # by hand: ∂ℓ/∂h = (h > 0) · Wᵀ 2(ŷ − y)
    gradient = (error @ model[6].weight) * (h > 0)
    assert row["grad_norms"] == pytest.approx([np.median(gradient.detach().norm(dim=1).numpy())], rel=1e-12)
    ratio = gradient.norm(dim=1) / error.norm(dim=1)
    assert row["grad_relative"] == pytest.approx([np.median(ratio.detach().numpy())], rel=1e-12)
    assert row["acc_eval"] is None and row["loss_eval"] == pytest.approx(
        float((error.detach() / 2).square().sum(1).mean())
    )
    assert "linear_acc" not in row


def test_a_second_branch_around_a_tap_is_part_of_what_is_measured() -> None:
    """The loss reaches x by two ways; moving the tap moves one of them."""
    model = Around(lambda self, h: h + self.two(h))
    row = audit_model(model, [batch()], taps=["one", "two"], credit=lambda taps, logits, y: list(taps)).row
    assert min(row["rho_bp"]) > 0.99 and row["grad_norms"][0] != row["grad_norms"][1]
