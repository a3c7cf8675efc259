"""The study's files go out in its words and units, come back as runs marked imported, and go out again as they were."""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import faudit
from faudit.cli.tables import run_table
from faudit.config import RunConfig
from faudit.data.digits import digits
from faudit.errors import FauditError, StoreError
from faudit.figures.table import Table
from faudit.papers.faeval import PAPER
from faudit.papers.faeval.export import export
from faudit.papers.faeval.files import FILES
from faudit.papers.faeval.import_ import import_file, import_files
from faudit.store import checkpoint
from faudit.store.rows import Row
from faudit.store.run import Run, runs_in
from faudit.store.summary import overview

SEED, L, N = 42, 4, 360  # the digits have 360 test samples, fewer than the 1,024 asked for
DIGITS = PAPER.plan("digits", epochs=1, seeds=(SEED,))
EVOLUTION = "snapshot_evolution_v2/snapshot_evolution_s42.json"


def row(epoch: int, config: RunConfig, **changes: Any) -> Row:
    """What training logs, with numbers that tell taps, epochs and rules apart."""
    size = 3.0 + epoch + len(config.rule) / 7
    return Row(
        {
            "epoch": epoch,
            "hidden_norms": [size * (tap + 1) for tap in range(L + 1)],
            "grad_norms": [0.1 / size / (tap + 1) for tap in range(L + 1)],
            "grad_norms_frobenius": [2.3 / size / (tap + 1) for tap in range(L + 1)],
            "gamma": [0.25, 0.125, -0.5, 0.0],
            "gamma_undefined": [0] * L,
            "acc_eval": 0.3 + epoch / 100,
            "loss_eval": 2.0 - epoch / 10,
            "test_acc": None,
            "eval_samples": N,
            "train_loss": None,
            "seconds": 1.0,
            "probe_seconds": 0.1,
            **changes,
        }
    )


def fabricate(config: RunConfig, runs: Path, rows: Iterable[Row] | None = None) -> Run:
    """A run directory that training could have left."""
    run = Run(runs / config.run_id)
    with run.locked():
        run.begin(config, {"faudit": "0"})
        for entry in rows or [row(epoch, config) for epoch in range(config.epochs + 1)]:
            run.append(entry)
        run.finish({"epochs": config.epochs})
    return run


def read(path: Path) -> Any:
    def refuse(token: str) -> None:
        raise AssertionError(f"{token} in {path}")

    return json.loads(path.read_text(), parse_constant=refuse)


def entry(epoch: int, *, vit: bool = False) -> dict[str, Any]:
    """An entry as the study wrote it."""
    hidden, gradients = (
        ("hidden_norms_cls", "bp_grad_per_sample_l2_med") if vit else ("hidden_norms", "bp_grad_norms_per_sample_med")
    )
    return {
        "epoch": epoch,
        hidden: [5.5, 5.6, 5.7, 5.8, 6.0 + epoch],
        gradients: [1e-4, 2e-4, 3e-4, 4e-4, 5e-4],
        "bp_grad_norms_F": [0.01, 0.02, 0.03, 0.04, 0],
        "gamma_dfa": 0.1,
        "acc_eval": 0.25,
        "loss_eval": 2.1,
    }


def penalty_entry(epoch: int) -> dict[str, Any]:
    return {"epoch": epoch, "h_L_norm": 7.5 + epoch, "g_2_norm": 2.5e-5, "acc_eval": 0.4}


def original(epochs: int = 3) -> dict[str, Any]:
    """A ResMLP file of the study, which knows nothing of faudit."""
    return {
        "config": {"seed": SEED, "lr": 0.001, "epochs": epochs},
        "depth": L,
        "d_hidden": 256,
        "num_classes": 10,
        "bp_log": None,
        "dfa_log": [entry(epoch) for epoch in range(epochs + 1)],
    }


