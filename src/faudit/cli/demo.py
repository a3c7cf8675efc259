"""``faudit demo``: the paper's main results on the shipped digits, as a table, verdicts, two figures and a page.

BP learns. DFA's stream explodes behind the terminal LayerNorm, and its accuracy is below that of blocks that never
trained. A penalty on the branches limits the stream. Each run takes seconds. The runs are ordinary runs: a killed run
resumes, and a finished run is not trained again.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from faudit.audit.protocol import DEFAULT, protocol
from faudit.cli.flags import Parser
from faudit.cli.output import refuse_stdout, remark, say, width
from faudit.config import RunConfig
from faudit.errors import StoreError
from faudit.figures import FIGURES
from faudit.papers import PAPERS
from faudit.store.files import write_text
from faudit.store.run import Run

if TYPE_CHECKING:
    from faudit.figures.plan import Plan

HELP = "train BP, FA, DFA and baselines on the shipped digits, audit them, draw figures and write a report"
EXAMPLES = ("faudit demo --out demo",)
DRAWN = ("snapshot-resmlp", "penalty-sweep")
EPOCHS = 30


def plan() -> Plan:
    """The paper's experiments on the digits, with one seed."""
    return PAPERS["faeval"].plan("digits", epochs=EPOCHS, seeds=(42,))


def demo_runs() -> tuple[RunConfig, ...]:
    """The runs that the two figures show, and the baselines that the audit needs."""
    bp = plan().config("resmlp bp")
    penalties = [plan().config(name).penalty for name in FIGURES["penalty-sweep"].experiments]
    return (
        bp,
        bp.with_(rule="fa"),
        bp.with_(rule="dfa"),
        *(bp.with_(rule="dfa", penalty=value) for value in penalties if value),
        *(bp.with_(rule=rule) for rule in ("frozen-dfa", "frozen-fa", "frozen-bp")),
        *(bp.with_(rule=rule, no_terminal_norm=True) for rule in ("bp", "dfa")),
    )


def add_flags(own: Parser) -> None:
    own.add_argument(
        "--out", type=Path, default=Path("demo"), metavar="DIR", help="folder for the results (default: demo)"
    )


def run(args: argparse.Namespace) -> int:
    from faudit.audit.judge import TRUSTWORTHY
    from faudit.cli.tables import COLUMNS, NEEDED, fitted, run_lines
    from faudit.report.vega import MISSING, is_installed
    from faudit.store.run import Run
    from faudit.store.summary import overview
    from faudit.sweep.engine import cores
    from faudit.sweep.local import run_all

    refuse_stdout("--out", args.out, "a directory")
    runs = store(args.out)
    outcome = run_all(demo_runs(), runs, data_dir=None, jobs=cores())
    if outcome.left:
        raise StoreError("\n".join(f"{run} was not made: {reason}" for run, reason in outcome.left.items()))
    named = [(config.label(), Run(runs / config.run_id)) for config in demo_runs()]
    lines = run_lines([{**overview(run), "run": name} for name, run in named], [])
    say(fitted(COLUMNS, lines, needed=NEEDED, width=width()))
    print(f"runs: {runs}")
    found = verdicts(args.out)
    for name, (word, reason) in found.items():
        print(f"{name:<{max(map(len, found))}}  {word}" + (f": {reason}" if word != TRUSTWORTHY else ""))
    print(f"audit: {args.out / 'audit.md'}")
    for path in draw(args.out):
        print(f"figure: {path} (also as PDF and SVG, its numbers as JSON)")
    if is_installed():
        print(f"report: {report(args.out)}")
    else:  # an optional package; the results above do not need it
        remark([MISSING])
    return 0


def store(out: Path) -> Path:
    """The run store of the demo."""
    return out / "runs"


def verdicts(out: Path) -> dict[str, tuple[str, str]]:
    """The verdict on each run and its first reason, by the run's label. The full audit goes to ``audit.md``."""
    from faudit.audit.audit import ControlIndex, audit
    from faudit.audit.page import page

    asked, beside = protocol(DEFAULT), ControlIndex(store(out))
    runs = {config.label(): Run(store(out) / config.run_id) for config in demo_runs()}
    audited = {name: audit(run, asked, data_dir=None, beside=beside) for name, run in runs.items()}
    remark(text for one in audited.values() for text in one.remarks)
    write_text(out / "audit.md", page(list(audited.values()), asked, utility_of=None, sensitivity_of=None))
    return {name: (one.verdict.verdict, one.verdict.reasons[0]) for name, one in audited.items()}


def report(out: Path) -> Path:
    """Write the page about the runs, which uses the audits that ``verdicts`` has kept."""
    from faudit.report.collection import Collection
    from faudit.report.page import html

    path, found = out / "report.html", Collection(store(out), protocol(DEFAULT))
    found.look()
    write_text(path, html(found))
    return path


def draw(out: Path) -> list[Path]:
    """Draw the demo's figures in every format, unless they exist. Returns the PNG files."""
    from faudit.figures.figure import FORMATS, make
    from faudit.figures.style import Style
    from faudit.figures.table import Table

    pictures = []
    for name in DRAWN:
        paths = [out / f"{name}.{form}" for form in FORMATS]
        if not all(path.exists() for path in paths):
            make(name, FIGURES[name](), Table(plan(), store(out)), style=Style(), paths=paths)
        pictures.append(paths[-1])
    return pictures
