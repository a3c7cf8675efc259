"""Runs go out as the paper's files, in its words and units."""

from __future__ import annotations

import json
import math
import os
import statistics
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from faudit.data.digits import digits
from faudit.errors import StoreError
from faudit.figures.table import Table
from faudit.papers.faeval import PAPER
from faudit.papers.faeval.export import export
from faudit.papers.faeval.import_ import import_file
from faudit.store import checkpoint
from faudit.store.rows import Row
from faudit.store.run import Run
from faudit.store.summary import overview
from tests.support.faeval import DIGITS, EVOLUTION, EXPERIMENTS, SEED, L, N, fabricate, read, row


def test_a_full_set_of_runs_gives_every_file_of_the_paper(tmp_path: Path) -> None:
    plan = PAPER.plan("digits", epochs=2, seeds=(42, 123))
    for experiment in EXPERIMENTS:
        for seed in plan.seeds:
            fabricate(plan.config(experiment, seed), tmp_path / "runs")
    written = export(Table(plan, tmp_path / "runs"), tmp_path / "out")
    expected = {
        f"results/{name}"
        for seed in (42, 123)
        for name in (
            f"snapshot_evolution_v2/snapshot_evolution_s{seed}.json",
            f"snapshot_no_outln_v1/snapshot_noLN_s{seed}.json",
            f"snapshot_no_outln_v1/snapshot_fa_canonical_noln_s{seed}.json",
            f"snapshot_vit_v1/snapshot_vit_s{seed}.json",
            f"snapshot_vit_v1/snapshot_fa_canonical_s{seed}.json",
            f"snapshot_synth_v1/snapshot_synth_a1.0_L4_s{seed}.json",
            f"snapshot_synth_v1/snapshot_fa_canonical_s{seed}.json",
            *(f"dfa_residual_penalty/dfa_pen_lam{spelt}_s{seed}.json" for spelt in ("0.0001", "0.001", "0.01", "0.1")),
        )
    }
    there = {str(path.relative_to(tmp_path / "out")) for path in (tmp_path / "out").rglob("*") if path.is_file()}
    assert there == expected == {str(path.relative_to(tmp_path / "out")) for path in written}
    for path in written:
        document = read(path)
        logs = [value for key, value in document.items() if key.endswith("log")]
        assert logs and all([entry["epoch"] for entry in log] == [0, 1, 2] for log in logs)
        assert f"_s{document['config']['seed']}.json" in path.name
        if "lam" in path.name:
            assert f"lam{document['config']['lam']:g}_" in path.name and document["config"]["lam"] in (
                1e-4,
                1e-3,
                1e-2,
                1e-1,
            )


def test_an_entry_has_the_papers_words_and_the_gradients_of_the_mean_loss(tmp_path: Path) -> None:
    ours = {}
    for experiment in ("resmlp bp", "resmlp dfa", "vit fa", "matched dfa λ=0.001"):
        config = DIGITS.config(experiment, SEED)
        ours[experiment] = row(1, config)
        fabricate(config, tmp_path / "runs")
    export(Table(DIGITS, tmp_path / "runs"), tmp_path)
    results = tmp_path / "results"
    document = read(results / EVOLUTION)
    assert list(document) == ["config", "depth", "d_hidden", "num_classes", "bp_log", "dfa_log"]
    assert (document["depth"], document["d_hidden"], document["num_classes"]) == (4, 128, 10)
    assert document["config"]["faudit"]["dfa_log"] == json.loads(
        json.dumps(DIGITS.config("resmlp dfa", SEED).to_json())
    )
    assert document["dfa_log"][-1] == {
        "epoch": 1,
        "hidden_norms": ours["resmlp dfa"]["hidden_norms"],
        "bp_grad_norms_per_sample_med": [size / N for size in ours["resmlp dfa"]["grad_norms"]],
        "bp_grad_norms_F": [size / N for size in ours["resmlp dfa"]["grad_norms_frobenius"]],
        "gamma_dfa": (0.25 + 0.125 - 0.5) / 4,
        "acc_eval": 0.31,
        "loss_eval": 1.9,
    }
    assert document["bp_log"][-1]["gamma_dfa"] is None  # BP has no DFA credit
    vit = read(results / "snapshot_vit_v1/snapshot_fa_canonical_s42.json")["fa_log"][-1]
    assert "hidden_norms" not in vit and "bp_grad_norms_per_sample_med" not in vit
    assert vit["hidden_norms_cls"] == ours["vit fa"]["hidden_norms"]
    assert vit["bp_grad_per_sample_l2_med"] == [size / N for size in ours["vit fa"]["grad_norms"]]
    penalty = read(results / "dfa_residual_penalty/dfa_pen_lam0.001_s42.json")
    assert list(penalty) == ["config", "log"]
    assert penalty["log"][-1] == {
        "epoch": 1,
        "h_L_norm": ours["matched dfa λ=0.001"]["hidden_norms"][4],
        "g_2_norm": ours["matched dfa λ=0.001"]["grad_norms"][2] / N,
        "acc_eval": 0.31,
    }


