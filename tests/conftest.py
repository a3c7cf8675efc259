"""The set-up of every test process, and the fixtures that run a test over the registries."""

from __future__ import annotations

import os
import signal

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


@pytest.fixture(params=list(RULES))
def rule_name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=list(TINY_NETS))
def net_name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


# The fast suite holds every rule against these nets, and these rules against every net. The other pairs are slow.
NETS_FOR_EVERY_RULE = ("resmlp", "mlp")
RULES_FOR_EVERY_NET = ("bp", "fa-weights")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the laws on most pairs of rule and net as slow, and leave out the laws of single probes on them.

    There are hundreds of pairs. A probe asks a net for its taps and a rule for its credit, so a few pairs show all.
    """
    kept = []
    for item in items:
        found = item.callspec.params if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}
        if {"rule_name", "net_name"} <= found.keys():
            rule, net = str(found["rule_name"]), str(found["net_name"])
            if "probe_name" in found and (rule in RULES.controls or (net != "resmlp" and rule != "dfa")):
                continue
            if not is_near(rule, net):
                item.add_marker(pytest.mark.slow)
        kept.append(item)
    items[:] = kept


def is_near(rule: str, net: str) -> bool:
    """Whether a pair of rule and net is in the fast suite."""
    if rule in RULES.controls:
        return net == "resmlp"
    return net in NETS_FOR_EVERY_RULE or rule in RULES_FOR_EVERY_NET
