"""Audit runs: find the matched control of each run in its store, measure what is missing, judge.

The control of a run is the same run with blocks frozen at their initial weights. The rule still teaches the embedding.
"""

from __future__ import annotations

import html
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from faudit.audit.checks.check import Case, Control
from faudit.audit.judge import Verdict, judge
from faudit.audit.protocol import Protocol
from faudit.config import RunConfig, identity
from faudit.errors import StoreError
from faudit.probes import PROBES
from faudit.rules import RULES, control_name
from faudit.store import audits
from faudit.store.audits import KeptAudit
from faudit.store.rows import Row
from faudit.store.run import ENDED, Run, Status, runs_in


@dataclass(frozen=True)
class Audited:
    """One run with its case and its verdict."""

    run: Run
    config: RunConfig
    case: Case
    verdict: Verdict
    remarks: tuple[str, ...] = ()  # notes on how the run was measured

    def __repr__(self) -> str:
        return f"Audited({self.run.name!r}: {self.verdict.verdict})"

    def __str__(self) -> str:
        return f"{self.run.name}: {self.verdict}"

    def _repr_html_(self) -> str:
        notes = "".join(f"<br>{html.escape(remark)}" for remark in self.remarks)
        return f"<p>{html.escape(self.run.name)}{notes}</p>{self.verdict._repr_html_()}"

    def to_json(self) -> dict[str, Any]:
        return {"run": str(self.run.path), "rule": self.config.rule, "seed": self.config.seed, **self.verdict.to_json()}


def control_of(config: RunConfig) -> RunConfig:
    """The matched run whose blocks never train."""
    # Penalty and clip would act on branches that do not train. A control always trains on the real labels.
    branches = {"penalty": 0.0, "clip": config.defaults.get("clip")}
    plain = {name: value for name, value in branches.items() if name in config.defaults}
    logged = {"keep_epochs": (), "probe_epochs": (), "log_every": 1}
    return config.with_(rule=control_name(config.rule), random_targets=False, train_last=0, **plain, **logged)


class ControlIndex:
    """The runs of a store by the settings that identify a control; each configuration is read once."""

    def __init__(self, store: Path) -> None:
        self._found: dict[tuple[Any, ...], list[Run]] = {}
        for run in runs_in(store):
            with suppress(StoreError):  # a damaged run cannot be a control
                self._found.setdefault(key(run.config()), []).append(run)

    def control(self, config: RunConfig) -> Control | None:
        """The matched control. One is enough, because others of the same seed are copies of it with other logging."""
        for run in self._found.get(key(control_of(config)), []):
            with suppress(StoreError, LookupError):
                history = {row["epoch"]: row["test_acc"] for row in run.rows() if row.get("test_acc") is not None}
                if run.status == Status.DONE and history:
                    return Control(run.name, run.rows()[-1]["test_acc"], history)
        return None


def key(config: RunConfig) -> tuple[Any, ...]:
    return (*identity(config), config.seed, config.epochs)


def audit(run: Run, protocol: Protocol, *, data_dir: Path | None, beside: ControlIndex | None = None) -> Audited:
    """The verdict on one run; its control is searched in ``beside``, by default in the run's own store.

    The results of the costly probes are kept in the run's directory, so a second audit measures nothing.
    """
    config = run.config()
    if run.status not in ENDED:
        raise StoreError(
            f"{run.path} is {run.status}: a verdict needs a finished run. Run its `faudit train` command again."
        )
    rows = run.rows()
    if not rows:
        raise StoreError(f"{run.path} has no rows to judge. Delete it and train it again.")
    kept, remarks = measured(run, config, rows[-1], data_dir=data_dir)
    control = (beside or ControlIndex(run.path.parent)).control(config)
    facts = kept.facts
    case = Case(
        config,
        [*rows[:-1], Row(rows[-1] | kept.row)],
        samples=facts.test_samples,
        classes=facts.classes,
        frozen=(control,) if control else (),
        trains_blocks=facts.trains_blocks,
        no_control=facts.no_control,
        no_credit=facts.no_credit,
    )
    return Audited(run, config, case, judge(case, protocol), tuple(remarks))


def measured(run: Run, config: RunConfig, row: Row, *, data_dir: Path | None) -> tuple[KeptAudit, list[str]]:
    """The probes that a row lacks, with facts of the run: read from the kept audit or measured now; and remarks.

    A failed run or a log without weights cannot be measured; its missing entries stay missing.
    """
    if run.status != Status.DONE or not run.checkpoint.exists():
        from faudit.audit.measure import facts_of

        lost = run.status == Status.DONE and lacking(row)
        remarks = [f"{run.checkpoint} is missing: what only the weights can tell is not measured"] if lost else []
        return KeptAudit(known=facts_of(config, row, data_dir=data_dir)), remarks
    wanted = {name: PROBES.declared(name).version for name in lacking(row)}
    kept, problem = audits.read(run)
    stale = [name for name, version in wanted.items() if kept.versions.get(name) != version]
    remarks = [problem] if problem else []
    if any(name in kept.versions for name in stale):
        remarks.append(
            f"{run.name}: measured again, because these probes changed since the last audit: {', '.join(stale)}"
        )
    if stale or kept.known is None:
        from faudit.audit.measure import measure

        kept = kept.with_(measure(run, config, stale, data_dir=data_dir), versions=wanted)
        try:
            audits.write(run, kept)
        except StoreError as error:  # a read-only store; the verdict is still valid
            remarks.append(f"the measurements were not kept: {error}")
    return kept.of(wanted), remarks


def lacking(row: Row) -> list[str]:
    """The probes with an entry that is missing in a row.

    A row from before the entry ``fitted`` counted fitted samples in Γ, ρ and nudging. There every probe that judges the
    credit is measured again, so that Γ and its null are over the same samples.
    """
    declared = {name: PROBES.declared(name) for name in PROBES}
    is_older = "fitted" not in row
    return [
        name
        for name, probe in declared.items()
        if (is_older and "credit" in probe.needs) or any(entry.name not in row for entry in probe.entries)
    ]


def case_of(config: RunConfig, rows: Sequence[Row], *, samples: int, classes: int, control: Control | None) -> Case:
    """The case of a run, with the facts that its rule declares."""
    rule = RULES[config.rule]
    controls = (control,) if control else ()
    facts = {name: getattr(rule, name) for name in ("trains_blocks", "no_control", "no_credit")}
    return Case(config, rows, samples, classes, controls, **facts)
