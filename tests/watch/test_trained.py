"""The module of a run computes what the run's net computes, bit for bit, and is an ordinary module of torch."""

from __future__ import annotations

import copy
import io
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from faudit import DATASETS, RULES, fit, load_model, rule_state
from faudit.config import RunConfig
from faudit.data.dataset import Dataset
from faudit.errors import FauditError, StoreError
from faudit.experiment import build_net, prepare
from faudit.nets.net import is_buffer
from faudit.store import checkpoint
from faudit.store.run import Run

CASES = {
    "resmlp": RunConfig(rule="dfa", width=8, depth=2, epochs=2, batch_size=256, keep_epochs=(1,)),
    "mlp": RunConfig(net="mlp", sizes=(12, 8), dropout=0.3, batch_norm=True, epochs=2, batch_size=256, pixels="unit"),
    "vit": RunConfig(net="vit", width=8, heads=2, depth=1, patch=4, epochs=1, batch_size=256, dtype="float64"),
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Run]:
    store = tmp_path_factory.mktemp("runs")
    return {name: fit(config, store) for name, config in CASES.items()}


def data_of(config: RunConfig) -> Dataset:
    return DATASETS[config.data](None).with_pixels(config.pixels)


@pytest.mark.parametrize("case", list(CASES))
def test_its_logits_are_the_nets_and_its_accuracy_the_runs(runs: dict[str, Run], case: str) -> None:
    run, config, data = runs[case], CASES[case], data_of(CASES[case])
    model = load_model(run)
    x = data.normalise(data.test_x, getattr(torch, config.dtype))
    assert not model.training and torch.equal(model.normalise(data.test_x), x)
    # As in training: torch's linear takes another path, with other last bits, for weights that require no grad.
    params = {
        name: value.requires_grad_(not is_buffer(name)) for name, value in checkpoint.weights(run.checkpoint).items()
    }
    with torch.no_grad():
        logits = model(x)
        assert torch.equal(logits, build_net(config, data).forward(params, x))
    right = int((logits.argmax(1) == data.test_y).sum()) / len(data.test_y)
    assert right == run.rows()[-1]["test_acc"]
    assert model.state_dict().keys() == params.keys()
    assert all(torch.equal(value, params[name]) for name, value in model.state_dict().items())


def test_it_is_an_ordinary_module(runs: dict[str, Run]) -> None:
    model = load_model(runs["mlp"].path)
    x = torch.randn(32, 1, 8, 8)
    buffers = dict(model.named_buffers())
    assert buffers and not buffers.keys() & dict(model.named_parameters()).keys()
    assert all(name.endswith(("running_mean", "running_var")) for name in buffers)
    file = io.BytesIO()
    torch.save(model.state_dict(), file)
    file.seek(0)
    other = copy.deepcopy(model)
    with torch.no_grad():
        for value in other.parameters():
            value.zero_()
    assert not torch.equal(other(x), model(x))
    other.load_state_dict(torch.load(file, weights_only=True))
    assert torch.equal(other(x), model(x))
    assert torch.equal(other.to(torch.float64)(x.double()), model.double()(x.double()))


def test_in_training_mode_it_drops_out_and_its_batch_norm_follows_the_batch(runs: dict[str, Run]) -> None:
    model = load_model(runs["mlp"])
    x, y = torch.randn(64, 1, 8, 8), torch.arange(64) % 10
    before = {name: value.clone() for name, value in model.named_buffers()}
    calm = model(x)
    assert torch.equal(model(x), calm) and all(
        torch.equal(before[name], value) for name, value in model.named_buffers()
    )
    model.train()
    torch.manual_seed(0)
    one = model(x)
    assert not torch.equal(one, model(x)), "two passes have two masks"
    assert all(not torch.equal(before[name], value) for name, value in model.named_buffers())
    torch.manual_seed(0)
    assert torch.equal(one, model(x)), "torch's own generator draws the masks"
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for _ in range(30):
        loss = torch.nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    assert losses[-1] < losses[0]


def test_a_kept_epoch_and_the_feedback_can_be_had(runs: dict[str, Run]) -> None:
    run, config = runs["resmlp"], CASES["resmlp"]
    kept = checkpoint.weights(run.kept(1))
    early, late = load_model(run, epoch=1), load_model(run, epoch=2)
    assert all(torch.equal(value, kept[name]) for name, value in early.state_dict().items())
    assert all(not torch.equal(value, late.weights()[name]) for name, value in early.weights().items())
    drawn = prepare(config, data_of(config)).state.rule_state
    for epoch in (None, 1):
        state = rule_state(run, epoch=epoch)
        assert state.keys() == drawn.keys() and all(torch.equal(state[name], drawn[name]) for name in state)
    assert rule_state(runs["mlp"]) == {}
    with pytest.raises(StoreError, match=r"has no checkpoint of epoch 0.*--keep-epochs"):
        load_model(run, epoch=0)


def test_a_rule_that_predicts_in_its_own_way_predicts_with_the_module(tmp_path: Path) -> None:
    config = RunConfig(net="mlp", sizes=(8, 8), rule="forward-forward", activation="relu", epochs=1, batch_size=256)
    run, data = fit(config, tmp_path), data_of(config)
    model, rule = load_model(run), RULES[config.rule](**config.settings_of("rule"))
    with torch.no_grad():
        scores = rule.predict(model.net, model.weights(), rule_state(run), model.normalise(data.test_x))
    assert int((scores.argmax(1) == data.test_y).sum()) / len(data.test_y) == run.rows()[-1]["test_acc"]


def test_a_run_without_the_shape_of_its_samples_reads_its_data(runs: dict[str, Run], tmp_path: Path) -> None:
    run = Run(Path(shutil.copytree(runs["mlp"].path, tmp_path / runs["mlp"].name)))
    file = run.path / "env.json"
    about: dict[str, Any] = json.loads(file.read_text())
    kept = about.pop("data")
    file.write_text(json.dumps(about))
    x = torch.randn(4, 1, 8, 8)
    assert torch.equal(load_model(run)(x), load_model(runs["mlp"])(x))
    assert load_model(run).samples == load_model(runs["mlp"]).samples
    for wrong in (3, {}, {**kept, "shape": None}, {**kept, "shape": [1, 4, 4]}, {**kept, "outputs": 3}):
        file.write_text(json.dumps({**about, "data": wrong}))
        with pytest.raises(FauditError) as caught:
            load_model(run)
        assert "damaged" in str(caught.value) and "\n" not in str(caught.value)


def test_files_that_are_damaged_or_from_another_run_are_refused(runs: dict[str, Run], tmp_path: Path) -> None:
    run = Run(Path(shutil.copytree(runs["resmlp"].path, tmp_path / runs["resmlp"].name)))
    data = run.checkpoint.read_bytes()
    for spoiled in (data[:-1], data[:-5] + b"\x01" + data[-4:], runs["mlp"].checkpoint.read_bytes()):
        run.checkpoint.write_bytes(spoiled)
        for load in (load_model, rule_state):
            with pytest.raises(FauditError, match="damaged"):
                load(run)
    run.checkpoint.write_bytes(run.kept(1).read_bytes())
    with pytest.raises(FauditError, match="not those that the run ended with"):
        load_model(run)
    run.checkpoint.unlink()
    with pytest.raises(StoreError, match="has no last checkpoint"):
        load_model(run)
