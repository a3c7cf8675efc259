"""The case of a watched run: what its rows, kept measurements and attached controls tell.

faudit does not know the model's class, so it measures nothing again. It judges what was measured while watching.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from faudit.audit.checks.check import FRESH, TURNED, Case, Control
from faudit.audit.judge import Verdict, judge, of_network
from faudit.audit.protocol import Protocol
from faudit.store import audits, controls
from faudit.store.rows import Row
from faudit.store.run import Run
from faudit.store.watched import WatchedConfig

LIGHT = "it was watched with light=True, which leaves the costly probes out"
NULLS = {"none": None, "turned": TURNED, "fresh": FRESH}


def case_of(
    config: WatchedConfig, rows: Sequence[Row], *, kept: Mapping[str, Any], accuracies: Sequence[float]
) -> Case:
    """The case of a watched run as of its last row."""
    last = Row(rows[-1] | dict(kept) | {"null_of": NULLS[config.credit]})
    frozen = [Control(f"control {place}", accuracy) for place, accuracy in enumerate(accuracies)]
    samples, classes = rows[0]["eval_samples"], rows[0]["classes"]
    return Case(config, [*rows[:-1], last], samples=samples, classes=classes, frozen=frozen)


def judged(case: Case, protocol: Protocol) -> Verdict:
    """The verdict on a watched run."""
    verdict = judge(case, protocol)
    if isinstance(case.config, WatchedConfig) and case.config.measures == "light":
        verdict = replace(verdict, reasons=(*verdict.reasons, LIGHT))
    return verdict if case.null_of is not None else of_network(verdict)


def found(run: Run, config: WatchedConfig, rows: Sequence[Row]) -> tuple[Case, list[str]]:
    """The case of a watched run from its files, and remarks."""
    kept: Mapping[str, Any] = {}
    remarks = []
    if (run.path / audits.FILE).exists():
        audit, problem = audits.read(run)
        kept = {} if problem else audit.row
        remarks = [problem.replace("It is measured again.", "What it held is not judged.")] if problem else []
    return case_of(config, rows, kept=kept, accuracies=controls.read(run)), remarks
