"""The published study again: make the runs that are missing, draw the figures, hold the claims against the logs.

Everything is written under one folder: each figure as PDF, SVG and PNG with its numbers as JSON, and ``claims.md`` and
``claims.json``. What they were made from is remembered beside them, so that a second call does nothing.  (no torch)
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from faudit import __version__
from faudit.errors import ConfigError, StoreError
from faudit.figures import FIGURES
from faudit.figures.figure import FORMATS, make
from faudit.figures.table import Table
from faudit.papers.faeval.claims import CLAIMS, judged
from faudit.papers.faeval.experiments import ARMS, Plan
from faudit.papers.page import page
from faudit.registry import unknown
from faudit.store.files import contents, refusals, write_json, write_text
from faudit.store.index import sign
from faudit.store.run import Run, no_store
from faudit.sweep.local import run_all

if TYPE_CHECKING:
    from faudit.figures.style import Style

NAMES = (*FIGURES, "claims", "all")
MARKS = "made-from.json"


@dataclass
class Result:
    """What a reproduction did, for the command line to say."""

    made: int = 0
    failed: dict[str, str] = field(default_factory=dict)
    left: dict[str, str] = field(default_factory=dict)
    files: list[Path] = field(default_factory=list)
    drawn: list[str] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    verdicts: dict[str, int] = field(default_factory=dict)


def arms_of(name: str) -> list[str]:
    """The arms that a figure, or the claims, or everything needs."""
    if name in FIGURES:
        return list(dict.fromkeys(FIGURES[name].arms))
    if name == "claims":
        return list(dict.fromkeys(arm for claim in CLAIMS for part in claim.parts for arm in part.arms))
    if name == "all":
        return list(ARMS)
    raise ConfigError(unknown("study", name, NAMES))


def reproduce(
    name: str, plan: Plan, *, runs: Path, out: Path, data_dir: Path | None, jobs: int, venue: str = "neurips"
) -> Result:
    """Make what is missing and draw; with no jobs, draw what is there. What is up to date is left as it is."""
    from faudit.figures.style import Style

    arms, style, result = arms_of(name), Style(venue), Result()
    if not jobs:
        must_exist(runs)
    make_folder(out)
    if jobs:
        configs = [plan.config(arm, seed) for arm in arms for seed in plan.seeds]
        before = {config.run_id for config in configs if Run(runs / config.run_id).status in ("done", "failed")}
        outcome = run_all(configs, runs, data_dir=data_dir, jobs=jobs)
        result.failed, result.left = outcome.failed, outcome.left
        result.made = len({*outcome.done, *outcome.failed} - before)
    table = Table(plan, runs, partial=not jobs or bool(result.left))
    if any(table.again().series(arm) for arm in arms):
        draw(name, table, style, out=out, result=result)
    else:  # a wrong flag more likely than a study of nothing: it must cost nobody the results of a right one
        told = f"none of its runs is in {runs}. Check --runs, --data, --epochs and --seeds"
        result.problems.append(f"{name}: {told}; what {out} holds is left as it is.")
    return result


def draw(name: str, found: Table, style: Style, *, out: Path, result: Result) -> None:
    """The figures and the claims, where they are not yet what the runs give."""
    marks = remembered(out / MARKS)
    before = dict(marks)
    for figure in (figure for figure in FIGURES if name in (figure, "all")):
        files = [out / f"{figure}.{form}" for form in (*FORMATS, "json")]
        table = found.again()
        state = drawn_from(table, FIGURES[figure].arms, style.venue)
        if marks.get(figure) != state or not all(path.exists() for path in files):
            if not attempt(figure, table, style, files[: len(FORMATS)], result):
                if marks.pop(figure, None):  # it is ours and of another plan: it must not pass for this one's
                    for path in files:
                        path.unlink(missing_ok=True)
                continue
            marks[figure] = state
        result.files += files
    if name in ("claims", "all"):
        files = [out / "claims.md", out / "claims.json"]
        table = found.again(partial=False)
        state = drawn_from(table, arms_of("claims"), style.venue)
        if marks.get("claims") != state or not all(path.exists() for path in files):
            write_claims(table, out, result)
            marks["claims"] = state
        result.files += files
    if marks != before:
        write_json(out / MARKS, marks)


def attempt(figure: str, table: Table, style: Style, paths: list[Path], result: Result) -> bool:
    """Draw one figure; whether it was. One that cannot be drawn is told of, and the others still are."""
    try:
        make(figure, FIGURES[figure](), table, style=style, paths=paths)
    except StoreError as error:
        (result.remarks if table.partial else result.problems).append(str(error))
        return False
    result.drawn.append(figure)
    result.remarks += [f"{figure}: {remark}" for remark in table.remarks]
    return True


def write_claims(table: Table, out: Path, result: Result) -> None:
    entries = judged(table)
    head = {"plan": table.plan.to_json(), "rehearsal": not table.plan.is_full}
    write_json(out / "claims.json", {**head, "claims": entries})
    write_text(out / "claims.md", page(entries, table.plan, table.remarks))
    result.drawn.append("claims")
    for entry in entries:
        result.verdicts[entry["verdict"]] = result.verdicts.get(entry["verdict"], 0) + 1


def drawn_from(table: Table, arms: Iterable[str], venue: str) -> dict[str, Any]:
    """What decides how a result looks: version, plan, and each run with the size and time of its rows."""
    found = {one.run.name: [one.status, sign(str(one.run.rows_file))] for arm in arms for one in table.series(arm)}
    return {
        "faudit": __version__,
        "plan": table.plan.to_json(),
        "venue": venue,
        "runs": dict(sorted(found.items())),
        "remarks": list(table.remarks),
    }


def remembered(path: Path) -> dict[str, Any]:
    """What the results in a folder were made from; nothing where that is absent or cut: then they are made again."""
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
