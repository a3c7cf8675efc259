"""DFA at every hidden layer: where its signals enter, its gradients by hand, its forms on maps, and its limits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from faudit.config import RunConfig
from faudit.errors import ConfigError
from faudit.experiment import prepare
from faudit.nets.cnn import SmallCNN
from faudit.nets.mlp import MLP
from faudit.nets.net import Net, Params
from faudit.nets.student import StudentNet
from faudit.rules.dfa_layers import DFALayers
from faudit.rules.direct import Cuts, Place, as_matrix, drawn, places
from tests.support.direct_by_hand import Array, direct_grads, numbers, output_errors
from tests.support.nets import RESMLPS, Setup, tiny_dataset
from tests.support.oracle import gelu, gelu_slope
from tests.support.rules_by_hand import oracle_of

FORMS = ("dense", "shared", "tiled")
BY_HAND = ["student", "student-half-linear", "mlp"]


def close(got: Tensor, want: Array, name: str = "") -> None:
    np.testing.assert_allclose(got.detach().numpy(), want, rtol=1e-9, atol=1e-13, err_msg=name)


@pytest.mark.parametrize("net", BY_HAND)
def test_every_hidden_layer_learns_from_its_own_projection_of_the_error(net: str) -> None:
    """Nøkland's δ_i = (B_i e) ⊙ φ′(z_i), written out."""
    setup = Setup("dfa-layers", net)
    got, want = setup.grads(), direct_grads(setup, output_errors(setup))
    assert got.keys() == want.keys()
    for name in want:
        close(got[name], want[name], name)


@pytest.mark.parametrize("net", RESMLPS)
def test_in_a_resmlp_w1_learns_at_its_activation_w2_at_the_branch_and_the_norm_through_w1(net: str) -> None:
    setup = Setup("dfa-layers", net)
    oracle, p = oracle_of(setup), numbers(setup)
    e = oracle.error(setup.y.numpy()) / len(setup.y)
    want = oracle.readout_back(e)[0] | oracle.embed_back(e @ p["B.0"].T)
    for l, (normal, _, u, z) in enumerate(oracle.kept):
        b, at_branch = f"blocks.{l}", e @ p[f"B.{setup.net.taught_at(l)}"].T
        delta = (e @ p[f"B.{b}.w2.weight"].T) * gelu_slope(z)
        before = delta @ p[f"{b}.w1.weight"]
        want |= {
            f"{b}.w2.weight": at_branch.T @ gelu(z),
            f"{b}.w2.bias": at_branch.sum(0),
            f"{b}.w1.weight": delta.T @ u,
            f"{b}.w1.bias": delta.sum(0),
            f"{b}.norm.weight": (before * normal).sum(0),
            f"{b}.norm.bias": before.sum(0),
        }
    got = setup.grads()
    assert got.keys() == want.keys()
    for name in want:
        close(got[name], want[name], name)


def test_in_a_cnn_the_signal_enters_after_the_pool_and_passes_it_and_the_relu() -> None:
    setup = Setup("dfa-layers", "cnn")
    p, n = numbers(setup), len(setup.x)
    logits = setup.net.forward(setup.params, setup.x).detach().numpy()
    e = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    e[np.arange(n), setup.y.numpy()] -= 1
    h = setup.x.numpy()
    got = setup.grads()
    for tap, name in enumerate(["embed", "blocks.0", "blocks.1"]):
        z, padded = convolved(h, p[f"{name}.weight"], p[f"{name}.bias"])
        a = np.maximum(z, 0)
        signal = (e / n) @ p[f"B.{tap}"].T
        if tap == 0:
            delta, h = signal.reshape(a.shape) * (z > 0), a
        else:
            delta, h = pooled_back(a, signal) * (z > 0), pooled(a)
        height, width = z.shape[2:]
        want = np.zeros_like(p[f"{name}.weight"])
        for i, j in np.ndindex(3, 3):
            want[:, :, i, j] = np.einsum("nohw,nihw->oi", delta, padded[:, :, i : i + height, j : j + width])
        close(got[f"{name}.weight"], want, name)
        close(got[f"{name}.bias"], delta.sum((0, 2, 3)), name)