def put(document: Any, path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(document if isinstance(document, str) else json.dumps(document))
    return path


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of three real runs of the digits."""
    runs = tmp_path_factory.mktemp("trained")
    for experiment in ("resmlp bp", "resmlp dfa", "vit dfa"):
        faudit.fit(DIGITS.config(experiment, SEED), runs)
    return runs


# Export


def test_a_full_set_of_runs_gives_every_file_of_the_study(tmp_path: Path) -> None:
    plan = PAPER.plan("digits", epochs=2, seeds=(42, 123))
    for experiment in {experiment for logs in FILES.values() for experiment in logs.values()}:
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


def test_an_entry_has_the_studys_words_and_the_gradients_of_the_mean_loss(tmp_path: Path) -> None:
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
    loss = F.cross_entropy(logits, data.test_y[chosen])  # the mean, as the study has it
    gradients = torch.autograd.grad(loss, taps)

    def medians(tensors: Iterable[torch.Tensor]) -> list[float]:
        return [statistics.median(tensor.square().sum(dim=1).sqrt().tolist()) for tensor in tensors]

    assert found["hidden_norms"] == pytest.approx(medians(taps), rel=1e-5, abs=0)
    assert found["bp_grad_norms_per_sample_med"] == pytest.approx(medians(gradients), rel=1e-5, abs=0)
    frobenius = [float(gradient.square().sum().sqrt()) for gradient in gradients]
    assert found["bp_grad_norms_F"] == pytest.approx(frobenius, rel=1e-5, abs=0)
    assert found["loss_eval"] == pytest.approx(loss.item(), rel=1e-5, abs=0)
    assert found["acc_eval"] == pytest.approx(float((logits.argmax(dim=1) == data.test_y[chosen]).double().mean()))


def test_plotting_code_written_for_the_studys_files_runs_on_ours(trained: Path, tmp_path: Path) -> None:
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


# Round trips


def test_our_own_runs_go_out_come_back_and_go_out_the_same_to_the_byte(trained: Path, tmp_path: Path) -> None:
    first = export(Table(DIGITS, trained), tmp_path / "first")
    runs, refused = import_files(first, tmp_path / "runs")
    assert not refused and len(runs) == 3 and all(run.status == "done" for run in runs)
    second = export(Table(DIGITS, tmp_path / "runs"), tmp_path / "second")
    assert [path.read_bytes() for path in second] == [path.read_bytes() for path in first]
    assert [path.relative_to(tmp_path / "second") for path in second] == [
        path.relative_to(tmp_path / "first") for path in first
    ]


def test_an_imported_run_of_ours_has_our_config_units_and_numbers(trained: Path, tmp_path: Path) -> None:
    runs, _ = import_files(export(Table(DIGITS, trained), tmp_path / "out"), tmp_path / "runs")
    for run in runs:
        ours = Run(trained / run.name.removeprefix("imported-"))
        assert run.config() == ours.config()
        for before, after in zip(ours.rows(), run.rows(), strict=True):
            for name in ("hidden_norms", "grad_norms", "grad_norms_frobenius"):
                assert after[name] == pytest.approx(before[name], rel=1e-14, abs=0)
            assert {name: after[name] for name in ("epoch", "acc_eval", "loss_eval", "eval_samples")} == {
                name: before[name] for name in ("epoch", "acc_eval", "loss_eval", "eval_samples")
            }
            assert after.keys() == before.keys()
        done, was = run.outcome() or {}, ours.outcome() or {}
        assert done.keys() == was.keys()
        assert done["growth_max"] == was["growth_max"] and done["weights_sha256"] is None


def test_every_experiments_file_comes_back_as_the_run_it_was(tmp_path: Path) -> None:
    plan = PAPER.plan("cifar10", epochs=2, seeds=(7,))
    for experiment in {experiment for logs in FILES.values() for experiment in logs.values()}:
        fabricate(plan.config(experiment, 7), tmp_path / "runs")
    first = export(Table(plan, tmp_path / "runs"), tmp_path / "first")
    back, refused = import_files(first, tmp_path / "back")
    assert not refused
    assert sorted(run.name for run in back) == [f"imported-{run.name}" for run in runs_in(tmp_path / "runs")]
    second = export(Table(plan, tmp_path / "back"), tmp_path / "second")
    assert [path.read_bytes() for path in second] == [path.read_bytes() for path in first]


ORIGINALS: dict[str, Callable[[], dict[str, Any]]] = {
    EVOLUTION: original,
    "snapshot_no_outln_v1/snapshot_noLN_s42.json": lambda: {**original(), "bp_log": [entry(0), entry(3)]},
    "snapshot_no_outln_v1/snapshot_fa_canonical_noln_s42.json": lambda: {"fa_log": [entry(0), entry(1)]},
    "snapshot_vit_v1/snapshot_vit_s42.json": lambda: {
        "config": {},
        "bp_log": None,
        "dfa_log": [entry(0, vit=True), entry(1, vit=True)],
    },
    "snapshot_vit_v1/snapshot_fa_canonical_s42.json": lambda: {"fa_log": [entry(0, vit=True), entry(1, vit=True)]},
    "snapshot_synth_v1/snapshot_synth_a1.0_L4_s42.json": lambda: {**original(), "d_hidden": 128},
    "snapshot_synth_v1/snapshot_fa_canonical_s42.json": lambda: {"fa_log": [entry(0), entry(1)]},
    "dfa_residual_penalty/dfa_pen_lam0.001_s42.json": lambda: {"config": {}, "log": [penalty_entry(0)]},
    "dfa_residual_penalty/dfa_pen_lam0.01_s42.json": lambda: {
        "config": {"lam": 0.01, "seed": 42},
        "log": [penalty_entry(0), penalty_entry(5)],
    },
}


def test_the_studys_own_files_go_in_and_come_out_as_they_were(tmp_path: Path) -> None:
    paths = [put(document(), tmp_path / "old" / name) for name, document in ORIGINALS.items()]
    runs, refused = import_files(paths, tmp_path / "runs")
    assert not refused and len(runs) == len(ORIGINALS) + 1
    export(Table(PAPER.plan(), tmp_path / "runs"), tmp_path / "out")
    there = {str(path.relative_to(tmp_path / "out/results")) for path in (tmp_path / "out").rglob("*.json")}
    assert there == set(ORIGINALS)
    for name, document in ORIGINALS.items():
        assert read(tmp_path / "out/results" / name) == document()


def test_the_studys_own_files_are_runs_of_the_studys_experiments(tmp_path: Path) -> None:
    expected = {
        "snapshot_evolution_v2/snapshot_evolution_s42.json": ["resmlp dfa"],
        "snapshot_no_outln_v1/snapshot_noLN_s42.json": ["noln bp", "noln dfa"],
        "snapshot_no_outln_v1/snapshot_fa_canonical_noln_s42.json": ["noln fa"],
        "snapshot_vit_v1/snapshot_vit_s42.json": ["vit dfa"],
        "snapshot_vit_v1/snapshot_fa_canonical_s42.json": ["vit fa"],
        "snapshot_synth_v1/snapshot_synth_a1.0_L4_s42.json": ["student dfa"],
        "snapshot_synth_v1/snapshot_fa_canonical_s42.json": ["student fa"],
        "dfa_residual_penalty/dfa_pen_lam0.001_s42.json": ["matched dfa λ=0.001"],
        "dfa_residual_penalty/dfa_pen_lam0.01_s42.json": ["matched dfa λ=0.01"],
    }
    for name, document in ORIGINALS.items():
        runs = import_file(put(document(), tmp_path / "old" / name), tmp_path / "runs")
        lasts = [run.rows()[-1]["epoch"] for run in runs]
        configs = [
            PAPER.plan().config(experiment, SEED).with_(epochs=max(1, last))
            for experiment, last in zip(expected[name], lasts, strict=True)
        ]
        assert [run.config() for run in runs] == configs
        assert [run.name for run in runs] == [f"imported-{config.run_id}" for config in configs]


def test_extra_keys_are_ignored_and_kept(tmp_path: Path) -> None:
    document = original()
    document["dfa_log"][1] |= {"wall_time": 3, "nested": {"a": [1, {"b": None}]}}
    document["zzz"] = {"notes": ["nan", "inf", "é"], "big": 10**30}
    document["config"]["args"] = ["--x"]
    path = put(document, tmp_path / "snapshot_evolution_s42.json")
    (run,) = import_file(path, tmp_path / "runs")
    assert "wall_time" not in run.rows()[1]
    (again,) = export(Table(PAPER.plan(), tmp_path / "runs"), tmp_path)
    assert read(again) == document and list(read(again)) == list(document)


def test_numbers_that_overflowed_are_words_in_rows_and_null_outside(tmp_path: Path) -> None:
    document = original(2)
    document["dfa_log"][2]["hidden_norms"][3:] = [math.inf, math.nan]
    document["dfa_log"][2]["note"] = -math.inf
    path = put(json.dumps(document).replace("2.1", "1e999"), tmp_path / "snapshot_evolution_s42.json")
    assert "NaN" in path.read_text() and "-Infinity" in path.read_text()
    (run,) = import_file(path, tmp_path / "runs")
    last = run.rows()[-1]
    assert last["hidden_norms"][3] == math.inf and math.isnan(last["hidden_norms"][4])
    assert last["loss_eval"] == math.inf and run.status == "failed"
    assert '"inf", "nan"' in run.rows_file.read_text()
    (again,) = export(Table(PAPER.plan(), tmp_path / "runs"), tmp_path)
    entry = read(again)["dfa_log"][2]
    assert entry["hidden_norms"][3:] == [None, None] and entry["loss_eval"] is None and entry["note"] is None


@pytest.mark.parametrize("ours", ["bp", "dfa"])
def test_a_file_of_an_imported_log_and_one_of_our_own_has_both(tmp_path: Path, ours: str) -> None:
    plan = PAPER.plan("cifar10", epochs=3, seeds=(SEED,))
    theirs = {"bp": "dfa_log", "dfa": "bp_log"}[ours]
    document = {**original(), "dfa_log": None, theirs: original()["dfa_log"]}
    import_file(put(document, tmp_path / "snapshot_evolution_s42.json"), tmp_path / "runs")
    run = fabricate(plan.config(f"resmlp {ours}", SEED), tmp_path / "runs")
    (path,) = export(Table(plan, tmp_path / "runs"), tmp_path / "out")
    mixed = read(path)
    assert mixed[theirs] == document[theirs]
    assert [found["loss_eval"] for found in mixed[f"{ours}_log"]] == [row["loss_eval"] for row in run.rows()]
    assert set(mixed["config"]["faudit"]) == {"bp_log", "dfa_log"}


def test_logs_of_two_imported_files_make_one_that_is_neither(tmp_path: Path) -> None:
    one = {**original(), "note": 1, "bp_log": original()["dfa_log"], "dfa_log": None}
    two = {**original(), "note": 2}
    import_file(put(one, tmp_path / "evolution_one.json"), tmp_path / "runs")
    import_file(put(two, tmp_path / "evolution_two.json"), tmp_path / "runs")
    (path,) = export(Table(PAPER.plan(), tmp_path / "runs"), tmp_path / "out")
    document = read(path)
    assert document["bp_log"] == document["dfa_log"] == two["dfa_log"]
    assert "note" not in document and set(document["config"]["faudit"]) == {"bp_log", "dfa_log"}


# Import


def test_imported_rows_are_in_our_units_and_what_the_file_lacks_is_null(tmp_path: Path) -> None:
    (run,) = import_file(put(original(), tmp_path / "snapshot_evolution_s42.json"), tmp_path / "runs")
    first = run.rows()[0]
    assert first["hidden_norms"] == [5.5, 5.6, 5.7, 5.8, 6.0]
    assert first["grad_norms"] == pytest.approx([0.1024, 0.2048, 0.3072, 0.4096, 0.512], rel=1e-14)
    assert first["grad_norms_frobenius"][:2] == pytest.approx([10.24, 20.48], rel=1e-14)
    assert first["gamma"] == first["gamma_undefined"] == [None] * L
    assert (first["acc_eval"], first["loss_eval"], first["test_acc"], first["train_loss"]) == (0.25, 2.1, None, None)
    path = put({"log": [penalty_entry(0), penalty_entry(1)]}, tmp_path / "dfa_pen_lam0.05_s3.json")
    (run,) = import_file(path, tmp_path / "runs")
    assert (run.config().penalty, run.config().seed) == (0.05, 3)
    last = run.rows()[-1]
    assert last["hidden_norms"] == [None] * 4 + [8.5]
    assert last["grad_norms"] == [None, None, pytest.approx(0.0256, rel=1e-14), None, None]
    assert last["grad_norms_frobenius"] == [None] * 5 and last["loss_eval"] is None
    origin = run.environment()["imported"]
    assert (origin["file"], origin["log"], origin["head"]) == (path.name, "log", {"log": None})
    assert origin["sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()
    assert origin["entries"] == [penalty_entry(0), penalty_entry(1)]


def test_an_imported_run_can_be_shown(tmp_path: Path) -> None:
    paths = [put(document(), tmp_path / "old" / name) for name, document in ORIGINALS.items()]
    for run in import_files(paths, tmp_path / "runs")[0]:
        said = overview(run)
        assert said["hidden_norm"] is not None and said["test_acc"] is None
        assert run_table(run).row_count == len(run.rows())


def test_the_seed_is_the_configs_or_else_the_names(tmp_path: Path) -> None:
    document = original()
    document["config"]["seed"] = 9
    (run,) = import_file(put(document, tmp_path / "snapshot_evolution_s42.json"), tmp_path / "runs")
    assert run.config().seed == 9
    document["config"]["seed"] = None
    (run,) = import_file(put(document, tmp_path / "snapshot_evolution_s43.json"), tmp_path / "runs")
    assert run.config().seed == 43


def test_importing_a_file_again_changes_nothing(tmp_path: Path) -> None:
    path = put({**original(), "bp_log": [entry(0), entry(1)]}, tmp_path / "snapshot_evolution_s42.json")

    def state() -> dict[str, tuple[int, bytes]]:
        files = [file for file in (tmp_path / "runs").rglob("*") if file.is_file()]
        return {str(file): (file.stat().st_mtime_ns, file.read_bytes()) for file in files}

    runs = import_file(path, tmp_path / "runs")
    before = state()
    assert len(runs) == 2 and import_file(path, tmp_path / "runs") == runs
    assert import_file(put(path.read_text(), tmp_path / "evolution_copy_s42.json"), tmp_path / "runs") == runs
    assert state() == before


def test_another_file_for_the_same_run_is_refused_and_the_first_stays(tmp_path: Path) -> None:
    (run,) = import_file(put(original(), tmp_path / "snapshot_evolution_s42.json"), tmp_path / "runs")
    before = run.rows()
    other = original()
    other["dfa_log"][0]["acc_eval"] = 0.75
    other["bp_log"] = [entry(0), entry(1)]
    with pytest.raises(StoreError, match=r"holds the import of another file.*Delete that directory") as caught:
        import_file(put(other, tmp_path / "evolution_other_s42.json"), tmp_path / "runs")
    assert "snapshot_evolution_s42.json" in str(caught.value) and "evolution_other_s42.json" in str(caught.value)
    assert run.rows() == before and runs_in(tmp_path / "runs") == [run]  # nor was the log that would have fitted


@pytest.mark.parametrize("dies_at", ["env.json", "config.json", "rows.jsonl", "done.json"])
def test_an_import_killed_anywhere_does_not_count_and_can_be_done_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dies_at: str
) -> None:
    path = put(original(), tmp_path / "snapshot_evolution_s42.json")
    replace = os.replace

    def killed(source: Path, target: Path) -> None:
        if target.name == dies_at:
            raise KeyboardInterrupt
        replace(source, target)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(os, "replace", killed)
        import_file(path, tmp_path / "runs")
    assert all(run.status == "stopped" for run in runs_in(tmp_path / "runs"))
    assert export(Table(PAPER.plan(), tmp_path / "runs"), tmp_path / "out") == []
    (run,) = import_file(path, tmp_path / "runs")
    assert run.status == "done" and len(run.rows()) == 4
    assert read(export(Table(PAPER.plan(), tmp_path / "runs"), tmp_path / "out")[0]) == original()


# Bad input


def changed(*place: Any, to: Any) -> Callable[[dict[str, Any]], None]:
    """An edit that puts a value at a place of the document, or with ... takes away what is there."""

    def edit(document: dict[str, Any]) -> None:
        inner: Any = document
        for step in place[:-1]:
            inner = inner[step]
        inner[place[-1]] = to
        if to is ...:
            del inner[place[-1]]

    return edit


def nested(depth: int) -> Any:
    value: Any = 0
    for _ in range(depth):
        value = [value]
    return value


OWN = {"dfa_log": {"rule": "dfa", "data": "cifar10", "epochs": 3}}

BAD_DOCUMENTS: dict[str, tuple[Callable[[dict[str, Any]], None], str]] = {
    "null for every log": (changed("dfa_log", to=None), "a log that is not null under bp_log, dfa_log, fa_log, log"),
    "no log": (changed("dfa_log", to=...), "a log that is not null"),
    "empty log": (changed("dfa_log", to=[]), r"dfa_log: expected a list of 1 to 1000000, got \[\]"),
    "log is text": (changed("dfa_log", to="many"), r"dfa_log: expected a list of 1 to 1000000, got 'many'"),
    "endless log": (changed("dfa_log", to=[0] * 1_000_001), r"dfa_log: expected a list of 1 to 1000000, got \[0, 0"),
    "entry is a list": (changed("dfa_log", 1, to=[1]), r"dfa_log\[1\]: expected an object with 'epoch', got \[1\]"),
    **{
        f"no {name}": (changed("dfa_log", 2, name, to=...), rf"dfa_log\[2\]: expected an object with '{name}'")
        for name in entry(0)
    },
    "short list": (changed("dfa_log", 2, "hidden_norms", to=[1.0] * 4), r"dfa_log\[2\], hidden_norms: expected 5 num"),
    "long list": (changed("dfa_log", 0, "bp_grad_norms_F", to=[1.0] * 6), r"\[0\], bp_grad_norms_F: expected 5 num"),
    "empty list": (changed("dfa_log", 0, "hidden_norms", to=[]), r"\[0\], hidden_norms: expected a list"),
    "number for a list": (changed("dfa_log", 1, "hidden_norms", to=4.0), r"\[1\], hidden_norms: expected a list"),
    "another depth": (changed("depth", to=3), "hidden_norms: expected 4 numbers"),
    "depth is text": (changed("depth", to="deep"), "depth: expected a whole number"),
    "text": (changed("dfa_log", 1, "acc_eval", to="0.5"), r"dfa_log\[1\], acc_eval: expected a number .* got '0.5'"),
    "text in a list": (
        changed("dfa_log", 1, "hidden_norms", 3, to="x" * 9999),
        r"dfa_log\[1\], hidden_norms\[3\]: expected a number from 0 to inf, got 'xx",
    ),
    "truth": (changed("dfa_log", 1, "loss_eval", to=True), "loss_eval: expected a number .* got True"),
    "truth in a list": (changed("dfa_log", 1, "bp_grad_norms_F", 0, to=False), r"bp_grad_norms_F\[0\]: expected a num"),
    "text for gamma": (changed("dfa_log", 1, "gamma_dfa", to="high"), "gamma_dfa: expected a number"),
    "negative norm": (changed("dfa_log", 1, "hidden_norms", 0, to=-1e-9), r"hidden_norms\[0\]: expected .* got -1e-09"),
    "negative infinity": (
        changed("dfa_log", 1, "hidden_norms", 0, to=-math.inf),
        "expected a number from 0 .* got -inf",
    ),
    "too large to be a float": (changed("dfa_log", 1, "hidden_norms", 0, to=10**400), "expected a number"),
    "percent": (changed("dfa_log", 1, "acc_eval", to=45.2), "acc_eval: expected a number from 0 to 1, got 45.2"),
    "an epoch twice": (
        changed("dfa_log", 2, "epoch", to=1),
        r"\[2\], epoch: expected more than the 1 before it, got 1",
    ),
    "epochs go back": (changed("dfa_log", 1, "epoch", to=5), r"\[2\], epoch: expected more than the 5 before it"),
    "half an epoch": (changed("dfa_log", 1, "epoch", to=1.5), "epoch: expected a whole number .* got 1.5"),
    "epoch is truth": (changed("dfa_log", 1, "epoch", to=True), "epoch: expected a whole number .* got True"),
    "epoch is text": (changed("dfa_log", 1, "epoch", to="1"), "epoch: expected a whole number .* got '1'"),
    "epoch below 0": (changed("dfa_log", 0, "epoch", to=-1), "epoch: expected a whole number .* got -1"),
    "epoch beyond all": (changed("dfa_log", 3, "epoch", to=10**30), "epoch: expected a whole number"),
    "config is a list": (changed("config", to=[]), "config: expected an object"),
    "seed is text": (changed("config", "seed", to="abc"), "seed: expected a whole number .* got 'abc'"),
    "no samples": (changed("config", "eval_samples", to=0), "eval_samples: expected a whole number from 1"),
    "d_hidden is a list": (changed("d_hidden", to=[256]), "width: expected a whole number"),
    "nested deep": (changed("extra", to=nested(40)), "levels of nesting"),
    "own settings are text": (changed("config", "faudit", to="all"), "config, faudit: expected an object"),
    "own settings lack a log": (changed("config", "faudit", to={}), "faudit: expected an object with 'dfa_log'"),
    "own settings of another rule": (
        changed("config", "faudit", to={"dfa_log": {"rule": "bp"}}),
        "dfa_log, rule: expected 'dfa', got 'bp'",
    ),
    "own settings unknown": (
        changed("config", "faudit", to={"dfa_log": {**OWN["dfa_log"], "warp": 9, "lr": "fast"}}),
        "unknown setting 'warp'.*; lr: expected",
    ),
    "own settings of fewer epochs": (
        changed("config", "faudit", to={"dfa_log": {**OWN["dfa_log"], "epochs": 2}}),
        "at least 3 epochs",
    ),
}


def refused(path: Path, runs: Path) -> str:
    """The one line that an import is refused with; nothing may have been written."""
    with pytest.raises(FauditError) as caught:
        import_file(path, runs)
    assert "\n" not in str(caught.value) and path.name in str(caught.value) and len(str(caught.value)) < 1000
    assert not runs.exists()
    return str(caught.value)


@pytest.mark.parametrize("name", BAD_DOCUMENTS)
def test_a_bad_document_gets_one_line_and_nothing_is_written(tmp_path: Path, name: str) -> None:
    edit, expected = BAD_DOCUMENTS[name]
    document = original()
    if "log" not in name.split() and "own" not in name.split():  # a good log beside the bad one is not written either
        document["bp_log"] = [entry(epoch) for epoch in range(4)]
    edit(document)
    said = refused(put(document, tmp_path / "snapshot_evolution_s42.json"), tmp_path / "runs")
    assert re.search(expected, said), said


@pytest.mark.parametrize("name", ["h_L_norm", "g_2_norm", "acc_eval"])
@pytest.mark.parametrize("value", ["text", True, -1.0, [1.0]])
def test_a_bad_penalty_entry_gets_one_line(tmp_path: Path, name: str, value: Any) -> None:
    document: dict[str, Any] = {"config": {}, "log": [penalty_entry(0), {**penalty_entry(1), name: value}]}
    said = refused(put(document, tmp_path / "dfa_pen_lam0.01_s42.json"), tmp_path / "runs")
    assert f"log[1], {name}: expected a number" in said
    del document["log"][1][name]
    said = refused(put(document, tmp_path / "dfa_pen_lam0.01_s42.json"), tmp_path / "runs")
    assert f"log[1]: expected an object with '{name}'" in said


@pytest.mark.parametrize("lam", [-0.1, math.inf, True, "strong"])
def test_a_penalty_that_cannot_be_gets_one_line(tmp_path: Path, lam: Any) -> None:
    document = {"config": {"lam": lam}, "log": [penalty_entry(0)]}
    assert "penalty: expected" in refused(put(document, tmp_path / "dfa_pen_s42.json"), tmp_path / "runs")


@pytest.mark.parametrize(
    ("name", "document", "expected"),
    [
        ("evolution.json", {**original(), "config": {}}, "'seed' there or in the file's name"),
        ("dfa_pen_s42.json", {"log": [penalty_entry(0)]}, "'lam' there or in the file's name"),
        ("snapshot_fa_canonical_s42.json", {"fa_log": [entry(0)]}, "snapshot_vit or snapshot_synth in the name"),
        ("snapshot_vit_s42.json", original(), "expected an object with 'hidden_norms_cls'"),
    ],
)
def test_a_file_that_does_not_say_what_it_is_gets_one_line(
    tmp_path: Path, name: str, document: dict[str, Any], expected: str
) -> None:
    assert expected in refused(put(document, tmp_path / "files" / name), tmp_path / "runs")


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", "is not JSON"),
        (b'{"dfa_log": [', "is not JSON"),
        (b"epoch,acc\n0,0.1\n", "is not JSON"),
        (b"[1, 2]", "expected an object"),
        (b"null", "expected an object"),
        (b'"dfa_log"', "expected an object"),
        (b'{"runs": []}', "a log that is not null"),
        (b"\xff\xfe{\x00}\x00", "is not JSON: 'utf-8'"),
        (b'{"dfa_log": "\xe9"}', "is not JSON: 'utf-8'"),
        (b"[" * 200_000, "is not JSON"),
        (b'{"dfa_log": ' + b"[" * 200_000, "is not JSON"),
        (b'{"dfa_log": [{"epoch": ' + b"9" * 5000 + b"}]}", "is not JSON|expected a whole number"),
    ],
)
def test_what_is_no_document_of_the_study_gets_one_line(tmp_path: Path, content: bytes, expected: str) -> None:
    path = tmp_path / "snapshot_evolution_s42.json"
    path.write_bytes(content)
    said = refused(path, tmp_path / "runs")
    assert re.search(expected, said), said


def test_a_hundred_megabytes_are_refused_unread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "snapshot_evolution_s42.json"
    with open(path, "wb") as file:
        file.truncate(100 * 2**20)

    def opened(*_: Any) -> bytes:
        raise AssertionError("read")

    monkeypatch.setattr(Path, "read_bytes", opened)
    assert "expected at most 16777216 bytes (16 MB), got 104857600" in refused(path, tmp_path / "runs")


def test_what_cannot_be_read_gets_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "expected a file, got none" in refused(tmp_path / "absent.json", tmp_path / "runs")
    (tmp_path / "folder.json").mkdir()
    assert "expected a file, got none" in refused(tmp_path / "folder.json", tmp_path / "runs")
    path = put(original(), tmp_path / "snapshot_evolution_s42.json")

    def denied(*_: Any) -> bytes:
        raise PermissionError(13, os.strerror(13))

    monkeypatch.setattr(Path, "read_bytes", denied)  # injected: tests may run as root, whom permission bits do not bind
    assert "Permission denied. Give yourself permission" in refused(path, tmp_path / "runs")


def test_a_good_file_beside_bad_ones_is_still_used(tmp_path: Path) -> None:
    paths = [
        put("{", tmp_path / "broken_s42.json"),
        put(original(), tmp_path / "snapshot_evolution_s42.json"),
        tmp_path / "absent.json",
    ]
    runs, problems = import_files(paths, tmp_path / "runs")
    assert [run.config().rule for run in runs] == ["dfa"] and runs[0].status == "done"
    assert len(problems) == 2 and "broken_s42.json" in problems[0] and "absent.json" in problems[1]


def test_a_store_that_is_a_file_gets_one_line(tmp_path: Path) -> None:
    path = put(original(), tmp_path / "snapshot_evolution_s42.json")
    (tmp_path / "runs").write_text("not a directory")
    with pytest.raises(StoreError, match="not a file"):
        import_file(path, tmp_path / "runs")


def test_the_papers_files_import_no_torch() -> None:
    code = "import sys, faudit.papers.faeval; assert 'torch' not in sys.modules"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
