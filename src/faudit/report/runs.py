"""What the page shows of one run: settings, environment, last numbers, verdict with findings, and its series."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Any

from faudit.audit.audit import Audited, audit_kept
from faudit.audit.checks.check import INVALID, NOT_MEASURED, PASSED, UNDECIDED, Control, Finding
from faudit.audit.judge import TRUSTWORTHY, WALK_BACK, Verdict
from faudit.audit.protocol import Protocol
from faudit.config import RunConfig, command
from faudit.errors import StoreError
from faudit.report.growing import Growing, growing
from faudit.report.series import Columns, columns, rounded_all
from faudit.rules import RULES
from faudit.store import answers
from faudit.store.rows import Row, growth
from faudit.store.run import ENDED, IMPORTED, Run, Status
from faudit.store.summary import summary
from faudit.store.watched import WatchedConfig

NOT_AUDITED, UNFINISHED, DAMAGED = "not audited", "unfinished", "damaged"
OPEN = (NOT_MEASURED, UNDECIDED, INVALID)


@dataclass(frozen=True, eq=False)  # an object of its own: a page that was read again is another one
class Page:
    """One run on the page. ``verdict`` is None if the run cannot be judged; ``document`` says why."""

    name: str
    config: RunConfig | None  # None for a damaged run
    verdict: Verdict | None
    document: dict[str, Any]
    series: Columns
    last: Mapping[str, Any]  # the last numbers, not rounded, so that a spread over seeds is exact
    overview: Mapping[str, Any]  # what ``--where`` asks about, as in ``faudit show --json``
    growing: Growing | None = None  # the rows of a run that has not ended, to which the next look adds


def read(
    run: Run,
    protocol: Protocol,
    *,
    control: Control | None,
    config: RunConfig | None = None,
    status: Status | None = None,
    before: Page | None = None,
) -> Page:
    """What the page shows of a run. A damaged run is shown as damaged, with the problem.

    Configuration and status are read if the caller does not know them. ``before`` is what an earlier look found: of a
    run that has not ended, only the rows that came since are read.
    """
    try:
        config, status = config or run.config(), status or run.status
        grown = None if status in ENDED else growing(run, before.growing if before else None)
        rows = run.rows() if grown is None else grown.rows
        outcome, environment = run.outcome() or {}, run.environment()
    except StoreError as error:
        return damaged(run, str(error))
    audited: Audited | None = None
    told = ""
    if status not in ENDED:
        word, sentence = UNFINISHED, f"The run is {status} at epoch {last_epoch(rows)} of {config.epochs}."
    else:
        try:
            audited = audit_kept(run, protocol, control=control)
            word, sentence = audited.verdict.verdict, reason_of(audited)
            told = " ".join(audited.remarks)
        except StoreError as error:
            word, sentence = NOT_AUDITED, f"{error}. Run `faudit audit {run.name}`."
    shown = list(audited.case.rows) if audited else rows
    last = shown[-1] if shown else Row()
    totals = summary(rows)
    numbers = last_numbers(totals, last)
    document = {
        "name": run.name,
        "id": config.run_id,
        "seed": config.seed,
        "rule": config.rule,
        "status": status.value,
        "imported": IMPORTED in environment,
        "config": {name: list(value) if type(value) is tuple else value for name, value in config.to_json().items()},
        "environment": {name: source_of(value) if name == IMPORTED else value for name, value in environment.items()},
        "outcome": {name: value for name, value in outcome.items() if name not in ("rows", "run_id", answers.KEY)},
        "command": command(config, runs=str(run.path.parent))
        if config.rule in RULES and not is_watched(config)
        else "",
        "last": numbers,
        "verdict": word,
        "headline": short(audited.verdict.headline) if audited else word,
        "sentence": sentence,
        "remarks": told,
        "reasons": list(audited.verdict.reasons) if audited else [],
        "findings": [finding.to_json() for finding in audited.verdict.findings] if audited else [],
        "labels": [finding.to_json() for finding in audited.verdict.labels] if audited else [],
        "measured_later": sorted(last.keys() - rows[-1].keys()) if rows else [],  # by an audit, on the checkpoint
    }
    verdict = audited.verdict if audited else None
    overview = {"run": str(run.path), "run_id": config.run_id, "status": status.value, **totals}
    overview["config"] = document["config"]
    series = columns(shown) if grown is None else grown.series
    return Page(run.name, config, verdict, rounded_all(document), series, numbers, overview, grown)


def damaged(run: Run, problem: str) -> Page:
    """A run that cannot be read."""
    document = {"name": run.name, "status": DAMAGED, "verdict": DAMAGED, "headline": DAMAGED, "sentence": problem}
    return Page(run.name, None, None, document, {}, {}, {})


def last_epoch(rows: Sequence[Row]) -> int:
    return int(rows[-1]["epoch"]) if rows else 0


def last_numbers(totals: Mapping[str, Any], last: Row) -> dict[str, Any]:
    """The numbers of the tables. A run that has not been tested at its last epoch has no test accuracy there."""
    return {
        "epoch": totals["epochs"],
        "test_acc": last.get("test_acc"),
        "acc_eval": last.get("acc_eval"),
        "loss_eval": last.get("loss_eval"),
        "growth": growth(last.get("hidden_norms") or []),
        "hidden_norm": (last.get("hidden_norms") or [None])[-1],
        "grad_norm": (last.get("grad_norms") or [None])[-1],
        "gamma": deep_mean(last.get("gamma")),
        **null_of(last),
        "seconds": totals["seconds"],
    }


def deep_mean(values: Sequence[float | None] | None) -> float | None:
    """The mean over the deep blocks (l ≥ 1; the only block of a net with one); None if one of them has no value."""
    deep = list(values or [])[1:] or list(values or [])
    known = [value for value in deep if value is not None]
    return fmean(known) if known and len(known) == len(deep) else None


def null_of(row: Row) -> dict[str, Any]:
    """Mean and standard deviation of the deep Γ under fresh feedback; only the mean if the draws were not kept."""
    draws = row.get("gamma_null_draws")
    if not draws or not all(draws):
        none = draws is not None and not any(draws)  # measured, but there is no feedback to draw
        return {"null_mean": deep_mean(row.get("gamma_null_mean")), "null_std": None, "null_none": none}
    found = [deep_mean(draw) for draw in zip(*draws, strict=True)]
    means = [value for value in found if value is not None and math.isfinite(value)]
    return {
        "null_mean": fmean(means) if means else None,
        "null_std": stdev(means) if len(means) > 1 else None,
        "null_none": False,
    }


def is_watched(config: RunConfig) -> bool:
    """Whether a run is of a loop that faudit only watched: it cannot be trained or measured again."""
    return isinstance(config, WatchedConfig)


def source_of(origin: Any) -> Any:
    """Where an imported run comes from, without the entries of its file, which are its rows."""
    return {key: origin[key] for key in ("file", "log", "sha256") if key in origin} if type(origin) is dict else origin


def reason_of(audited: Audited) -> str:
    """The reason of a verdict in one plain sentence."""
    verdict = audited.verdict
    if verdict.verdict == TRUSTWORTHY:
        passed = sum(finding.status == PASSED for finding in verdict.findings)
        others = len(verdict.findings) - passed
        tail = f"; {others} {'does' if others == 1 else 'do'} not apply" if others else ""
        limits = f"{verdict.covers[:1].upper()}{verdict.covers[1:]}. " if verdict.covers else ""
        return f"{limits}{passed} {'check' if passed == 1 else 'checks'} passed{tail}."
    if verdict.verdict == WALK_BACK:
        fired = [finding for finding in verdict.findings if finding.status == "fired"]
        return sentence_of(fired[0], len(fired) - 1, "also fired")
    found = [finding for finding in verdict.findings if finding.status in OPEN]
    unmeasured = [finding for finding in found if finding.status == NOT_MEASURED]
    if len(unmeasured) > 1:
        names = ", ".join(finding.check for finding in unmeasured)
        count = f"{len(unmeasured)} of {len(verdict.findings)} checks were not measured ({names})"
        if audited.run.is_imported:
            return f"{count}: the run was imported without its weights."
        return f"{count}." if is_watched(audited.config) else f"{count}: run `faudit audit {audited.run.name}`."
    return sentence_of(found[0], len(found) - 1, "also open")


def short(headline: str) -> str:
    """A headline for a badge: ``trustworthy (network only)``. The sentence beside it says the rest."""
    return re.sub(r": [^)]*\)", ")", headline)


def sentence_of(finding: Finding, more: int, what: str) -> str:
    """The reason of a finding as a sentence that names the check."""
    reason = finding.reason[:1].upper() + finding.reason[1:].rstrip(".")
    tail = f" ({finding.check}; {more} more {what})" if more else f" ({finding.check})"
    return f"{reason}{tail}."


def number(value: Any) -> float | None:
    """A number of a document as a float; None if it is missing or not finite."""
    found = None if value is None else float(value)
    return found if found is not None and math.isfinite(found) else None
