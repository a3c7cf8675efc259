"""Runs → cases → verdicts: find each run's matched controls in its store, measure what is missing, judge.

The control of a run is the same run with blocks frozen at their initialisation and the embedding taught as the rule
teaches it.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from faudit.audit.checks.check import Case, Control
from faudit.audit.judge import INCONCLUSIVE, TRUSTWORTHY, WALK_BACK, Verdict, judge
from faudit.audit.protocol import Protocol
from faudit.config import RunConfig, default, identity
from faudit.errors import StoreError
from faudit.probes import PROBES
from faudit.rules import RULES, control_name
from faudit.store import audits
from faudit.store.audits import KeptAudit
from faudit.store.rows import Row
from faudit.store.run import ENDED, Run, Status, runs_in

EXIT_CODES = {TRUSTWORTHY: 0, WALK_BACK: 1, INCONCLUSIVE: 3}


@dataclass(frozen=True)
class Audited:
    """One run as the checks saw it, with its verdict."""

    run: Run
    config: RunConfig
    case: Case
    verdict: Verdict
    remarks: tuple[str, ...] = ()  # what a reader of the verdict must know of how it was measured

    def to_json(self) -> dict[str, Any]:
        return {"run": str(self.run.path), "rule": self.config.rule, "seed": self.config.seed, **self.verdict.to_json()}


def control_of(config: RunConfig) -> RunConfig:
    """The matched run whose blocks never train."""
    # The penalty and the clip act on branches that do not train; labels are the real ones, whatever the run was fed.
    plain = {"penalty": 0.0, "clip": default("clip"), "random_targets": False}
    logged = {"keep_epochs": (), "probe_epochs": (), "log_every": 1}
    return config.with_(rule=control_name(config.rule), **plain, **logged)


class ControlIndex:
    """The finished runs of a store by what makes one the control of another; each configuration is read once."""

    def __init__(self, store: Path) -> None:
        self._found: dict[tuple[Any, ...], list[Run]] = {}
        for run in runs_in(store):
            with suppress(StoreError):  # a damaged neighbour is no control
                self._found.setdefault(key(run.config()), []).append(run)

    def control(self, config: RunConfig) -> Control | None:
        """The matched frozen run: one, since others of the same seed are copies of it, however they were logged."""
        for run in self._found.get(key(control_of(config)), []):
            with suppress(StoreError, LookupError):
                history = {row["epoch"]: row["test_acc"] for row in run.rows() if row.get("test_acc") is not None}
                if run.status == Status.DONE:
                    return Control(run.name, run.rows()[-1]["test_acc"], history)
        return None


def key(config: RunConfig) -> tuple[Any, ...]:
    return (*identity(config), config.seed, config.epochs)


def audit(run: Run, protocol: Protocol, *, data_dir: Path | None, beside: ControlIndex | None = None) -> Audited:
    """The verdict on one run; its control is looked for beside it.

    What the costly probes measured is kept in the run's directory: a second audit measures nothing.
    """
    config = run.config()
    if run.status not in ENDED:
        raise StoreError(f"{run.path} is {run.status}: a verdict needs a finished run. Give its `faudit train` again.")
    rows = run.rows()
    if not rows:
        raise StoreError(f"{run.path} has no rows: there is nothing to judge. Delete it and train it again.")
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
    )
    return Audited(run, config, case, judge(case, protocol), tuple(remarks))


def measured(run: Run, config: RunConfig, row: Row, *, data_dir: Path | None) -> tuple[KeptAudit, list[str]]:
    """What a row lacks of the probes, and facts of the run: as kept, or measured now and kept; and remarks.

    A failed run, or a log without weights, has nothing to measure on: what was not measured stays so.
    """
    if run.status != Status.DONE or not run.checkpoint.exists():
        from faudit.audit.measure import facts_of

        return KeptAudit(known=facts_of(config, row, data_dir=data_dir)), []
    wanted = {name: PROBES.declared(name).version for name in lacking(row)}
    kept, problem = audits.read(run)
    stale = [name for name, version in wanted.items() if kept.versions.get(name) != version]
    remarks = [problem] if problem else []
    if any(name in kept.versions for name in stale):
        remarks.append(f"{run.name}: {', '.join(stale)} changed since it was audited, and is measured again")
    if stale or kept.known is None:
        from faudit.audit.measure import measure

        kept = kept.with_(measure(run, config, stale, data_dir=data_dir), versions=wanted)
        try:
            audits.write(run, kept)
        except StoreError as error:  # a store that may only be read: the verdict is none the worse for it
            remarks.append(f"what was measured is not kept: {error}")
    return kept.of(wanted), remarks


def lacking(row: Row) -> list[str]:
    """The probes of which a row does not hold every entry.

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
    """A run as the checks see it, with what its rule says of itself."""
    rule = RULES[config.rule]
    controls = (control,) if control else ()
    return Case(config, rows, samples, classes, controls, trains_blocks=rule.trains_blocks, no_control=rule.no_control)
