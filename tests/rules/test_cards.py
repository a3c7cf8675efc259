"""Method cards: every rule has one, read without importing the rule, and it says what the class says."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import get_args

import pytest

from faudit.cli.main import main
from faudit.rules import RULES, Need
from faudit.rules.cards import card, markdown, text

OWN = [name for name in RULES if name not in RULES.controls]


@pytest.mark.parametrize("name", OWN)
def test_a_rule_has_a_whole_card_and_its_class_has_the_same(name: str) -> None:
    found = RULES.card(name)
    assert found == RULES[name].card == RULES.card(f"frozen-{name}")
    assert all((found.title, found.formula, found.reference, found.stores, found.cost, found.fails))
    assert set(found.needs) <= set(get_args(Need))
    assert f"`{name}`" in markdown(name) and all(
        f"--{key.replace('_', '-')}" in text(name) for key in RULES.settings(name)
    )


def test_cards_are_printed_without_torch() -> None:
    code = "import sys; from faudit.cli.main import main; main(['show', 'rule', 'dfa']); print('torch' in sys.modules)"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.splitlines()
    assert shown[0].split() == ["rule", "dfa"] and shown[-1] == "False"


def test_a_card_as_json_and_the_table_of_all_rules(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", "rule", "fa-weights", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == card("fa-weights")
    assert main(["list", "rules"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[1:-1]] == OWN


def test_an_unknown_rule_or_a_second_name_is_refused_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", "rule", "dfb"]) == 2
    assert "unknown rule 'dfb', did you mean 'dfa'?" in capsys.readouterr().err
    assert main(["show", "some-run", "another"]) == 2
    assert capsys.readouterr().err == "faudit: show: expected one RUN, or `rule NAME`, got 'some-run' and 'another'\n"
