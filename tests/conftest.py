"""The set-up of every test process, and the fixtures that run a test over the registries."""

from __future__ import annotations

import os
import signal
import warnings
from collections.abc import Iterator
from multiprocessing import get_context

import pytest
import torch
from hypothesis import settings

from faudit.rules import RULES
from tests.support.nets import TINY_NETS
from tests.support.paths import ROOT

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as under nohup, and what tests start would inherit it
    signal.signal(signal.SIGINT, signal.default_int_handler)
os.environ["PYTHONPATH"] = str(ROOT / "src")  # for the processes that tests start
settings.register_profile("faudit", deadline=None)  # a busy machine is no failure
settings.load_profile("faudit")
torch.set_num_threads(1)  # tiny tensors: more threads only wait for each other


@pytest.fixture
def few_directions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make ρ cheaper where its value does not matter. Each random direction costs three passes. Four show as much."""
    monkeypatch.setattr("faudit.probes.perturbation.DIRECTIONS", 4)


@pytest.fixture
def forked_workers(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Fork the workers of a sweep, which have torch then; in an interpreter of their own they import it for seconds."""
    monkeypatch.setattr("faudit.sweep.local.get_context", lambda _: get_context("fork"))
    with warnings.catch_warnings():  # Python 3.12 warns of threads, of which a worker uses none
        warnings.filterwarnings("ignore", "This process .* is multi-threaded", DeprecationWarning)
        yield


# The fast suite holds every rule against these nets, and these rules against every net. The other pairs are slow.
NETS_FOR_EVERY_RULE = ("resmlp", "mlp")
RULES_FOR_EVERY_NET = ("bp", "fa-weights")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test that takes a ``rule_name`` or a ``net_name`` for each of them, and one that takes both for each pair.

    The laws of single probes are asked of a few pairs: a probe asks a net for its taps and a rule for its credit. The
    fast suite does not even make the slow pairs. There are thousands, and each worker would collect them all.
    """
    given = [mark.args[0] for mark in metafunc.definition.iter_markers("parametrize")]
    own = {name.strip() for names in given for name in (names.split(",") if isinstance(names, str) else names)}
    asked = {"rule_name", "net_name"} & set(metafunc.fixturenames) - own
    if asked == {"rule_name", "net_name"}:
        pairs = [(rule, net) for net in TINY_NETS for rule in RULES]
        if "probe_name" in metafunc.fixturenames:
            pairs = [pair for pair in pairs if is_of_probes(*pair)]
        if metafunc.config.getoption("markexpr") == "not slow":
            pairs = [pair for pair in pairs if is_near(*pair)]
        marked = [pytest.param(*pair, marks=[] if is_near(*pair) else pytest.mark.slow) for pair in pairs]
        metafunc.parametrize(("rule_name", "net_name"), marked)
    elif asked:
        (name,) = asked
        metafunc.parametrize(name, list(RULES if name == "rule_name" else TINY_NETS))


CONTROLS = frozenset(RULES.controls)


def is_near(rule: str, net: str) -> bool:
    """Whether a pair of rule and net is in the fast suite."""
    if rule in CONTROLS:
        return net == "resmlp"
    return net in NETS_FOR_EVERY_RULE or rule in RULES_FOR_EVERY_NET


def is_of_probes(rule: str, net: str) -> bool:
    """Whether single probes are tried on a pair."""
    return rule not in CONTROLS and (net == "resmlp" or rule == "dfa")
