"""A watched loop: its rows are those of a second computation, its run is an ordinary one, its end is on disk."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import faudit
from faudit import audit_model
from faudit.audit.audit import audit
from faudit.audit.checks.check import FIRED, NOT_APPLICABLE, NOT_MEASURED, PASSED, Finding
from faudit.audit.judge import INCONCLUSIVE, TRUSTWORTHY, WALK_BACK, Verdict
from faudit.audit.protocol import DEFAULT, PROTOCOLS
from faudit.cli.main import main
from faudit.store import checkpoint
from faudit.store.index import entries
from faudit.store.run import Run, Status
from faudit.store.watched import WatchedConfig
from tests.support.models import CLASSES
from tests.support.watched import DEPTH, MLP, WIDTH, data, train, watched


def feedback() -> list[Tensor]:
    draw = torch.Generator().manual_seed(5)
    return [torch.randn(CLASSES, WIDTH, generator=draw) for _ in range(DEPTH)]


def credit_of(matrices: list[Tensor]) -> Any:
    def credit(taps: list[Tensor], logits: Tensor, y: Tensor) -> list[Tensor]:
        error = logits.softmax(dim=1) - F.one_hot(y, CLASSES)
        return [error @ matrix.to(error) for matrix in matrices]

    return credit


def fresh(generator: torch.Generator) -> Any:
    return credit_of([torch.randn(CLASSES, WIDTH, generator=generator) for _ in range(DEPTH)])


def finding(verdict: Verdict, name: str) -> Finding:
    return next(one for one in verdict.findings if one.check == name)


def test_every_number_is_that_of_a_second_computation(tmp_path: Path) -> None:
    """Norms, gradients, Γ, accuracy, loss and movement, one sample at a time in float64."""
    model, (x, y) = MLP(dtype=torch.float64), data(40, dtype=torch.float64)
    matrices = feedback()
    began = [block[0].weight.detach().clone() for block in model.blocks]  # type: ignore[index]  # stacks
    with watched(model, tmp_path, eval_batch=(x, y), credit=credit_of(matrices), probe_epochs=[1]) as w:
        with torch.no_grad():
            for value in model.parameters():
                value.add_(0.1 * torch.randn(value.shape, generator=torch.Generator().manual_seed(3)))
        row = w.log(0)
    assert row is not None and row["epoch"] == 1
    states: list[list[np.ndarray]] = [[] for _ in range(DEPTH + 1)]
    grads: list[list[np.ndarray]] = [[] for _ in range(DEPTH + 1)]
    losses, right, cosines = [], 0, np.zeros((DEPTH, len(x)))
    for i in range(len(x)):
        h = model.embed(x[i : i + 1])
        path = [h]
        for block in model.blocks:
            path.append(block(path[-1]))
        logits = model.head(path[-1])
        loss = F.cross_entropy(logits, y[i : i + 1])
        gradients = torch.autograd.grad(loss, path)
        losses.append(loss.item())
        right += int(logits.argmax()) == int(y[i])
        error = logits.detach().softmax(dim=1)[0] - F.one_hot(y[i], CLASSES)
        for tap in range(DEPTH + 1):
            states[tap].append(path[tap].detach().numpy()[0])
            grads[tap].append(gradients[tap].numpy()[0])
        for l in range(DEPTH):
            signal, g = (error @ matrices[l].double()).numpy(), grads[l + 1][-1]
            cosines[l, i] = signal @ g / np.linalg.norm(signal) / np.linalg.norm(g)
    size = [float(np.median(np.linalg.norm(np.array(one), axis=1))) for one in states]
    np.testing.assert_allclose(row["hidden_norms"], size, rtol=1e-10)
    slopes = [float(np.median(np.linalg.norm(np.array(one), axis=1))) for one in grads]
    np.testing.assert_allclose(row["grad_norms"], slopes, rtol=1e-10)
    np.testing.assert_allclose(row["gamma"], cosines.mean(axis=1), rtol=1e-10)
    assert row["loss_eval"] == pytest.approx(np.mean(losses), rel=1e-12) and row["acc_eval"] == right / len(x)
    assert row["test_acc"] == row["acc_eval"] and row["test_samples"] == 40 and row["classes"] == CLASSES
    for l, block in enumerate(model.blocks):
        a, b = block[0].weight.detach().flatten(), began[l].flatten()  # type: ignore[index]
        turned = float((a - (a @ b) / (b @ b) * b).norm() / a.norm())
        assert row["block_turn"][l] == pytest.approx(turned, rel=1e-8)


def test_a_watched_run_is_an_ordinary_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = MLP()
    began = {name: value.clone() for name, value in model.state_dict().items()}
    with watched(model, tmp_path, seed=3, settings={"lr": 0.5, "rule": "bp"}, data="teacher") as w:
        assert str(w.run.status) == "running"
        train(model, w)
    config = w.run.config()
    assert isinstance(config, WatchedConfig) and w.run.name == config.run_id and config.run_id.startswith("mine-s3-")
    assert (config.net, config.rule, config.data, config.epochs) == ("MLP", "mine", "teacher", 6)
    assert config.to_json()["own-lr"] == "0.5" and config.to_json()["taps"] == "blocks.0 blocks.1 blocks.2"
    assert w.taps == ("blocks.0", "blocks.1", "blocks.2") and w.run.status == Status.DONE
    rows = w.run.rows()
    assert [row["epoch"] for row in rows] == list(range(7)) and rows == w.rows
    assert rows[3]["own.lr"] == 0.5 and rows[3]["train_loss"] < rows[1]["train_loss"] and rows[0]["train_loss"] is None
    saved, header = checkpoint.load_of(w.run)
    assert header["epoch"] == 6
    for kind, state in (("net/", model.state_dict()), ("initial/", began)):
        kept = checkpoint.of_kind(saved, kind)
        assert kept.keys() == state.keys() and all(torch.equal(kept[name], state[name]) for name in state)
    (entry,), damaged = entries(tmp_path)
    assert not damaged and entry["status"] == "done" and entry["epochs"] == 6 and entry["config"]["watched"] == "mine"

    assert main(["show", "--runs", str(tmp_path)]) == 0
    assert main(["show", w.run.name, "--runs", str(tmp_path)]) == 0
    assert main(["show", "--json", "--where", "watched=mine", "--runs", str(tmp_path)]) == 0
    shown = capsys.readouterr().out
    assert w.run.name in shown and "watched=mine" in shown
    assert main(["audit", w.run.name, "--runs", str(tmp_path)]) == 3
    assert "faudit.control(make_model, train, of=w)" in capsys.readouterr().out
    for form in ("csv", "parquet"):
        assert main(["export", "--format", form, "--out", str(tmp_path / f"t.{form}"), "--runs", str(tmp_path)]) == 0
    with open(tmp_path / "t.csv", newline="") as file:
        table = list(csv.DictReader(file))
    assert len(table) == 7 and table[4]["own.lr"] == "0.5" and table[4]["own-lr"] == "0.5"
    assert float(table[4]["hidden_norms[3]"]) == rows[4]["hidden_norms"][3]
    capsys.readouterr()
    assert main(["audit", w.run.name, "--with-controls", "--runs", str(tmp_path)]) == 3
    assert "is watched: train its control with faudit.control" in capsys.readouterr().err
    with pytest.raises(faudit.FauditError, match="is a watched run: expected the settings of a run that faudit trains"):
        faudit.fit(config, runs=tmp_path)
    with pytest.raises(faudit.FauditError, match="is a watched run"):
        faudit.fit(config, runs=tmp_path / "other")
    with pytest.raises(faudit.FauditError, match="it does not know the class MLP"):
        faudit.load_model(w.run)


def test_the_verdict_of_the_watch_is_that_of_the_audit_and_needs_a_control(tmp_path: Path) -> None:
    model = MLP()
    with watched(model, tmp_path) as w:
        train(model, w)
        live = w.verdict()
        assert live.verdict == INCONCLUSIVE and finding(live, "reference").status == NOT_MEASURED
    verdict = w.verdict()
    assert verdict == audit(w.run, PROTOCOLS[DEFAULT], data_dir=None).verdict
    assert verdict.verdict == INCONCLUSIVE and "faudit.control" in verdict.reasons[0]
    assert "no credit was given" in str(verdict)
    for name in ("scale", "reference", "rank", "movement", "chance"):
        assert finding(verdict, name).status == PASSED, name
    assert finding(verdict, "swap").status == NOT_APPLICABLE
    accuracy = faudit.control(MLP, train, of=w)
    again = w.verdict()
    assert finding(again, "paired").status in (PASSED, FIRED) and f"{accuracy:.3f}" in finding(again, "paired").reason
    assert again.verdict == (TRUSTWORTHY if finding(again, "paired").status == PASSED else WALK_BACK)


def test_a_credit_is_judged_and_fresh_feedback_is_its_null(tmp_path: Path) -> None:
    model = MLP()
    with watched(model, tmp_path, credit=credit_of([-one for one in feedback()]), fresh=fresh) as w:
        train(model, w)
    assert len(w.rows[-1]["gamma"]) == DEPTH and "rho" not in w.rows[-1]
    verdict = w.verdict()
    assert {finding(verdict, name).status for name in ("feedback", "controls")} == {PASSED}
    assert finding(verdict, "null").status == FIRED, "by chance BP aligns with this feedback, so its negative does not"
    assert "fresh feedback" in finding(verdict, "null").reason and verdict.verdict == WALK_BACK


def test_matrices_that_only_grow_have_not_moved(tmp_path: Path) -> None:
    model = MLP()
    with watched(model, tmp_path) as w:
        with torch.no_grad():
            for value in model.parameters():
                value.mul_(1.5)
        w.log(1)
    assert finding(w.verdict(), "movement").status == FIRED, "they must turn"


@pytest.mark.parametrize("classes", [5, 10])
def test_the_gradient_is_judged_at_the_states_at_which_audit_model_judges_it(classes: int, tmp_path: Path) -> None:
    """At the input of the first block no signal is compared, so its rank below 2 on a tiny net is no reason."""
    torch.manual_seed(0)
    width, embed = 8, nn.Linear(8, 8)
    blocks = [nn.Sequential(nn.Linear(width, width), nn.Tanh()) for _ in range(3)]
    model = nn.Sequential(embed, *blocks, nn.Linear(width, classes))
    x = torch.randn(300, width)
    y = (x @ torch.randn(width, classes)).argmax(dim=1)
    with watched(model, tmp_path, eval_batch=(x, y), taps=["1", "2", "3"], probe_epochs=[1]) as w:
        row = w.log(1)
    audited = audit_model(model, [(x, y)], taps=["1", "2", "3"])
    assert row is not None and row["reference_rank"][0] < 2.0
    for entry in ("reference_rank", "precision_agree", "hidden_norms", "grad_norms"):
        assert row[entry][1:] == pytest.approx(audited.row[entry], rel=1e-6), entry
    live, alone = w.verdict(), audited.verdict
    for name in ("rank", "reference", "chance"):
        one, other = finding(live, name), finding(alone, name)
        assert one.status == other.status and one.value == pytest.approx(other.value, rel=1e-6), name
    assert finding(live, "rank").status == (FIRED if min(row["reference_rank"][1:]) < 2.0 else PASSED)
    assert (classes == 10) is (finding(live, "rank").status == PASSED), "one case of each"


def test_blocks_that_write_in_place_are_measured_as_if_they_did_not(tmp_path: Path) -> None:
    """The taps are the in-place modules themselves: each overwrites what it reads, and the one before it returned."""
    rows = []
    for inplace in (True, False):
        torch.manual_seed(0)
        layers = [part for _ in range(2) for part in (nn.Linear(WIDTH, WIDTH), nn.ReLU(inplace=inplace))]
        model = nn.Sequential(*layers, nn.Linear(WIDTH, CLASSES))
        with watched(model, tmp_path / str(inplace), taps=["*"], strict=True, probe_epochs=[1]) as w:
            row = w.log(1)
        rows.append({name: value for name, value in (row or {}).items() if "seconds" not in name})
    assert rows[0] == rows[1] and len(rows[0]["hidden_norms"]) == 6


class Times(nn.Module):
    """x → c·x."""

    def __init__(self, factor: float) -> None:
        super().__init__()
        self.factor = nn.Parameter(torch.tensor(factor))

    def forward(self, x: Tensor) -> Tensor:
        return self.factor * x


def test_growth_fires_at_its_first_epoch(tmp_path: Path) -> None:
    torch.manual_seed(0)
    blocks = [nn.Sequential(nn.Linear(WIDTH, WIDTH), Times(1.0)) for _ in range(2)]
    model = nn.Sequential(*blocks, nn.LayerNorm(WIDTH), nn.Linear(WIDTH, CLASSES))
    with watched(model, tmp_path, taps=["0", "1"]) as w:
        for epoch in (1, 2, 3, 4):
            with torch.no_grad():
                blocks[1][1].factor.mul_(10.0)  # type: ignore[operator]  # a parameter
            w.log(epoch)
    found = finding(w.verdict(), "scale")
    assert found.status == FIRED and found.first_fire == 2 and w.verdict().verdict == WALK_BACK


@pytest.mark.parametrize("error", [ValueError("the loader\nbroke"), KeyboardInterrupt()])
def test_a_crash_ends_the_run_as_failed_and_keeps_its_rows(error: BaseException, tmp_path: Path) -> None:
    model = MLP()
    with pytest.raises(type(error)) as caught, watched(model, tmp_path) as w:
        train(model, w, epochs=2)
        raise error
    assert caught.value is error
    run = Run(w.run.path)
    assert run.status == Status.FAILED and [row["epoch"] for row in run.rows()] == [0, 1, 2]
    outcome = run.outcome()
    assert outcome is not None and outcome["reason"].startswith(type(error).__name__) and outcome["epoch"] == 2
    assert "\n" not in outcome["reason"] and w.verdict().verdict == INCONCLUSIVE
    assert torch.equal(checkpoint.weights(run.checkpoint)["head.weight"], model.head.weight)


def test_numbers_that_overflow_end_the_run_as_failed_but_not_the_loop(tmp_path: Path) -> None:
    model = MLP()
    with watched(model, tmp_path) as w:
        w.log(1)
        with torch.no_grad():
            model.embed.weight.fill_(float("nan"))
        w.log(2)
        w.log(3)
    outcome = w.run.outcome()
    assert w.run.status == Status.FAILED and outcome is not None and "diverged" in outcome["reason"]
    assert len(w.run.rows()) == 4 and w.verdict().verdict == WALK_BACK


@pytest.mark.slow
def test_a_killed_loop_leaves_a_stopped_run_that_the_next_one_sets_aside(tmp_path: Path) -> None:
    code = (
        "import os, torch, faudit\n"
        "from tests.watch.test_loop import MLP, watched, train\n"
        "from pathlib import Path\n"
        f"w = watched(MLP(), Path({str(tmp_path)!r}))\n"
        "w.__enter__(); w.log(1); w.log(2); os._exit(9)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], check=False, env={**os.environ, "PYTHONPATH": "src:."})
    assert done.returncode == 9
    (run,) = faudit.runs_in(tmp_path)
    assert str(run.status) == "stopped" and [row["epoch"] for row in run.rows()] == [0, 1, 2]
    with pytest.warns(UserWarning, match="was there before; its files are in .*aside-1"), watched(MLP(), tmp_path) as w:
        w.log(1)
    assert w.run.path == run.path and run.status == Status.DONE and len(run.rows()) == 2
    assert len((run.path / "aside-1" / "rows.jsonl").read_text().splitlines()) == 3


def test_two_watches_of_one_name_do_not_share_a_run(tmp_path: Path) -> None:
    with watched(MLP(), tmp_path), pytest.raises(faudit.FauditError, match="another process"):
        watched(MLP(), tmp_path).__enter__()


def test_light_watching_measures_little_and_seeds_and_settings_name_other_runs(tmp_path: Path) -> None:
    names = set()
    for options in ({}, {"seed": 1}, {"settings": {"lr": 1}}, {"light": True}, {"name": "other"}):
        with watched(MLP(), tmp_path, **options) as w:
            w.log(1)
        names.add(w.run.name)
        assert (w.run.path / "audit.json").exists() is not options.get("light", False)
    assert len(names) == 5
    seeds = [run.config() for run in faudit.runs_in(tmp_path) if run.name.startswith("mine")]
    assert len(seeds) == 4


def test_edited_measurements_and_controls_are_not_judged(tmp_path: Path) -> None:
    model = MLP()
    with watched(model, tmp_path) as w:
        train(model, w, epochs=1)
    path = w.run.path / "audit.json"
    path.write_text(path.read_text().replace("precision", "precisiom"))
    told = audit(w.run, PROTOCOLS[DEFAULT], data_dir=None)
    assert finding(told.verdict, "reference").status == NOT_MEASURED and "What it held is not judged" in told.remarks[0]
    faudit.control(MLP, lambda model: train(model, epochs=1), of=w)
    path = w.run.path / "control.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"accuracies": [0.0]}))
    with pytest.raises(faudit.FauditError, match=r"control.json is damaged: it was edited"):
        w.verdict()
