"""``faudit list``: list the members of a family, each with one sentence."""

from __future__ import annotations

import argparse
from typing import Any

from faudit.audit.checks import CHECKS
from faudit.cli.flags import Parser, add_json
from faudit.cli.output import print_json, say
from faudit.data import DATASETS
from faudit.figures import FIGURES
from faudit.nets import NETS
from faudit.optimizers import OPTIMIZERS
from faudit.papers import PAPERS
from faudit.probes import PROBES
from faudit.registry import Registry
from faudit.rules import RULES
from faudit.sweep import STUDIES

HELP = "list the networks, rules, optimizers, datasets, probes, checks, figures, studies or papers that faudit has"
EXAMPLES = (
    "faudit list rules",
    "faudit list papers --json",
)
FAMILIES: dict[str, Registry[Any]] = {
    "nets": NETS, "rules": RULES, "optimizers": OPTIMIZERS, "data": DATASETS, "probes": PROBES, "checks": CHECKS,
    "figures": FIGURES, "studies": STUDIES, "papers": PAPERS,
}  # fmt: skip
COLUMNS = ("paper", "reference", "runs", "core-hours", "claims", "title")  # of the table of papers


def add_flags(own: Parser) -> None:
    own.add_argument("family", choices=list(FAMILIES), metavar="|".join(FAMILIES), help="what to list")
    add_json(own)


def run(args: argparse.Namespace) -> int:
    if args.family in TABLES:
        return TABLES[args.family](args)
    family = FAMILIES[args.family]
    entries = {name: family.summary(name) for name in family}
    if args.json:
        print_json(entries)
    else:
        for name, text in entries.items():
            print(f"{name:<{max(map(len, entries)) + 2}}{text}")
    return 0


def list_papers(args: argparse.Namespace) -> int:
    """One table of the papers: what reproducing each one takes, and how many claims it has."""
    from faudit.cli.tables import listed
    from faudit.papers.reproduce import configs_of

    facts: dict[str, dict[str, Any]] = {
        name: {
            "reference": paper.reference,
            "runs": len(configs_of(name, paper, plan=paper.plan())),
            "core-hours": paper.core_hours,
            "claims": len(paper.claims),
            "title": paper.title,
        }
        for name, paper in PAPERS.items()
    }
    if args.json:
        print_json(facts)
        return 0
    rows = [[name, *(str(fact[column]) for column in COLUMNS[1:])] for name, fact in facts.items()]
    say(listed(COLUMNS, rows, left=("paper", "reference", "title")))
    return 0


def list_rules(args: argparse.Namespace) -> int:
    """One table of the rules: what each is, what it needs, and where it comes from."""
    from faudit.cli.tables import listed
    from faudit.rules.cards import card

    facts = {name: card(name) for name in RULES if name not in RULES.controls}
    if args.json:
        print_json({**facts, **{name: RULES.summary(name) for name in RULES.controls}})
        return 0
    columns = ("rule", "method", "needs", "reference")
    say(listed(columns, [[fact[column] for column in columns] for fact in facts.values()], left=columns))
    say(
        "frozen-RULE is the control of a rule: its blocks keep their initial weights. See also `faudit show rule NAME`."
    )
    return 0


TABLES = {"papers": list_papers, "rules": list_rules}
