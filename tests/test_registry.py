"""A registry knows its names without importing its members, and says which valid name is near a wrong one."""

from __future__ import annotations

import subprocess
import sys

import pytest

from faudit.audit.checks import CHECKS
from faudit.data import DATASETS
from faudit.errors import ConfigError
from faudit.figures import FIGURES
from faudit.nets import NETS
from faudit.optimizers import OPTIMIZERS
from faudit.papers import PAPERS
from faudit.probes import PROBES
from faudit.registry import Registry, nearest, unknown
from faudit.rules import RULES
from faudit.sweep import ENGINES, STUDIES

FAMILIES = [CHECKS, DATASETS, ENGINES, FIGURES, NETS, OPTIMIZERS, PAPERS, PROBES, RULES, STUDIES]


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.family)
def test_every_member_exists_and_says_what_it_is(family: Registry[object]) -> None:
    assert len(family) == len(list(family)) > 0
    for name in family:
        assert name in family and family[name] is not None
        assert len(family.summary(name)) > 10 and "\n" not in family.summary(name)


def test_a_member_is_imported_when_it_is_asked_for() -> None:
    code = (
        "import sys; from faudit.registry import Registry\n"
        "some = Registry('thing', {'a': 'colorsys:rgb_to_hsv', 'b': 'absent.module:x'})\n"
        "assert list(some) == ['a', 'b'] and 'b' in some and 'colorsys' not in sys.modules\n"
        "some['a']; assert 'colorsys' in sys.modules"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_an_unknown_name_is_refused_with_the_nearest_valid_one() -> None:
    some: Registry[object] = Registry("thing", {"alpha": "math:pi", "beta": "math:e"})
    with pytest.raises(ConfigError) as caught:
        some["alhpa"]
    said = str(caught.value)
    assert said.startswith("unknown thing 'alhpa', did you mean 'alpha'?") and said.endswith("Valid: alpha, beta")
    assert "alhpa" not in some and some["beta"] == pytest.approx(2.718281828)


def test_a_name_that_is_near_none_gets_no_advice() -> None:
    assert nearest("zzz", ["alpha", "beta"]) == "" and nearest(3, ["alpha"]) == ""
    assert unknown("thing", "zzz", ["alpha"]) == "unknown thing 'zzz'. Valid: alpha"
