"""What the audit of a foreign model refuses: each in one line that says what was expected, what came and what to do."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from faudit import FauditError, audit_model
from faudit.watch.batches import pair
from faudit.watch.net import ForeignNet
from tests.support.feedback import aligned, unaligned
from tests.support.models import CLASSES, WIDTH, Around, batch, everything, mlp
from tests.support.models import MLP_TAPS as TAPS


def refusal(model: Any, batches: Any = None, **settings: Any) -> str:
    """The line, after a look that the model is what it was."""
    before = everything(model) if isinstance(model, nn.Module) else None
    with pytest.raises(FauditError) as caught:
        audit_model(model, [batch()] if batches is None else batches, **{"taps": TAPS, **settings})
    said = str(caught.value)
    assert len(said.splitlines()) == 1, said
    assert before is None or everything(model) == before
    return said


def counted(self: Around, h: Tensor) -> Tensor:
    self.count += 1
    return self.two(h)  # type: ignore[no-any-return]  # nn.Module returns Any


def noted(self: Around, h: Tensor) -> Tensor:
    self.get_buffer("seen").add_(h.detach().mean())
    return self.two(h)  # type: ignore[no-any-return]


def without_grad(self: Around, h: Tensor) -> Tensor:
    with torch.no_grad():
        return self.two(h)  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("code", "told"),
    [
        (lambda self, h: self.two(self.two(h)), ["'two'", "expected one use in a forward pass, got a second"]),
        (without_grad, ["'two' runs inside no-grad code", "Remove torch.no_grad()"]),
        (lambda self, h: self.two(h).detach(), ["depends on none of the taps one, two"]),
        (lambda self, h: h + self.two(h).detach(), ["does not depend on the tap 'two'"]),
        (lambda self, h: h, ["'two' does not run in a forward pass", "gradients on"]),
        (
            lambda self, h: self.two(h) if torch.is_grad_enabled() else 2 * h,
            ["the tap 'two' does not run", "gradients off"],
        ),
        (counted, ["changes its own state in eval mode: 'count'", "self.training"]),
        (noted, ["changes its own state in eval mode: 'seen'"]),
        (lambda self, h: F.dropout(self.two(h), 0.5), ["not deterministic in eval mode", "'the logits'", "Refused"]),
        (lambda self, h: self.two(h + torch.randn(WIDTH)), ["not deterministic", "first at 'two'"]),
        (lambda self, h: self.two(h - h.mean(dim=0)), ["affect one another", "running statistics"]),
        (lambda self, h: self.two(h).T.contiguous().T.flatten(), ["failed on its input, float32 [24, 8]"]),
        (lambda self, h: self.two(h.mean(dim=0, keepdim=True)), ["'two': expected 24 samples first", "[1, 8]"]),
    ],
)
def test_a_model_that_cannot_be_measured(code: Callable[[Around, Tensor], Tensor], told: list[str]) -> None:
    said = refusal(Around(code), taps=["one", "two"])
    assert "float64" not in said
    for words in told:
        assert words in said


def test_a_state_moved_at_a_tap_that_does_not_run_is_never_taken_for_one_without_effect() -> None:
    net = ForeignNet((WIDTH,), CLASSES, Around(lambda self, h: h), ("two",))
    with pytest.raises(FauditError, match="'two' does not run"):
        net.moved(batch()[0], 0, batch()[0])


def test_taps_that_match_nothing_are_told_what_exists() -> None:
    said = refusal(mlp(), taps=["0", "blocks.*"])
    assert "'blocks.*' match no submodule" in said and said.endswith("of: 0, 1, 2, 3, 4, 5, 6")
    assert "did you mean 'two'?" in refusal(Around(counted), taps=["twoo"])
    many = nn.Sequential(*(nn.Identity() for _ in range(30)))
    assert refusal(many, taps=["x"]).endswith("19 and 10 more")
    assert "expected at least one" in refusal(mlp(), taps=[])
    shared = nn.Linear(WIDTH, WIDTH)
    assert "'0' and '1' are one submodule" in refusal(nn.Sequential(shared, shared), taps=["*"])


def test_weights_that_are_not_numbers() -> None:
    for value in (torch.nan, torch.inf):
        model = mlp()
        with torch.no_grad():
            model.get_parameter("2.weight")[0, 0] = value
        assert "'2.weight': expected finite numbers, got 1 of 64" in refusal(model)
    norm = nn.Sequential(nn.BatchNorm1d(WIDTH), nn.Linear(WIDTH, CLASSES))
    norm.get_buffer("0.running_var").fill_(torch.nan)
    assert "'0.running_var'" in refusal(norm, taps=["0"])
    masked = mlp()
    masked.register_buffer("mask", torch.full((2,), -torch.inf))
    assert audit_model(masked, [batch()], taps=TAPS), "an attention mask may hold infinities"
    assert "has no values yet" in refusal_without_bits(nn.Sequential(nn.Linear(2, 2, device="meta")))
    assert "has no values yet" in refusal_without_bits(nn.Sequential(nn.LazyLinear(2)))


def refusal_without_bits(model: nn.Module) -> str:
    with pytest.raises(FauditError) as caught:
        audit_model(model, [batch()], taps=["0"])
    return str(caught.value)


def test_what_is_no_model_or_cannot_be_copied() -> None:
    assert "expected a torch.nn.Module, got function" in refusal(lambda x: x)
    model = mlp()
    model.lock = threading.Lock()  # type: ignore[assignment]  # what a copy cannot hold
    assert "cannot be copied: TypeError" in refusal(model)


def test_integer_inputs_of_a_model_that_wants_none_are_told_with_type_and_shape() -> None:
    _, y = batch()
    for dtype in (torch.uint8, torch.int64):
        said = refusal(mlp(), [(torch.zeros(24, WIDTH, dtype=dtype), y)])
        assert f"input, {str(dtype)[6:]} [24, 8]: RuntimeError" in said and "floating point" in said
    assert "float64 [24, 8]" in refusal(mlp(), [batch(dtype=torch.float64)])
    named: Any = {"pixels": torch.zeros(24, WIDTH)}
    assert "pixels float32 [24, 8]: TypeError" in refusal(mlp(), [(named, y)])


def test_a_model_that_float64_breaks_is_told() -> None:
    said = refusal(Around(lambda self, h: self.two(h.float())), taps=["one"])
    assert "runs in its own precision but not in float64" in said and "RuntimeError" in said


class Says(nn.Module):
    """A linear tap, and anything as output."""

    def __init__(self, output: Callable[[Tensor], Any]) -> None:
        super().__init__()
        self.body, self.output = nn.Linear(WIDTH, CLASSES), output

    def forward(self, x: Tensor) -> Any:
        return self.output(self.body(x))


@pytest.mark.parametrize(
    ("output", "told"),
    [
        (lambda h: None, "an object with .logits or a tuple that begins with a tensor, got NoneType"),
        (lambda h: {"scores": h}, "got dict"),
        (lambda h: ("text", h), "got tuple"),
        (lambda h: h.argmax(dim=1), "expected floating point with 24 samples first, got int64 [24]"),
        (lambda h: h.sum(dim=0), "affect one another"),
        (lambda h: h[:, :, None], "expected logits [n, classes] and int64 labels [n], got float32 [24, 5, 1]"),
    ],
)  # fmt: skip
def test_outputs_that_are_no_logits(output: Callable[[Tensor], Any], told: str) -> None:
    assert told in refusal(Says(output), taps=["body"])


@pytest.mark.parametrize(
    ("credit", "told"),
    [
        (lambda taps, logits, y: taps[:2], "expected a list of 3 tensors, one for each tap (0, 2, 4), got 2"),
        (lambda taps, logits, y: taps[0], "expected a list of 3 tensors, one for each tap (0, 2, 4), got Tensor"),
        (lambda taps, logits, y: [taps[0], taps[1][:, :3], taps[2]],
         "at the tap '2': expected a signal of the shape of the tap, float32 [24, 8], got float32 [24, 3]"),
        (lambda taps, logits, y: [h.mean(dim=0) for h in taps], "got float32 [8]"),
        (lambda taps, logits, y: [h.long() for h in taps], "got int64 [24, 8]"),
        (lambda taps, logits, y: [h / 0 for h in taps], "expected finite numbers, got 192 that are not"),
        (lambda taps, logits, y: [torch.randn_like(h) for h in taps], "not deterministic: two calls"),
        (lambda taps: taps, "failed: TypeError"),
        (lambda taps, logits, y: logits @ y, "logits float32 [24, 5] and y int64 [24]"),
    ],
)  # fmt: skip
def test_credit_callables_that_do_not_fit(credit: Any, told: str) -> None:
    assert told in refusal(mlp(), credit=credit)


@pytest.mark.parametrize(
    ("loss", "told"),
    [
        (F.cross_entropy, "expected one number for each of 24 samples, got float32 []. Use reduction='none'"),
        (lambda logits, y: logits, "got float32 [24, 5]"),
        (lambda logits, y: 1 / 0, "the loss failed: ZeroDivisionError"),
        (lambda logits, y: (logits.argmax(dim=1) == y).float(), "a loss that can be differentiated"),
    ],
)
def test_losses_that_are_not_one_number_a_sample(loss: Any, told: str) -> None:
    assert told in refusal(mlp(), loss=loss)


def test_a_fresh_credit_that_does_not_fit() -> None:
    def credit(taps: list[Tensor], logits: Tensor, y: Tensor) -> list[Tensor]:
        return taps

    assert "expected together with a credit" in refusal(mlp(), fresh=lambda generator: credit)
    assert "expected a credit callable, got NoneType" in refusal(mlp(), credit=credit, fresh=lambda generator: None)
    assert "the fresh credit failed: ZeroDivisionError" in refusal(mlp(), credit=credit, fresh=lambda generator: 1 / 0)


@pytest.mark.parametrize(
    ("batches", "told"),
    [
        ([], "at least one sample, got none"),
        (3, "an iterable of pairs (x, y), got int"),
        (torch.zeros(3, WIDTH), "Write [(x, y)] for one"),
        ([torch.zeros(3, WIDTH)], "batch 0: expected a pair (x, y)"),
        ([(torch.zeros(3, WIDTH), [0, 1, 2])], "y list"),
        ([(torch.zeros(3, WIDTH), torch.zeros(2, dtype=torch.int64))], "x float32 [3, 8] with y int64 [2]"),
        ([({"x": "text"}, torch.zeros(2, dtype=torch.int64))], "x str"),
        ([batch(3), (torch.zeros(3, 9), batch(3)[1])], "cannot be concatenated"),
        ([({"x": batch(3)[0]}, batch(3)[1]), ({"z": batch(3)[0]}, batch(3)[1])], "the same inputs in each, x"),
        ([(torch.full((3, WIDTH), torch.nan), batch(3)[1])], "batch 0: expected finite inputs"),
        ([(torch.tensor([torch.inf, -torch.inf, 1.0])[:, None].expand(3, WIDTH), batch(3)[1])], "expected finite"),
        ([(batch(3)[0], torch.tensor([0, 1, CLASSES]))], "expected classes 0 to 4, as many as the model has logits"),
        ([(batch(3)[0], torch.tensor([0, 1, -100]))], "got -100 to 1"),
        ([(batch(3)[0], torch.rand(3))], "int64 labels [n], got float32 [3, 5] and float32 [3]"),
    ],
)
def test_batches_that_are_not_pairs(batches: Any, told: str) -> None:
    assert told in refusal(mlp(), batches)


def test_finite_inputs_whose_sum_overflows_are_finite() -> None:
    x, y = torch.full((3, WIDTH), torch.finfo(torch.float32).max), batch(3)[1]
    found, _ = pair((x, y), where="the batch")
    assert found is x and not torch.isfinite(x.sum())


def test_settings_out_of_range() -> None:
    assert "shares from 0 to 1, got 85" in refusal(mlp(), frozen=[85.0])
    for samples in (0, 2.5, "10"):
        assert f"samples: expected a whole number of at least 1, got {samples!r}" in refusal(mlp(), samples=samples)
    for frozen in (0.5, ["0.5"], "0.5"):
        assert "frozen: expected a list of accuracies, got" in refusal(mlp(), frozen=frozen)
    for taps in (None, [0], 3):
        assert "the taps: expected names or patterns of submodules, got" in refusal(mlp(), taps=taps)
    assert "did you mean 'faudit-4'" in refusal(mlp(), protocol="faudit-9")
    assert "floating point, got int64" in refusal(
        Tokens(), [(torch.zeros(9, dtype=torch.int64), batch(9)[1])], taps=["0"]
    )


def test_a_backward_pass_of_its_own_is_refused_unless_a_plain_twin_tells_the_gradient() -> None:
    model, twin = aligned(), unaligned()
    said = refusal(model, taps="blocks.*")
    assert "backward pass is not the derivative of its forward pass" in said and "plain=model if that is meant" in said
    before = everything(twin)
    plain = audit_model(model, [batch()], taps="blocks.*", plain=twin)
    assert everything(twin) == before, "the twin is copied too"
    wanted = unaligned()
    wanted.load_state_dict({name: value for name, value in model.state_dict().items() if "feedback" not in name})
    assert plain.row == audit_model(wanted, [batch()], taps="blocks.*").row
    meant = audit_model(model, [batch()], taps="blocks.*", plain=model)
    norms = [audited.row["grad_norms"] for audited in (plain, meant)]
    assert norms[0][1] == norms[1][1] and norms[0][0] != pytest.approx(norms[1][0], rel=0.01), "FA's signal"
    assert "plain: expected a torch.nn.Module, got int" in refusal(model, taps="blocks.*", plain=3)
    assert "plain: expected the weights of the model by name, got '0.weight'" in refusal(model, plain=mlp())
    assert "backward pass is not the derivative" in refusal(unaligned(), taps="blocks.*", plain=unaligned_lie())


def unaligned_lie() -> nn.Module:
    """A twin that has feedback inside itself, under the name of a weight that the model has."""
    twin = unaligned()
    twin.get_submodule("head").register_full_backward_hook(tripled)
    return twin


def tripled(_module: nn.Module, grads: Any, _out: Any) -> Any:
    return (3.0 * grads[0],)


@pytest.mark.parametrize("factor", [1.0, 1e4, 1e8, 1e14])
def test_an_exploded_model_is_not_taken_for_one_with_a_backward_pass_of_its_own(factor: float) -> None:
    model = mlp()
    with torch.no_grad():
        for value in model.parameters():
            value.mul_(factor ** (1 / 4))
    assert audit_model(model, [batch(64)], taps=TAPS).row["hidden_norms"][0] > 0


class Tokens(nn.Sequential):
    """A submodule whose output is ids."""

    def __init__(self) -> None:
        super().__init__(nn.Identity(), nn.Embedding(4, CLASSES))
