"""``faudit list``: list the members of a family, each with one sentence."""

from __future__ import annotations

import argparse
from typing import Any

from faudit.audit.checks import CHECKS
from faudit.cli.flags import Parser, add_json
from faudit.cli.output import print_json
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
FAMILIES: dict[str, Registry[Any]] = {
    "nets": NETS, "rules": RULES, "optimizers": OPTIMIZERS, "data": DATASETS, "probes": PROBES, "checks": CHECKS,
    "figures": FIGURES, "studies": STUDIES, "papers": PAPERS,
}  # fmt: skip


def add_flags(own: Parser) -> None:
    own.add_argument("family", choices=list(FAMILIES), metavar="|".join(FAMILIES), help="what to list")
    add_json(own)


def run(args: argparse.Namespace) -> int:
    family = FAMILIES[args.family]
    entries = {name: family.summary(name) for name in family}
    if args.json:
        print_json(entries)
    else:
        for name, text in entries.items():
            print(f"{name:<{max(map(len, entries)) + 2}}{text}")
    return 0
