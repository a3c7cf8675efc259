"""Problems that only the parts of a run can find stop a study before the first run."""

from __future__ import annotations

import pytest

from faudit.config import RunConfig
from faudit.errors import ConfigError
from faudit.sweep.check import refuse


def test_what_only_the_parts_know_is_refused_before_anything_starts() -> None:
    base = RunConfig()
    bad = [
        *(base.with_(clip=2.0, seed=seed) for seed in (1, 2)),
        base.with_(batch_size=2000),
        base.with_(net="vit", patch=3),
        base.with_(data="cifar10"),
    ]
    with pytest.raises(ConfigError) as caught:
        refuse([base, *bad], data_dir=None, elsewhere=False)
    lines = str(caught.value).splitlines()
    assert len(lines) == 4 and all("(" in line for line in lines)
    assert "rule bp does not read clip" in lines[0] and lines[0].endswith("and 1 more)")
    assert any("larger than the data" in line for line in lines) and any("--data-dir" in line for line in lines)
    refuse([base.with_(data="cifar10")], data_dir=None, elsewhere=True)


def test_a_net_that_a_rule_cannot_train_is_refused_before_anything_starts() -> None:
    base = RunConfig(net="mlp", activation="relu")
    pairs = [base.with_(rule="forward-forward"), RunConfig(rule="forward-forward"), RunConfig(rule="bp")]
    with pytest.raises(ConfigError, match="rule forward-forward cannot train net resmlp") as caught:
        refuse(pairs, data_dir=None, elsewhere=False)
    assert len(str(caught.value).splitlines()) == 1