def test_rows_that_do_not_say_how_many_samples_had_as_many_as_were_asked_for(tmp_path: Path) -> None:
    config = DIGITS.config("resmlp dfa", SEED)
    old = row(1, config)
    del old["eval_samples"]
    fabricate(config, tmp_path / "runs", [old])
    (path,) = export(Table(DIGITS, tmp_path / "runs"), tmp_path)
    assert read(path)["dfa_log"][0]["bp_grad_norms_F"][0] == old["grad_norms_frobenius"][0] / 1024


@pytest.mark.parametrize("gamma", [[None] * 4, [0.1, None, 0.2, 0.3]])
def test_a_headline_without_some_block_is_no_headline(tmp_path: Path, gamma: list[float | None]) -> None:
    config = DIGITS.config("resmlp dfa", SEED)
    fabricate(config, tmp_path / "runs", [row(1, config, gamma=gamma)])
    (path,) = export(Table(DIGITS, tmp_path / "runs"), tmp_path)
    assert read(path)["dfa_log"][0]["gamma_dfa"] is None


def test_a_log_without_a_run_is_null_and_a_file_without_a_log_is_not_written(tmp_path: Path) -> None:
    fabricate(DIGITS.config("noln dfa", SEED), tmp_path / "runs")
    written = export(Table(DIGITS, tmp_path / "runs"), tmp_path / "out")
    assert [path.name for path in written] == ["snapshot_noLN_s42.json"]
    document = read(written[0])
    assert document["bp_log"] is None and len(document["dfa_log"]) == 2
    assert list(document["config"]["faudit"]) == ["dfa_log"]
    assert export(Table(DIGITS, tmp_path / "empty"), tmp_path / "nothing") == []
    assert not (tmp_path / "nothing").exists()


def test_a_diverged_run_ends_in_null_and_comes_back_diverged(tmp_path: Path) -> None:
    plan = PAPER.plan("digits", epochs=5, seeds=(SEED,))
    config = plan.config("resmlp dfa", SEED)
    last = row(2, config, hidden_norms=[1.0, 2.0, math.inf, math.nan, math.nan], loss_eval=math.nan)
    run = fabricate(config, tmp_path / "runs", [row(0, config), row(1, config), last])
    (run.path / "done.json").rename(run.path / "failed.json")
    (path,) = export(Table(plan, tmp_path / "runs"), tmp_path)
    log = read(path)["dfa_log"]
    assert [entry["epoch"] for entry in log] == [0, 1, 2]
    assert log[-1]["hidden_norms"] == [1.0, 2.0, None, None, None] and log[-1]["loss_eval"] is None
    (back,) = import_file(path, tmp_path / "imported")
    assert back.status == "failed" and "ends at epoch 2 of 5" in str(back.outcome())
    assert math.isnan(back.rows()[-1]["hidden_norms"][2])
    assert overview(back)["growth"] == "inf"
    (again,) = export(Table(plan, tmp_path / "imported"), tmp_path / "again")
    assert again.read_bytes() == path.read_bytes()


def test_a_log_shorter_than_its_own_settings_ask_for_did_not_end_well(tmp_path: Path) -> None:
    plan = PAPER.plan("digits", epochs=5, seeds=(SEED,))
    config = plan.config("matched dfa λ=0.1", SEED)
    fabricate(config, tmp_path / "runs", [row(0, config), row(1, config)])
    (path,) = export(Table(plan, tmp_path / "runs"), tmp_path)
    (back,) = import_file(path, tmp_path / "imported")
    assert back.status == "failed" and "ends at epoch 1 of 5" in str(back.outcome())


def test_a_damaged_run_is_left_out_with_a_remark(tmp_path: Path) -> None:
    whole, broken = DIGITS.config("resmlp bp", SEED), DIGITS.config("resmlp dfa", SEED)
    fabricate(whole, tmp_path / "runs")
    fabricate(broken, tmp_path / "runs", [Row(epoch=0, hidden_norms=[1.0])])
    table = Table(DIGITS, tmp_path / "runs")
    (path,) = export(table, tmp_path)
    assert read(path)["dfa_log"] is None and len(read(path)["bp_log"]) == 2
    assert broken.run_id in table.remarks[0] and "damaged" in table.remarks[0]


def test_a_write_that_fails_leaves_no_half_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fabricate(DIGITS.config("resmlp bp", SEED), tmp_path / "runs")

    def full(*_: Any) -> None:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(StoreError, match="No space left"):
        export(Table(DIGITS, tmp_path / "runs"), tmp_path / "out")
    assert not [path for path in (tmp_path / "out").rglob("*") if path.is_file()]


