"""What a config says is what is trained: `fit` against a loop of torch alone, and every setting shown to act."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from faudit.config import RunConfig, known
from faudit.data import DATASETS
from faudit.errors import StoreError
from faudit.nets import NETS
from faudit.nets.resmlp import ResMLP
from faudit.rng import generators
from faudit.store.checkpoint import weights
from faudit.train import fit
from tests.support.runs import without_timings

LR, DECAY, LAMBDA, CLIP, EPS = 3e-3, 0.2, 0.05, 0.4, 1e-3


def plain_loop(rule: str, config: RunConfig) -> tuple[dict[str, Tensor], list[float]]:
    """Two parts torch, one part pencil: weights and the mean training loss of each epoch."""
    data = DATASETS["digits"](None)
    net = ResMLP((1, 8, 8), 10, depth=2, width=12, w2_std=0.3, no_terminal_norm=True)
    named = generators(config.seed)
    params = {name: value.double().requires_grad_() for name, value in net.init(named["init"]).items()}
    feedback = [torch.empty(12, 10).normal_(0, 10**-0.5, generator=named["feedback"]).double() for _ in range(2)]
    optimizer = torch.optim.AdamW(params.values(), lr=LR, weight_decay=DECAY)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=config.epochs)
    losses = []
    for _ in range(config.epochs):
        met = []
        for batch in torch.randperm(1437, generator=named["data"]).split(100):
            x = (data.train_x[batch].double() / 16 - data.mean[0]) / data.std[0]
            y = data.train_y[batch]
            optimizer.zero_grad()
            met += (bp_step if rule == "bp" else dfa_step)(net, params, feedback, x, y)
            optimizer.step()
        schedule.step()
        losses.append(sum(met) / len(met))
    return params, losses


def bp_step(net: ResMLP, params: dict[str, Tensor], _: list[Tensor], x: Tensor, y: Tensor) -> list[float]:
    trace = net.trace(params, x)
    each = F.cross_entropy(trace.logits, y, reduction="none")
    (each.mean() + LAMBDA * sum(f.square().sum(1).mean() for f in trace.branches)).backward()
    return each.tolist()


def dfa_step(net: ResMLP, params: dict[str, Tensor], feedback: list[Tensor], x: Tensor, y: Tensor) -> list[float]:
    trace = net.trace_cut(params, x)
    each = F.cross_entropy(trace.logits, y, reduction="none")
    each.mean().backward()
    error = F.softmax(trace.logits.detach(), 1) - F.one_hot(y, 10)
    for l, (branch, matrix) in enumerate(zip(trace.branches, feedback, strict=True)):
        signal = error @ matrix.T
        signal = signal / (signal.square().mean(1, keepdim=True).sqrt() + EPS)
        if l == 0:
            (trace.embedded * signal).sum(1).mean().backward()
        ((branch * signal).sum(1).mean() + LAMBDA * branch.square().sum(1).mean()).backward()
        own = [value for name, value in params.items() if name.startswith(f"blocks.{l}.")]
        torch.nn.utils.clip_grad_norm_(own, CLIP)
    return each.tolist()


@pytest.mark.parametrize("rule", ["bp", "dfa"])
def test_fit_is_the_recipe(tmp_path: Path, rule: str) -> None:
    local: dict[str, Any] = {"clip": CLIP, "credit_eps": EPS} if rule == "dfa" else {}
    config = RunConfig(
        rule=rule, epochs=3, batch_size=100, depth=2, width=12, w2_std=0.3, no_terminal_norm=True, lr=LR,
        weight_decay=DECAY, penalty=LAMBDA, dtype="float64", seed=9, **local,
    )  # fmt: skip
    run = fit(config, tmp_path)
    want, losses = plain_loop(rule, config)
    got = weights(run.checkpoint)
    for name, value in want.items():
        torch.testing.assert_close(got[name], value.detach(), rtol=1e-7, atol=1e-9, msg=name)
    assert [row["train_loss"] for row in run.rows()[1:]] == pytest.approx(losses, rel=1e-9)


BASE: dict[str, Any] = {"epochs": 2, "width": 12, "depth": 2, "batch_size": 100, "train_size": 350, "rule": "dfa"}
FORWARD: dict[str, Any] = {"rule": "forward-forward", "net": "mlp", "activation": "relu"}
BRIDGE: dict[str, Any] = {"rule": "credit-bridge", "warmup": 0}
OTHER: dict[str, dict[str, Any]] = {
    "net": {"net": "student"}, "rule": {"rule": "fa"}, "data": {"data": "teacher"}, "epochs": {"epochs": 3},
    "seed": {"seed": 1}, "depth": {"depth": 3}, "width": {"width": 16}, "w2_std": {"w2_std": 0.5},
    "no_terminal_norm": {"no_terminal_norm": True}, "no_residual": {"no_residual": True},
    "patch": {"net": "vit", "patch": 2}, "heads": {"net": "vit", "heads": 2},
    "mlp_ratio": {"net": "vit", "mlp_ratio": 3},
    "credit_tokens": {"net": "vit", "credit_tokens": "cls"}, "alpha": {"net": "student", "alpha": 0.5},
    "penalty": {"penalty": 0.1}, "clip": {"clip": 0.1}, "credit_eps": {"credit_eps": 0.1},
    "random_targets": {"random_targets": True}, "batch_size": {"batch_size": 64}, "optimizer": {"optimizer": "sgd"},
    "lr": {"lr": 1e-2}, "weight_decay": {"weight_decay": 0.5}, "momentum": {"optimizer": "sgd", "momentum": 0.9},
    "beta2": {"optimizer": "adam", "beta2": 0.5}, "eps": {"optimizer": "adam", "eps": 0.1},
    "smoothing": {"optimizer": "rmsprop", "smoothing": 0.5}, "schedule": {"schedule": "constant"},
    "milestones": {"schedule": "step", "milestones": (1,)},
    "lr_factor": {"schedule": "step", "milestones": (1,), "lr_factor": 0.5}, "pixels": {"pixels": "unit"},
    "crop": {"crop": 1}, "local_loss": {"rule": "local-loss", "local_loss": "sim"},
    "sim_share": {"rule": "local-loss", "sim_share": 0.5}, "input_feedback": {"rule": "pepita", "input_feedback": 0.5},
    "peer_norm": FORWARD | {"peer_norm": 5.0}, "predict_by": FORWARD | {"predict_by": "goodness"},
    "head_lr": FORWARD | {"head_lr": 0.5}, "head_weight_decay": FORWARD | {"head_weight_decay": 0.5},
    "log_every": {"log_every": 2}, "probe_epochs": {"probe_epochs": (1,)}, "eval_size": {"eval_size": 100},
    "dtype": {"dtype": "float64"}, "no_shuffle": {"no_shuffle": True}, "drop_last": {"drop_last": True},
    "feedback_init": {"rule": "fa-weights", "feedback_init": "normal"},
    "feedback_scale": {"rule": "fa-weights", "feedback_scale": 2.0},
    "variant": {"rule": "sign-symmetry", "variant": "brsf"},
    "mirror_lr": {"rule": "weight-mirror", "mirror_lr": 0.01},
    "mirror_decay": {"rule": "weight-mirror", "mirror_decay": 0.1},
    "mirror_noise": {"rule": "weight-mirror", "mirror_noise": 0.5},
    "mirror_batch": {"rule": "weight-mirror", "mirror_batch": 64},
    "mirror_start": {"rule": "weight-mirror", "mirror_start": 5},
    "mirror_response": {"rule": "weight-mirror", "mirror_response": "sigmoid"},
    "feedback": {"rule": "dfa-layers", "net": "cnn", "feedback": "shared"},
    "feedback_lr": {"rule": "dkp", "feedback_lr": 0.5},
    "sizes": {"net": "mlp", "sizes": (9,)}, "activation": {"net": "mlp", "activation": "relu"},
    "criterion": {"net": "mlp", "criterion": "mse"}, "weight_init": {"net": "mlp", "weight_init": "he"},
    "dropout": {"net": "mlp", "dropout": 0.5}, "batch_norm": {"net": "mlp", "batch_norm": True},
    "no_bias": {"net": "mlp", "no_bias": True}, "train_size": {"train_size": 500}, "train_last": {"train_last": 1},
    "energy": {"rule": "ep", "net": "mlp", "energy": "layered", "steps": 5},
    "beta": {"rule": "ep", "beta": 0.1, "steps": 5}, "steps": {"rule": "ep", "steps": 3},
    "step_size": {"rule": "ep", "step_size": 0.01, "steps": 5},
    "auxiliary_width": {"rule": "state-bridge", "auxiliary_width": 8},
    "auxiliary_depth": {"rule": "state-bridge", "auxiliary_depth": 1},
    "auxiliary_lr": {"rule": "state-bridge", "auxiliary_lr": 0.1},
    "placebo_weight": {"rule": "placebo", "placebo_weight": 0.5}, "warmup": {"rule": "credit-bridge", "warmup": 3},
    "temperature": BRIDGE | {"temperature": 1.0}, "noise_samples": BRIDGE | {"noise_samples": 2},
    "noise_std": BRIDGE | {"noise_std": 1.0}, "terminal_weight": BRIDGE | {"terminal_weight": 0.0},
    "ema": BRIDGE | {"ema": 0.5}, "amp": {"amp": "bfloat16"}, "credit_norm": {"credit_norm": "none"},
    "block_decay": {"block_decay": 0.5}, "embedding_feedback": {"rule": "fa", "embedding_feedback": "none"},
}  # fmt: skip
ELSEWHERE = {
    "no_augment": "test_batches: only datasets with a crop have one",
    "keep_epochs": "test_perturbation: it keeps files",
    "threads": "test_train: the same numbers but for the last bits",
    "device": "this machine has but one",
    "compile": "test_compiled: the same numbers but for the last bits",
}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One store for all: a run that many compare with is trained once."""
    return tmp_path_factory.mktemp("recipe")


