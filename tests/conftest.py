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
