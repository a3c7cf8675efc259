"""Mixed precision: a training step computes its products in bfloat16, and everything else stays float32."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor

from faudit.config import RunConfig
from faudit.errors import ConfigError
from faudit.experiment import Experiment, prepare
from faudit.rules import RULES
from faudit.store.checkpoint import weights
from faudit.store.run import Run
from faudit.train import fit, read
from tests.support.nets import tiny_dataset
from tests.support.runs import survives_a_stop

ROUNDING = 2.0**-8  # of one number in bfloat16
AMP = RunConfig(rule="dfa", epochs=3, width=16, depth=2, batch_size=256, amp="bfloat16")


def started(rule: str, amp: str) -> Experiment:
    """A run on tiny images with wide states, at its first batch; skips what cannot be trained so."""
    kind = RULES[rule]
    if kind.no_amp is not None:
        pytest.skip(kind.no_amp)
    mlp = {"net": "mlp", "sizes": (32, 32), "activation": "relu"}
    sizes = mlp if "forward-forward" in rule else {"width": 32, "depth": 2, "w2_std": 0.2}
    return prepare(RunConfig(rule=rule, batch_size=32, amp=amp, **sizes), tiny_dataset())


def gradients(experiment: Experiment) -> dict[str, Tensor]:
    live = experiment.state
    x, y = next(iter(experiment.batches.epoch(live.generators)))
    net = experiment.net.in_training(live.generators["dropout"])
    with experiment.autocast():
        step = experiment.rule.step(net, live.params, live.rule_state, x, y, generator=live.generators["step"])
    return step.grads


@pytest.mark.parametrize("rule", [rule for rule in RULES if rule not in RULES.controls])
def test_the_update_is_that_of_float32_but_for_the_rounding_of_bfloat16(rule: str) -> None:
    """Rounding errors are independent, so the direction of the whole update keeps more digits than one number."""
    exact, rounded = gradients(started(rule, "none")), gradients(started(rule, "bfloat16"))
    assert exact.keys() == rounded.keys() and {value.dtype for value in rounded.values()} == {torch.float32}
    one, other = (torch.cat([grads[name].flatten().double() for name in exact]) for grads in (exact, rounded))
    assert not torch.equal(one, other), "autocast never ran"
    assert float((one - other).norm() / one.norm()) < 16 * ROUNDING


def test_probes_measure_in_the_type_of_the_run() -> None:
    one, other = read(started("dfa", "none")), read(started("dfa", "bfloat16"))
    assert torch.equal(one.trace.logits, other.trace.logits) and other.trace.logits.dtype == torch.float32
    assert all(
        torch.equal(a, b) for a, b in zip(one.gradients + one.credits, other.gradients + other.credits, strict=True)
    )


def test_a_stopped_run_goes_on_bit_for_bit_and_its_weights_are_float32(tmp_path: Path) -> None:
    survives_a_stop(AMP, tmp_path)
    saved = weights(Run(tmp_path / "calm" / AMP.run_id).checkpoint)
    assert {value.dtype for value in saved.values()} == {torch.float32}


def test_amp_is_in_the_run_id_when_it_is_on() -> None:
    assert AMP.run_id != AMP.with_(amp="none").run_id == RunConfig(**{**AMP.changed, "amp": "none"}).run_id


@pytest.mark.parametrize(
    ("config", "problem"),
    [
        (AMP.with_(dtype="float64"), "amp bfloat16: expected --dtype float32, the type of its weights, got float64"),
        (RunConfig(rule="ep", amp="bfloat16"), "rule ep cannot train with amp bfloat16: its credit is a small shift"),
    ],
)
def test_what_amp_would_spoil_is_refused_in_one_line(tmp_path: Path, config: RunConfig, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem) as caught:
        fit(config, tmp_path)
    assert "\n" not in str(caught.value) and not (tmp_path / config.run_id).exists()


def test_float16_is_not_offered() -> None:
    with pytest.raises(ConfigError, match=r"^amp: expected .*bfloat16.*, got .*float16"):
        RunConfig(amp="float16")