def convolved(h: Array, weight: Array, bias: Array) -> tuple[Array, Array]:
    """A 3 × 3 convolution with padding 1, and its padded input."""
    padded = np.pad(h, ((0, 0), (0, 0), (1, 1), (1, 1)))
    height, width = h.shape[2:]
    z = np.zeros((len(h), len(weight), height, width)) + bias[:, None, None]
    for i, j in np.ndindex(3, 3):
        z += np.einsum("oi,nihw->nohw", weight[:, :, i, j], padded[:, :, i : i + height, j : j + width])
    return z, padded


def pooled(a: Array) -> Array:
    n, c, h, w = a.shape
    return np.asarray(a.reshape(n, c, h // 2, 2, w // 2, 2).max((3, 5)))


def pooled_back(a: Array, signal: Array) -> Array:
    """The signal at the first largest entry of each 2 × 2 window, zero elsewhere."""
    n, c, h, w = a.shape
    back, signal = np.zeros_like(a), signal.reshape(n, c, h // 2, w // 2)
    for s, k, i, j in np.ndindex(n, c, h // 2, w // 2):
        window = a[s, k, 2 * i : 2 * i + 2, 2 * j : 2 * j + 2]
        row, column = np.unravel_index(window.argmax(), (2, 2))
        back[s, k, 2 * i + row, 2 * j + column] = signal[s, k, i, j]
    return back


@pytest.mark.parametrize("net", ["vit", "vit-cls"])
def test_in_a_vit_each_layer_learns_at_what_reads_it_and_at_nothing_beyond(net: str) -> None:
    """Each stretch by itself: its layers with a graph, everything else as plain numbers, and no cut to get wrong."""
    setup = Setup("dfa-layers", net)
    got, d, heads = setup.grads(), 8, 2
    trace = setup.net.trace(setup.params, setup.x)
    e = setup.net.output_error(trace.logits.detach(), setup.y) / len(setup.x)

    def taught(output: Tensor, feedback: str, names: list[str]) -> dict[str, Tensor]:
        signal = e @ setup.state[feedback].T
        value = (output * signal[:, None]).sum() if net == "vit" else (output[:, 0] * signal).sum()
        own = [setup.params[name] for name in names]
        return dict(zip(names, torch.autograd.grad(value, own, retain_graph=True), strict=True))

    for l in range(setup.net.blocks):
        b, h = f"blocks.{l}", trace.taps[l].detach()
        p = {name.removeprefix(f"{b}."): value for name, value in setup.params.items() if name.startswith(f"{b}.")}
        qkv = F.linear(F.layer_norm(h, (d,), p["norm1.weight"], p["norm1.bias"]), p["qkv.weight"], p["qkv.bias"])
        q, k, v = (one.unflatten(2, (heads, -1)).transpose(1, 2) for one in qkv.split(d, dim=2))
        mixed = ((q @ k.mT * (d // heads) ** -0.5).softmax(-1) @ v).transpose(1, 2).flatten(2)
        attended = F.linear(mixed.detach(), p["out.weight"], p["out.bias"])
        normed = F.layer_norm(h + attended, (d,), p["norm2.weight"], p["norm2.bias"])
        activated = F.gelu(F.linear(normed.detach(), p["w1.weight"], p["w1.bias"]))
        branch = attended + F.linear(activated.detach(), p["w2.weight"], p["w2.bias"])
        out = [f"{b}.out.weight", f"{b}.out.bias"]
        norms = [[f"{b}.norm{i}.weight", f"{b}.norm{i}.bias"] for i in (1, 2)]
        want = taught(mixed, f"B.{b}.out.weight", [f"{b}.qkv.weight", f"{b}.qkv.bias", *norms[0]])
        want |= taught(activated, f"B.{b}.w2.weight", [f"{b}.w1.weight", f"{b}.w1.bias"])
        want |= taught(branch, f"B.{l}", [f"{b}.w2.weight", f"{b}.w2.bias", *out])
        for name, more in taught(normed, f"B.{b}.w1.weight", [*norms[1], *out]).items():
            want[name] = want[name] + more if name in want else more
        assert want.keys() == {name for name in got if name.startswith(f"{b}.")}
        for name in want:
            torch.testing.assert_close(got[name], want[name], rtol=1e-9, atol=1e-13, msg=name)


def test_on_a_linear_net_the_true_jacobians_as_feedback_are_bp() -> None:
    """Of embedding and block 0, which share a matrix, one at a time."""
    net = StudentNet((1, 4, 4), 5, depth=3, width=6, w2_std=0.4, alpha=0.0)
    setup = Setup("dfa-layers", "student")
    setup.net = net
    params = {name: value.detach() for name, value in setup.params.items()}
    exact, onward = setup.exact(), params["readout.weight"]  # ∂logits/∂h at the taps, from the last
    jacobians = [onward]
    for l in reversed(range(3)):
        b = f"blocks.{l}"
        setup.state[f"B.{b}.w2.weight"] = (onward @ params[f"{b}.w2.weight"]).T
        setup.state[f"B.{l}"] = onward.T
        onward = onward + onward @ params[f"{b}.w2.weight"] @ params[f"{b}.w1.weight"]
        jacobians.insert(0, onward)
    got = setup.grads()
    for name in [name for name in exact if not name.startswith("embed.")]:
        torch.testing.assert_close(got[name], exact[name], rtol=1e-9, atol=1e-13, msg=name)
    setup.state["B.0"] = jacobians[0].T
    got = setup.grads()
    torch.testing.assert_close(got["embed.weight"], exact["embed.weight"], rtol=1e-9, atol=1e-13)


@pytest.mark.parametrize("net", ["cnn", "mlp"])
def test_with_the_heads_transpose_the_last_hidden_layer_is_taught_what_bp_teaches_it(net: str) -> None:
    setup = Setup("dfa-layers", net)
    last = setup.net.signals - 1
    setup.state[f"B.{last}"] = setup.params["readout.weight"].detach().T
    got, want = setup.grads(), setup.exact()
    for name in [name for name in want if name.startswith((f"blocks.{setup.net.blocks - 1}.", "readout."))]:
        torch.testing.assert_close(got[name], want[name], rtol=1e-9, atol=1e-13, msg=name)


def test_without_inner_layers_its_credit_is_that_of_block_level_dfa() -> None:
    ours, blocks = Setup("dfa-layers", "cnn"), Setup("dfa", "cnn")
    assert all(torch.equal(ours.state[name], blocks.state[name]) for name in blocks.state)
    assert all(torch.equal(one, other) for one, other in zip(ours.credit(), blocks.credit(), strict=True))


def test_the_credit_is_the_signal_that_enters_at_each_tap(net_name: str) -> None:
    """A displacement of a part's output along the credit changes the objective by its squared length."""
    setup = Setup("dfa-layers", net_name)
    e = setup.net.output_error(setup.net.forward(setup.params, setup.x).detach(), setup.y)
    for l, credit in enumerate(setup.credit()):
        want = e @ setup.state[f"B.{l}"].T if f"B.{l}" in setup.state else torch.zeros_like(credit)
        torch.testing.assert_close(credit, want, rtol=1e-12, atol=0)
        assert credit.shape[1] == setup.net.tap_widths(setup.x)[l]


def test_one_matrix_for_each_place_where_a_layer_is_read() -> None:
    def names(net: str) -> list[str]:
        return [place.feedback for place in places(Setup("dfa-layers", net).net)]

    inner = [f"B.blocks.{l}.w2.weight" for l in range(3)]
    assert names("resmlp") == names("student") == ["B.0", "B.1", "B.2", *inner]
    assert names("resmlp-no-residual") == ["B.0", "B.1", "B.2", "B.3", *inner]
    assert names("cnn") == ["B.0", "B.1", "B.2", "B.3"]
    assert names("mlp") == ["B.1", "B.2", "B.3"]  # its embedding has no weights
    attention = [f"B.blocks.{l}.{layer}.weight" for l in range(3) for layer in ("out", "w1", "w2")]
    assert names("vit") == ["B.0", "B.1", "B.2", *attention]


@pytest.mark.parametrize("form", FORMS)
def test_feedback_on_a_map_has_the_shape_of_its_form_and_the_spread_of_one_over_the_root_of_the_classes(
    form: str,
) -> None:
    rule = DFALayers(feedback=form, feedback_scale=2.0)
    net = SmallCNN((3, 8, 8), 10)
    state = rule.init(net, torch.zeros(1, 3, 8, 8), torch.Generator().manual_seed(1))
    shapes = {"dense": (64 * 16, 10), "shared": (64, 10), "tiled": (64, 10, 3, 3)}
    assert tuple(state["B.1"].shape) == shapes[form] and tuple(state["B.3"].shape) == (256, 10)
    for place in places(net):
        matrix = rule.matrix(state, place)
        assert matrix.shape == (torch.Size(place.shape).numel(), 10)
        inside = matrix.view(*place.shape, 10)[:, 1:-1, 1:-1] if len(place.shape) == 3 else matrix
        if inside.numel() > 2000:
            assert float(inside.std()) == pytest.approx(2.0 * 10**-0.5, rel=0.15)


def test_shared_feedback_is_dense_feedback_with_one_row_for_all_positions_of_a_channel() -> None:
    shared, dense = (Setup("dfa-layers", "cnn", feedback=form) for form in ("shared", "dense"))
    for l, positions in enumerate((16, 4, 1)):
        rows = [row for row in shared.state[f"B.{l}"] for _ in range(positions)]
        dense.state[f"B.{l}"] = torch.stack(rows)
    dense.state["B.3"] = shared.state["B.3"]
    one, other = shared.grads(), dense.grads()
    assert all(torch.equal(one[name], other[name]) for name in one)


def test_tiled_feedback_is_the_error_repeated_over_the_map_and_convolved() -> None:
    """By loops: at each position, the entries of the kernel that lie on the map."""
    place = Place("B.0", None, (2, 3, 4))
    kernels = drawn("tiled", place, torch.Generator().manual_seed(3), classes=5, std=1.0).double()
    got = as_matrix("tiled", kernels, place.shape).view(2, 3, 4, 5)
    for channel, row, column, label in np.ndindex(2, 3, 4, 5):
        on_map = [
            float(kernels[channel, label, 1 + i, 1 + j])
            for i in (-1, 0, 1)
            for j in (-1, 0, 1)
            if 0 <= row + i < 3 and 0 <= column + j < 4
        ]
        assert float(got[channel, row, column, label]) == pytest.approx(sum(on_map), rel=1e-12)


def test_on_a_map_of_one_position_the_three_forms_are_one_and_inside_a_map_tiled_is_shared() -> None:
    generator = torch.Generator().manual_seed(0)
    kernels = torch.randn(4, 5, 3, 3, dtype=torch.float64, generator=generator)
    centre, whole = kernels[:, :, 1, 1], kernels.sum((2, 3))
    tiled = as_matrix("tiled", kernels, (4, 1, 1))
    assert torch.equal(tiled, as_matrix("shared", centre, (4, 1, 1))) and torch.equal(tiled, centre)
    inside = as_matrix("tiled", kernels, (4, 5, 5)).view(4, 5, 5, 5)[:, 1:-1, 1:-1]
    shared = as_matrix("shared", whole, (4, 5, 5)).view(4, 5, 5, 5)[:, 1:-1, 1:-1]
    torch.testing.assert_close(inside, shared, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("form", FORMS)
def test_every_form_gives_finite_updates_that_follow_its_feedback(form: str) -> None:
    setup = Setup("dfa-layers", "cnn", feedback=form)
    before = setup.grads()
    for l in range(4):
        kept = setup.state[f"B.{l}"]
        setup.state[f"B.{l}"] = torch.randn_like(kept)
        after = setup.grads()
        setup.state[f"B.{l}"] = kept
        changed = {name for name in before if not torch.equal(before[name], after[name])}
        owner = "embed" if l == 0 else f"blocks.{l - 1}"
        assert changed == {f"{owner}.weight", f"{owner}.bias"}


@dataclass(frozen=True)
class Own(MLP):
    """An MLP whose blocks are two branches of one width that are read by name, and one of them twice."""

    def branch(self, params: Params, block: int, h: Tensor) -> Tensor:
        weight = params[f"blocks.{block}.weight"]
        return F.linear(input=torch.tanh(F.linear(torch.tanh(F.linear(h, weight)), weight=weight)), weight=weight)


def test_a_net_that_reads_with_one_weight_twice_is_refused() -> None:
    reason = DFALayers().refusal(Own((1, 2, 2), 3, sizes=(4, 4)))
    assert reason == "it reads hidden states with blocks.0.weight more than once"


@pytest.mark.parametrize("form", ["shared", "tiled"])
def test_a_form_for_maps_is_refused_on_a_net_without_maps(form: str) -> None:
    net: Net = MLP((1, 2, 2), 3, sizes=(4,))
    assert DFALayers(feedback=form).refusal(net) == f"{form} feedback is for the maps of convolutions, and it has none"
    assert DFALayers(feedback=form).refusal(SmallCNN((1, 4, 4), 3)) is None


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"net": "mlp", "feedback": "shared"}, "rule dfa-layers cannot train net mlp: shared feedback is for the maps"),
        ({"net": "cnn", "feedback": "tile"}, "feedback: expected one of dense, shared, tiled, did you mean 'tiled'"),
        ({"feedback_scale": 0.0}, "feedback-scale: expected a finite number > 0, got 0.0"),
    ],
)
def test_feedback_that_cannot_be_is_refused_in_one_line(settings: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError) as caught:
        prepare(RunConfig(rule="dfa-layers", batch_size=20, **settings), tiny_dataset())
    assert str(caught.value).startswith(told) and "\n" not in str(caught.value)


@pytest.mark.parametrize("named", [(), ("weight",), ("input", "weight")])
def test_layers_are_cut_however_their_arguments_are_given(named: tuple[str, ...]) -> None:
    weight, h = torch.randn(3, 4, requires_grad=True), torch.randn(2, 4, requires_grad=True)
    given = {"input": h, "weight": weight}
    with Cuts({"w": weight}) as cuts:
        out = F.linear(*(value for name, value in given.items() if name not in named), **{n: given[n] for n in named})
    assert cuts.read["w"] is h
    (at_weight,) = torch.autograd.grad(out.sum(), [weight], retain_graph=True)
    torch.testing.assert_close(at_weight, h.detach().sum(0).expand(3, 4))
    with pytest.raises(RuntimeError, match="not have been used"):
        torch.autograd.grad(out.sum(), [h])


def test_a_survey_draws_nothing_and_writes_no_statistics() -> None:
    net = MLP((1, 2, 2), 3, sizes=(4, 5), dropout=0.5, batch_norm=True)
    generator = torch.Generator().manual_seed(0)
    state = generator.get_state()
    assert places(net.in_training(generator)) == places(net)
    assert torch.equal(state, generator.get_state())