@pytest.mark.parametrize("name", [name for name in known() if name not in ELSEWHERE])
def test_every_setting_acts(store: Path, name: str) -> None:
    """A flag that is parsed and never passed on fails here; a new setting without an entry fails, too."""
    changed = OTHER[name]
    assert name in changed and changed[name] != known()[name].first.default
    without = {key: value for key, value in changed.items() if key != name}
    without |= {"milestones": (2,)} if name == "milestones" else {}
    read = NETS.settings(changed.get("net", "resmlp"))
    base = {key: value for key, value in BASE.items() if key not in ("width", "depth") or key in read}
    one = fit(RunConfig(**{**base, **without}), store)
    other = fit(RunConfig(**{**base, **changed}), store)
    assert one.name != other.name
    same_rows = without_timings(one.rows()) == without_timings(other.rows())
    assert not same_rows, f"{name} changed nothing"


def test_a_finished_run_of_other_settings_is_not_served(tmp_path: Path) -> None:
    config = RunConfig(**BASE)
    run = fit(config, tmp_path)
    file = run.path / "config.json"
    file.write_text(file.read_text().replace('"lr": 0.001', '"lr": 0.002'))
    with pytest.raises(StoreError, match=r"config.json is damaged: its settings are those of"):
        fit(config, tmp_path)
