"""Reproduce a paper: train the missing runs, draw the figures, compare the claims with the logs.

All results go into one folder: each figure as PDF, SVG and PNG with its numbers as JSON, and ``claims.md`` and
``claims.json``. A paper without figures of its own gets one that is made from its claims. ``made-from.json`` records
what the results were made from, so that a second call does nothing.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from faudit import __version__
from faudit.config import RunConfig
from faudit.errors import ConfigError, StoreError
from faudit.figures import FIGURES, OF_STUDIES
from faudit.figures.figure import FORMATS, Figure, make
from faudit.figures.plan import Plan
from faudit.figures.table import Table
from faudit.papers import PAPERS
from faudit.papers.claim import judged
from faudit.papers.figure import Trajectories
from faudit.papers.page import page, tex
from faudit.papers.paper import Paper, paper_with
from faudit.registry import unknown
from faudit.store.files import contents, refusals, write_json, write_text
from faudit.store.index import sign
from faudit.store.run import ENDED, Run, no_store
from faudit.sweep.local import run_all

if TYPE_CHECKING:
    from faudit.figures.style import Style

ALL = ("claims", "all")  # these select every paper
OF_PAPERS = tuple(name for name in FIGURES if name not in OF_STUDIES)  # the figures that belong to a paper
NAMES = (*PAPERS, *OF_PAPERS, *ALL)
MARKS = "made-from.json"
OWN = "figure"  # the files of the figure that is made from a paper's claims


@dataclass
class Result:
    """What a reproduction did, for the command line to report."""

    made: int = 0
    failed: dict[str, str] = field(default_factory=dict)
    left: dict[str, str] = field(default_factory=dict)
    files: list[Path] = field(default_factory=list)
    drawn: list[str] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    absent: str = ""  # the message if the store has none of the runs
    verdicts: dict[str, int] = field(default_factory=dict)


def papers_of(name: str) -> list[Paper]:
    """The papers that a name selects: one by its name or by a figure, all of them by ``claims`` or ``all``."""
    if name in PAPERS:
        return [PAPERS[name]]
    if name in OF_PAPERS:
        return [paper_with(name)]
    if name in ALL:
        return list(PAPERS.values())
    raise ConfigError(unknown("paper, figure or result", name, NAMES))


def experiments_of(name: str, paper: Paper) -> list[str]:
    """The experiments that a figure, the claims or the whole paper need."""
    if name in OF_PAPERS:
        return list(dict.fromkeys(FIGURES[name].experiments))
    if name == "claims":
        return list(dict.fromkeys(experiment for claim in paper.claims for experiment in claim.experiments))
    return list(paper.recipe().experiments)


def configs_of(name: str, paper: Paper, *, plan: Plan) -> list[RunConfig]:
    """The runs that a figure, the claims or the whole paper need, each once."""
    wanted = experiments_of(name, paper)
    found = [plan.config(experiment, seed) for experiment in wanted for seed in plan.seeds_of(experiment)]
    return list({config.run_id: config for config in found}.values())


def figures_of(name: str, paper: Paper) -> dict[str, tuple[str, Figure]]:
    """The figures to draw: name of the files → (name of the figure or paper for messages, figure)."""
    if name == "claims":
        return {}
    named = (name,) if name in OF_PAPERS else paper.figures
    if named:
        return {figure: (figure, FIGURES[figure]()) for figure in named}
    own = Trajectories(paper.claims)
    return {OWN: (paper.name, own)} if own.experiments else {}


def reproduce(
    name: str,
    paper: Paper,
    *,
    plan: Plan,
    runs: Path,
    out: Path,
    data_dir: Path | None,
    jobs: int,
    venue: str,
    progress: Callable[[int, int, str], None] = lambda *_: None,
) -> Result:
    """Train the missing runs and draw; with ``jobs=0``, only draw. Results that are up to date are kept.

    ``name`` is one of the paper's figures or ``claims``. Any other name selects the whole paper. ``progress`` gets
    (done, total, name) of the figures and claims.
    """
    from faudit.figures.style import Style

    experiments, style, result = experiments_of(name, paper), Style(venue), Result()
    if not jobs:
        must_exist(runs)
    else:
        make_folder(out)  # before training, so that a wrong --out costs nothing
        configs = configs_of(name, paper, plan=plan)
        before = {config.run_id for config in configs if Run(runs / config.run_id).status in ENDED}
        outcome = run_all(configs, runs, data_dir=data_dir, jobs=jobs)
        result.failed, result.left = outcome.failed, outcome.left
        result.made = len({*outcome.done, *outcome.failed} - before)
    table = Table(plan, runs, partial=not jobs or bool(result.left))
    if any(table.again().series(experiment) for experiment in experiments):
        make_folder(out)
        draw(name, paper, table=table, style=style, out=out, result=result, progress=progress)
    else:  # probably a wrong flag: keep the results of an earlier, right call
        told = f"none of its runs is in {runs}. Check --runs, --data, --epochs and --seeds"
        result.absent = f"{paper.name if name in ALL else name}: {told}; the files in {out} are unchanged."
    return result


def draw(
    name: str,
    paper: Paper,
    *,
    table: Table,
    style: Style,
    out: Path,
    result: Result,
    progress: Callable[[int, int, str], None],
) -> None:
    """Draw the figures and write the claims, unless they are up to date."""
    figures, claims = figures_of(name, paper), name not in OF_PAPERS
    total = len(figures) + claims
    progress(0, total, "")
    marks = remembered(out / MARKS)
    before = dict(marks)
    for place, (stem, (told, figure)) in enumerate(figures.items()):
        progress(place, total, told)
        files = [out / f"{stem}.{form}" for form in (*FORMATS, "json")]
        found = table.again()
        state = drawn_from(found, figure.experiments, style.venue)
        if marks.get(stem) != state or not all(path.exists() for path in files):
            if not attempt(told, figure, found, style=style, paths=files[: len(FORMATS)], result=result):
                if marks.pop(stem, None):  # made by an earlier call with another plan: it would look current
                    for path in files:
                        path.unlink(missing_ok=True)
                continue
            marks[stem] = state
        result.files += files
    if claims:
        progress(total - 1, total, "claims")
        files = [out / "claims.md", out / "claims.json", out / "claims.tex"]
        found = table.again(partial=False)
        state = drawn_from(found, experiments_of("claims", paper), style.venue)
        if marks.get("claims") != state or not all(path.exists() for path in files):
            write_claims(paper, found, out=out, result=result)
            marks["claims"] = state
        result.files += files
    if marks != before:
        write_json(out / MARKS, marks)


def attempt(name: str, figure: Figure, table: Table, *, style: Style, paths: list[Path], result: Result) -> bool:
    """Draw one figure and return whether it worked. A failure is recorded and the others are still drawn."""
    try:
        make(name, figure, table, style=style, paths=paths)
    except StoreError as error:
        (result.remarks if table.partial else result.problems).append(str(error))
        return False
    result.drawn.append(name)
    result.remarks += [f"{name}: {remark}" for remark in table.remarks]
    return True


def write_claims(paper: Paper, table: Table, *, out: Path, result: Result) -> None:
    entries = judged(paper.claims, table)
    head = {"plan": table.plan.to_json(), "rehearsal": not table.plan.is_full}
    write_json(out / "claims.json", {**head, "claims": entries})
    write_text(out / "claims.md", page(paper, entries, plan=table.plan, remarks=table.remarks))
    write_text(out / "claims.tex", tex(paper, entries, plan=table.plan) + "\n")
    result.drawn.append("claims")
    result.remarks += [f"claims: {remark}" for remark in table.remarks]
    for entry in entries:
        result.verdicts[entry["verdict"]] = result.verdicts.get(entry["verdict"], 0) + 1


def drawn_from(table: Table, experiments: Iterable[str], venue: str) -> dict[str, Any]:
    """What a result depends on: version, plan, venue, and each run with the size and time of its rows."""
    series = [one for experiment in experiments for one in table.series(experiment)]
    found = {one.run.name: [one.status, sign(str(one.run.rows_file))] for one in series}
    return {
        "faudit": __version__,
        "plan": table.plan.to_json(),
        "venue": venue,
        "runs": dict(sorted(found.items())),
        "remarks": list(table.remarks),
    }


def remembered(path: Path) -> dict[str, Any]:
    """What the results in a folder were made from; empty if the file is missing or damaged, so all are made again."""
    try:
        marks = json.loads(contents(path))
    except (OSError, ValueError, RecursionError):
        return {}
    return marks if isinstance(marks, dict) else {}


def must_exist(runs: Path) -> None:
    with refusals(runs):
        if not runs.is_dir():
            raise no_store(runs)


def make_folder(out: Path) -> None:
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(f"cannot use {out}: {error.strerror}. Choose another --out.") from error