@pytest.mark.parametrize("log", ["bp_log", "dfa_log"])
def test_the_last_entry_agrees_with_the_checkpoint_computed_anew(trained: Path, tmp_path: Path, log: str) -> None:
    export(Table(DIGITS, trained), tmp_path)
    found = read(tmp_path / "results" / EVOLUTION)[log][-1]
    config = DIGITS.config(f"resmlp {log[:-4]}", SEED)
    w = {name: value.double() for name, value in checkpoint.weights(Run(trained / config.run_id).checkpoint).items()}
    data = digits()
    chosen = torch.arange(N) * len(data.test_x) // N
    x = ((data.test_x[chosen].double() / 16.0 - 0.3048) / 0.3759).flatten(1)

    def normed(h: torch.Tensor, name: str) -> torch.Tensor:
        centred = h - h.mean(dim=1, keepdim=True)
        return (
            centred / (centred.square().mean(dim=1, keepdim=True) + 1e-5).sqrt() * w[f"{name}.weight"]
            + w[f"{name}.bias"]
        )

    taps = [(x @ w["embed.weight"].T + w["embed.bias"]).requires_grad_()]
    for l in range(L):
        z = normed(taps[-1], f"blocks.{l}.norm") @ w[f"blocks.{l}.w1.weight"].T + w[f"blocks.{l}.w1.bias"]
        z = 0.5 * z * (1.0 + torch.erf(z / math.sqrt(2.0)))
        taps.append(taps[-1] + z @ w[f"blocks.{l}.w2.weight"].T + w[f"blocks.{l}.w2.bias"])
    logits = normed(taps[-1], "readout.norm") @ w["readout.head.weight"].T + w["readout.head.bias"]
    loss = F.cross_entropy(logits, data.test_y[chosen])  # the mean, as in the paper
    gradients = torch.autograd.grad(loss, taps)

    def medians(tensors: Iterable[torch.Tensor]) -> list[float]:
        return [statistics.median(tensor.square().sum(dim=1).sqrt().tolist()) for tensor in tensors]

    assert found["hidden_norms"] == pytest.approx(medians(taps), rel=1e-5, abs=0)
    assert found["bp_grad_norms_per_sample_med"] == pytest.approx(medians(gradients), rel=1e-5, abs=0)
    frobenius = [float(gradient.square().sum().sqrt()) for gradient in gradients]
    assert found["bp_grad_norms_F"] == pytest.approx(frobenius, rel=1e-5, abs=0)
    assert found["loss_eval"] == pytest.approx(loss.item(), rel=1e-5, abs=0)
    assert found["acc_eval"] == pytest.approx(float((logits.argmax(dim=1) == data.test_y[chosen]).double().mean()))


def test_plotting_code_written_for_the_papers_files_runs_on_ours(trained: Path, tmp_path: Path) -> None:
    fabricate(DIGITS.config("matched dfa λ=0.01", SEED), tmp_path / "runs")
    export(Table(DIGITS, trained), tmp_path)
    export(Table(DIGITS, tmp_path / "runs"), tmp_path)

    def series(path: str, log: str, hidden: str, gradient: str) -> tuple[list[float], ...]:
        data = json.loads((tmp_path / "results" / path).read_text())
        epochs = [e["epoch"] for e in data[log]]
        return epochs, [e[hidden][data["depth"]] for e in data[log]], [e[gradient][2] for e in data[log]]

    for log in ("bp_log", "dfa_log"):
        epochs, h, g = series(EVOLUTION, log, "hidden_norms", "bp_grad_norms_per_sample_med")
        assert epochs == [0, 1] and all(size > 0 for size in (*h, *g))
    vit = "snapshot_vit_v1/snapshot_vit_s42.json"
    epochs, h, g = series(vit, "dfa_log", "hidden_norms_cls", "bp_grad_per_sample_l2_med")
    assert epochs == [0, 1] and all(size > 0 for size in (*h, *g))
    for lam in (0.001, 0.01, 0.1):
        path = tmp_path / "results" / f"dfa_residual_penalty/dfa_pen_lam{lam}_s42.json"
        if path.exists():
            log = json.loads(path.read_text())["log"]
            assert lam == 0.01 and [math.log10(e["h_L_norm"] / e["g_2_norm"]) > 0 for e in log] == [True, True]
    assert (tmp_path / "results/dfa_residual_penalty/dfa_pen_lam0.01_s42.json").exists()


def test_the_papers_files_need_no_torch() -> None:
    code = f"import sys, {export.__module__}, {import_file.__module__}; assert 'torch' not in sys.modules"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
