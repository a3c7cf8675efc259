"""Which runs are put together, and how many: runs that cannot be stacked stay alone, and no worker is left idle."""

from __future__ import annotations

import pytest

from faudit.config import RunConfig
from faudit.errors import ConfigError
from faudit.stack.plan import grouped, key_of, parsed, width_of

SMALL = RunConfig(rule="dfa", width=32, depth=2, batch_size=32)


def sizes(configs: list[RunConfig], *, jobs: int = 1, most: int | None = None) -> list[int]:
    groups = grouped(configs, jobs=jobs, most=most)
    assert sorted(one.run_id for group in groups for one in group) == sorted(one.run_id for one in configs)
    return [len(group) for group in groups]


@pytest.mark.parametrize("change", [{"seed": 3}, {"lr": 0.5}, {"weight_decay": 0.5}])
def test_runs_may_differ_in_seed_rate_and_decay(change: dict[str, float]) -> None:
    assert key_of(SMALL) == key_of(SMALL.with_(**change))


def test_runs_may_differ_in_penalty_but_those_without_one_are_apart() -> None:
    some = SMALL.with_(penalty=0.1)
    assert key_of(some) == key_of(some.with_(penalty=0.2)) != key_of(SMALL)


@pytest.mark.parametrize(
    "change",
    [
        {"epochs": 7},
        {"width": 16},
        {"batch_size": 64},
        {"clip": 2.0},
        {"rule": "fa"},
        {"log_every": 2},
        {"dtype": "float64"},
    ],
)
def test_other_settings_keep_runs_apart(change: dict[str, object]) -> None:
    assert key_of(SMALL) != key_of(SMALL.with_(**change))


@pytest.mark.parametrize(
    "config",
    [
        SMALL.with_(rule="dfa-layers"),
        SMALL.with_(threads=2),
        SMALL.with_(amp="bfloat16"),
        SMALL.with_(block_decay=0.1),
        RunConfig(net="cnn", rule="dfa"),
        RunConfig(net="mlp", rule="dfa", dropout=0.5),
        RunConfig(net="mlp", rule="dfa", batch_norm=True),
        RunConfig(net="mlp", rule="dfa", criterion="mse"),
    ],
    ids=lambda config: config.run_id,
)
def test_what_has_no_stacked_form_is_alone(config: RunConfig) -> None:
    assert key_of(config) is None
    assert sizes([config, config.with_(seed=1), config.with_(seed=2)]) == [1, 1, 1]


def test_stacks_are_as_equal_as_possible_and_every_worker_has_one() -> None:
    seeds = [SMALL.with_(seed=seed) for seed in range(18)]
    assert width_of(SMALL) == 16
    assert sizes(seeds) == [9, 9] and sizes(seeds, jobs=4) == [4, 5, 4, 5] and sizes(seeds[:2], jobs=2) == [1, 1]
    assert sizes(seeds, most=1) == [1] * 18 and sizes(seeds, most=5) == [4, 5, 4, 5]


def test_large_kinds_of_runs_are_cut_so_that_all_workers_end_together() -> None:
    study = [SMALL.with_(rule=rule, seed=seed) for rule in ("bp", "dfa") for seed in range(16)]
    assert sizes(study, jobs=2) == [8] * 4 and sizes(study, jobs=3) == [8] * 4 and sizes(study, jobs=1) == [16, 16]
    assert sizes(study, jobs=2, most=16) == [16, 16]
    assert sizes([*study[:12], *study[16:28]], jobs=2) == [12, 12]


def test_a_mixed_study_is_grouped_in_its_order() -> None:
    study = [SMALL.with_(rule=rule, seed=seed) for seed in (1, 2) for rule in ("bp", "dfa-layers", "dfa")]
    groups = [[(one.rule, one.seed) for one in group] for group in grouped(study, jobs=1)]
    assert groups == [[("bp", 1), ("bp", 2)], [("dfa-layers", 1)], [("dfa", 1), ("dfa", 2)], [("dfa-layers", 2)]]


def test_large_runs_are_alone_unless_a_number_is_given() -> None:
    large = [RunConfig(rule="bp", width=512, batch_size=128, seed=seed) for seed in range(4)]
    assert sizes(large) == [1] * 4 and sizes(large, most=4) == [4]


def test_the_flag_is_auto_off_or_a_number() -> None:
    assert parsed(None) is None and parsed("auto") is None and parsed("off") == 1 and parsed("12") == 12
    for text in ("0", "-1", "1.5", "all", ""):
        with pytest.raises(ConfigError, match="--stack: expected auto, off or a whole number ≥ 1, got"):
            parsed(text)
