"""Training on a GPU gives the numbers of the CPU, waits for nothing inside an epoch, and resumes bit for bit."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest
import torch

from faudit.config import RunConfig
from faudit.data.digits import digits
from faudit.experiment import prepare, repeatable
from faudit.store.checkpoint import weights
from faudit.tensors import sent
from faudit.train import fit, one_epoch
from tests.support.runs import survives_a_stop

needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
RULES = ("bp", "dfa", "fa-weights", "weight-mirror")
SMALL = RunConfig(epochs=3, width=24, depth=2, batch_size=128, optimizer="sgd", lr=0.01, weight_decay=0.0)


@needs_cuda
@pytest.mark.parametrize("rule", RULES)
def test_a_run_on_a_gpu_has_the_weights_of_a_run_on_the_cpu(tmp_path: Path, rule: str) -> None:
    here, there = (
        weights(fit(SMALL.with_(rule=rule, device=device), tmp_path).checkpoint) for device in ("cpu", "cuda")
    )
    for name, value in here.items():
        torch.testing.assert_close(there[name], value, rtol=1e-3, atol=1e-4)


@needs_cuda
@pytest.mark.parametrize("amp", ["none", "bfloat16"])
def test_a_run_that_was_stopped_on_a_gpu_goes_on_bit_for_bit(tmp_path: Path, amp: str) -> None:
    survives_a_stop(SMALL.with_(rule="dfa", device="cuda", amp=amp), tmp_path)


@needs_cuda
@pytest.mark.parametrize("rule", RULES)
def test_an_epoch_waits_once_as_torch_itself_counts(rule: str) -> None:
    experiment = prepare(SMALL.with_(rule=rule, device="cuda"), digits())
    one_epoch(experiment, 1)
    torch.cuda.set_sync_debug_mode("warn")
    try:
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            one_epoch(experiment, 2)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert len([one for one in told if "synchronizing CUDA operation" in str(one.message)]) == 1


@needs_cuda
def test_what_is_sent_arrives() -> None:
    host = torch.arange(100_000)
    there = sent(host, torch.device("cuda"))
    assert there.is_cuda and torch.equal(there.cpu(), host)


def test_a_gpu_is_asked_for_algorithms_that_repeat_and_the_choice_is_restored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG", raising=False)
    assert not torch.are_deterministic_algorithms_enabled()
    with repeatable("cuda:0"):
        assert torch.are_deterministic_algorithms_enabled() and torch.is_deterministic_algorithms_warn_only_enabled()
    assert not torch.are_deterministic_algorithms_enabled()
    with repeatable("cpu"):
        assert not torch.are_deterministic_algorithms_enabled()
