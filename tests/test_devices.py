"""Laws of training on a GPU, held on a device without data: an epoch waits for nothing, and moves nothing twice."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch

from faudit.config import RunConfig
from faudit.experiment import Experiment, build_net, prepare
from faudit.rules import RULES
from faudit.train import one_epoch, read
from faudit.train import test_accuracy as accuracy
from tests.support.devices import META, Watched, on_device, watched
from tests.support.nets import tiny_dataset

Way = Callable[[], object]
BATCH, BATCHES = 4, 5
SAMPLES = BATCH * BATCHES
DATA = replace(tiny_dataset(train=SAMPLES), crop=1, flip=True)
# Settings under which a rule draws or decides something at every step, in few operations.
BUSY: dict[str, dict[str, Any]] = {
    "sign-symmetry": {"variant": "brsf"},
    "weight-mirror": {"mirror_start": 2, "mirror_response": "sigmoid"},
    "credit-bridge": {"warmup": 1, "auxiliary_depth": 1},
    "state-bridge": {"auxiliary_depth": 1},
    "placebo": {"auxiliary_depth": 1},
    "ep": {"steps": 3},
}
NETS: dict[str, dict[str, Any]] = {
    "resmlp": {"depth": 2, "width": 5},
    "mlp": {"sizes": (6, 5), "activation": "relu"},
    "vit": {"depth": 2, "width": 4, "patch": 2, "heads": 2},
    "resnet": {"depth": 3, "width": 2},
    "cnn": {},
}
PAIRS = [(rule, net) for rule in RULES if rule not in RULES.controls for net in ("resmlp", "mlp")]  # as their controls
PAIRS += [(rule, net) for rule in ("bp", "dfa", "fa-weights", "local-loss") for net in ("vit", "resnet", "cnn")]
# Every operation is watched, which takes seconds. So the fast suite has one rule of a kind.
FAST = [
    (rule, "resmlp") for rule in ("bp", "dfa", "fa", "fa-weights", "weight-mirror", "dkp", "pepita", "credit-bridge")
]
FAST += [("forward-forward", "mlp"), ("bp", "cnn")]


@pytest.fixture(autouse=True)
def device(monkeypatch: pytest.MonkeyPatch) -> None:
    on_device(monkeypatch)
    monkeypatch.setattr("faudit.data.batches.CHUNK", 2 * BATCH * DATA.train_x[0].nbytes)  # two batches


def started(rule: str, net: str, **settings: Any) -> Experiment:
    """A run on the device, of images that are cropped and flipped; skips a net that the rule cannot train."""
    config = RunConfig(rule=rule, net=net, batch_size=BATCH, **{**NETS[net], **BUSY.get(rule, {}), **settings})
    if reason := RULES[rule](**config.settings_of("rule")).refusal(build_net(config, DATA)):
        pytest.skip(reason)
    return prepare(config, DATA)


def second_epoch(experiment: Experiment) -> Watched:
    """What the second epoch does. The first one moves the data, and makes what is kept."""
    with watched():
        one_epoch(experiment, 1)
    with watched() as found:
        one_epoch(experiment, 2)
    return found


@pytest.mark.parametrize(
    ("rule", "net"), [pytest.param(*pair, marks=[] if pair in FAST else pytest.mark.slow) for pair in PAIRS]
)
def test_an_epoch_reads_its_loss_once_and_moves_only_what_its_steps_draw(rule: str, net: str) -> None:
    """A rule that reads more says why in ``reads_device``. Every operation is between tensors of one device."""
    experiment = started(rule, net)
    random = experiment.state.generators["step"]
    before = random.get_state()
    found = second_epoch(experiment)
    draws = not torch.equal(before, random.get_state())
    assert found.waits == []
    assert len(found.reads) == 1 + (BATCHES if experiment.rule.reads_device else 0)
    assert all(shape in found.moves for shape in ((SAMPLES,), (2, SAMPLES))), "order, labels and shifts of the epoch"
    assert all(shape[1:] != experiment.batches.images.shape[1:] for shape in found.moves), "samples are moved again"
    assert len(found.moves) == 4 or (draws and len(found.moves) % BATCHES == 4 % BATCHES)


def test_dropout_masks_are_moved_without_waiting() -> None:
    found = second_epoch(started("bp", "mlp", dropout=0.2, batch_norm=True))
    assert found.waits == [] and len(found.reads) == 1
    assert len(found.moves) == 4 + 2 * BATCHES


def test_data_that_does_not_fit_is_moved_in_chunks_from_pinned_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("faudit.data.batches.has_room", lambda device, size: False)
    experiment = started("dfa", "resmlp")
    found = second_epoch(experiment)
    assert experiment.batches.images.device.type == "cpu" and found.waits == [] and len(found.reads) == 1
    assert found.moves == [(20,), (8, 1, 4, 4), (8, 1, 4, 4), (4, 1, 4, 4)]  # labels, and three chunks of samples


def test_the_test_set_and_the_evaluation_buffer_are_moved_once() -> None:
    experiment = started("dfa", "resmlp")
    with watched() as first:
        read(experiment), accuracy(experiment)
    with watched() as second:
        read(experiment), accuracy(experiment)
    assert len(first.waits) >= 4 and second.waits == [] and second.moves == []


def test_every_tensor_of_a_run_is_on_its_device_but_what_the_rule_keeps_on_the_host() -> None:
    for rule in RULES:
        experiment = started(rule, "mlp" if "forward-forward" in rule else "resmlp")
        live = experiment.state
        assert {value.device for value in (*live.params.values(), *experiment.initial.values())} == {META}
        for name, value in live.rule_state.items():
            assert (value.device == META) is not experiment.rule.on_host(name), (rule, name)


def test_the_watch_sees_every_way_to_wait() -> None:
    """The law is worth what the watch sees: each of these is one way to wait, and one to mix devices."""
    there, here = torch.empty(3, device=META), torch.ones(3)
    reads: list[Way] = [lambda: float(there.sum()), lambda: bool(there.any()), there.tolist, there.cpu]
    moves: list[Way] = [
        lambda: here.to(META), lambda: there.copy_(here), lambda: here.to(META, non_blocking=True),
        lambda: here.pin_memory().to(META), lambda: torch.tensor([1.0], device=META), lambda: there.new_tensor([1.0]),
    ]  # fmt: skip
    shapes: list[Way] = [there.nonzero, lambda: there[there > 0]]
    mixtures: list[Way] = [lambda: there + here, lambda: there[torch.tensor([0])]]
    for read_it in reads:
        with watched() as found:
            read_it()
        assert len(found.reads) == 1 and not found.waits
    for move in moves:
        with watched() as found:
            move()
        assert len(found.waits) == 1 and not found.moves
    for shape in shapes:
        with pytest.raises(NotImplementedError), watched():
            shape()
    for mix in mixtures:
        with pytest.raises(AssertionError, match="mixes tensors"), watched():
            mix()
