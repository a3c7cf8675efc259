"""The published study again: make the runs that are missing, draw the figures, hold the claims against the logs.

Everything is written under one folder: each figure as PDF, SVG and PNG with its numbers as JSON, and ``claims.md`` and
``claims.json``. What they were made from is remembered beside them, so that a second call does nothing.  (no torch)
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from faudit import __version__
from faudit.arms import ARMS, Plan
from faudit.claims import CLAIMS, judged
from faudit.claims_page import page
from faudit.errors import ConfigError, StoreError
from faudit.figures import FIGURES
from faudit.figures.figure import FORMATS, make
from faudit.figures.table import Table
from faudit.registry import unknown
from faudit.store import Run, write_json, write_whole
from faudit.sweep.local import run_all

NAMES = (*FIGURES, "claims", "all")


@dataclass
class Result:
    """What a reproduction did, for the command line to say."""

    made: int = 0
    finished: int = 0
    failed: dict[str, str] = field(default_factory=dict)
    left: dict[str, str] = field(default_factory=dict)
    files: list[Path] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    verdicts: dict[str, int] = field(default_factory=dict)
    nothing_to_do: bool = False


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
    """Make what is missing and draw; with no jobs, draw what is there."""
    arms = arms_of(name)
    configs = list({(c := plan.config(arm, seed)).run_id: c for arm in arms for seed in plan.seeds}.values())
    result = Result()
    if jobs:
        before = {config.run_id for config in configs if Run(runs / config.run_id).status in ("done", "failed")}
        outcome = run_all(configs, runs, data_dir=data_dir, jobs=jobs)
        result.failed, result.left = outcome.failed, outcome.left
        result.finished = len(outcome.done) + len(outcome.failed)
        result.made = result.finished - len(before)
    figures = [figure for figure in FIGURES if name in (figure, "all")]
    state = drawn_from(Table(plan, runs, partial=True), arms, venue)
    mark = out / f"reproduced-{name}.json"
    result.files = [out / f"{figure}.{form}" for figure in figures for form in (*FORMATS, "json")]
    if name in ("claims", "all"):
        result.files += [out / "claims.md", out / "claims.json"]
    if not result.made and remembered(mark) == state and all(path.exists() for path in result.files):
        result.nothing_to_do = True
        return result
    make_folder(out)
    partial = not jobs or bool(result.left)
    for figure in figures:
        result.remarks += draw(figure, Table(plan, runs, partial=partial), out, venue)
    if name in ("claims", "all"):
        entries = judged(table := Table(plan, runs, partial=partial))
        write_json(out / "claims.json", {"plan": state["plan"], "rehearsal": not plan.is_full, "claims": entries})
        write_whole(out / "claims.md", page(entries, plan, table.remarks).encode())
        for entry in entries:
            result.verdicts[entry["verdict"]] = result.verdicts.get(entry["verdict"], 0) + 1
    result.files = [path for path in result.files if path.exists()]
    write_json(mark, state)
    return result


def draw(figure: str, table: Table, out: Path, venue: str) -> list[str]:
    """One figure in every format; with a partial table, a figure that has no run at all is only told of."""
    from faudit.figures.style import Style

    try:
        make(figure, FIGURES[figure](), table, style=Style(venue), paths=[out / f"{figure}.{form}" for form in FORMATS])
    except StoreError as error:
        if not table.partial:
            raise
        return [str(error)]
    return [f"{figure}: {remark}" for remark in table.remarks]


def drawn_from(table: Table, arms: Iterable[str], venue: str) -> dict[str, Any]:
    """What decides how the result looks: version, plan, and each run with its number of rows."""
    sizes = {one.run.name: [one.status, len(one.rows)] for arm in arms for one in table.series(arm)}
    plan = {"data": table.plan.data, "epochs": table.plan.epochs, "seeds": list(table.plan.seeds)}
    return {"faudit": __version__, "plan": plan, "venue": venue, "runs": dict(sorted(sizes.items()))}


def remembered(mark: Path) -> Any:
    try:
        return json.loads(mark.read_bytes())
    except (OSError, ValueError):  # absent or cut: then it is drawn again
        return None


def make_folder(out: Path) -> None:
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(f"cannot use {out}: {error.strerror}. Choose another --out.") from error
