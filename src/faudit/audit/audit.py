"""Audit runs: find the matched control of each run in its store, measure what is missing, judge.

The control of a run is the same run with blocks frozen at their initial weights. The rule still teaches the embedding.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from faudit.audit import watched
from faudit.audit.checks.check import Case, Control
from faudit.audit.judge import Verdict, judge
from faudit.audit.protocol import Protocol
from faudit.config import RunConfig, identity
from faudit.errors import ConfigError, StoreError
from faudit.probes import PROBES
from faudit.registry import declared
from faudit.rules import RULES, control_name
from faudit.store import answers, audits
from faudit.store.audits import Facts, KeptAudit
from faudit.store.rows import Row
from faudit.store.run import ENDED, Run, Status, runs_in
from faudit.store.watched import WatchedConfig


@dataclass(frozen=True)
class Audited:
    """One run with its case and its verdict."""

    run: Run
    config: RunConfig
    case: Case
    verdict: Verdict
    remarks: tuple[str, ...] = ()  # notes on how the run was measured

    def __repr__(self) -> str:
        return f"Audited({self.run.name!r}: {self.verdict.headline})"

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


Key = tuple[tuple[Any, ...], int, int]  # what identifies a control


class ControlIndex:
    """The runs of a store by the settings that identify a control; each configuration is read once."""

    def __init__(self, store: Path) -> None:
        self._found: dict[Key, list[Run]] = {}
        for run in runs_in(store):
            with suppress(StoreError):  # a damaged run cannot be a control
                self._add(run, run.config())

    @classmethod
    def of(cls, runs: Iterable[tuple[Run, RunConfig]]) -> ControlIndex:
        """An index of runs whose configurations are known."""
        index = cls.__new__(cls)
        index._found = {}
        for run, config in runs:
            index._add(run, config)
        return index

    def _add(self, run: Run, config: RunConfig) -> None:
        self._found.setdefault(key(config), []).append(run)

    def candidates(self, config: RunConfig) -> list[Run]:
        """The runs with the settings of the matched control, finished or not."""
        wanted = control_key(config)
        return self._found.get(wanted, []) if wanted else []

    def control(self, config: RunConfig) -> Control | None:
        """The matched control. One is enough, because others of the same seed are copies of it with other logging."""
        for run in self.candidates(config):
            with suppress(StoreError, LookupError):
                history = {row["epoch"]: row["test_acc"] for row in run.rows() if row.get("test_acc") is not None}
                if run.status == Status.DONE and history:
                    return Control(run.name, run.rows()[-1]["test_acc"], history, right=answers.of(run))
        return None


def key(config: RunConfig) -> Key:
    return identity(config), config.seed, config.epochs


@lru_cache(maxsize=10_000)
def control_key(config: RunConfig) -> Key | None:
    """The key of the matched control; None for a rule that has no control, or whose file is not here."""
    try:
        return key(control_of(config))
    except ConfigError:
        return None


def audit(run: Run, protocol: Protocol, *, data_dir: Path | None, beside: ControlIndex | None = None) -> Audited:
    """The verdict on one run; its control is searched in ``beside``, by default in the run's own store.

    The results of the costly probes are kept in the run's directory, so a second audit measures nothing.
    """
    config, rows = ended(run)
    if isinstance(config, WatchedConfig):
        return audited_loop(run, config, rows, protocol=protocol)
    kept, remarks = measured(run, config, rows[-1], data_dir=data_dir)
    control = (beside or ControlIndex(run.path.parent)).control(config)
    return judged(run, config, rows, kept=kept, control=control, protocol=protocol, remarks=remarks)


def audit_kept(run: Run, protocol: Protocol, *, control: Control | None) -> Audited:
    """The verdict that follows from the rows and the kept measurements alone; measures nothing and imports no torch."""
    config, rows = ended(run)
    if isinstance(config, WatchedConfig):
        return audited_loop(run, config, rows, protocol=protocol)
    kept, problem = audits.read(run) if run.status == Status.DONE else (KeptAudit(), "")
    wanted = {name: PROBES.declared(name).version for name in lacking(rows[-1])}
    fresh = [name for name, version in wanted.items() if kept.versions.get(name) == version]
    kept = replace(kept.of(fresh), known=kept.known or declared_facts(config, rows[-1]))
    remarks = [problem.removesuffix(" It is measured again.")] if problem else []
    return judged(run, config, rows, kept=kept, control=control, protocol=protocol, remarks=remarks)


def judged_again(run: Run, protocol: Protocol, *, beside: ControlIndex) -> Audited | None:
    """The verdict on a finished run by what an earlier audit kept; None if the run was not audited."""
    if run.status != Status.DONE or audits.read(run)[0].known is None:
        return None
    return audit_kept(run, protocol, control=beside.control(run.config()))


def audited_loop(run: Run, config: WatchedConfig, rows: Sequence[Row], *, protocol: Protocol) -> Audited:
    """The verdict on a watched loop, by what was measured while it was watched."""
    case, remarks = watched.found(run, config, rows)
    return Audited(run, config, case, watched.judged(case, protocol), tuple(remarks))


def ended(run: Run) -> tuple[RunConfig, list[Row]]:
    """The configuration and the rows of a run that can be judged; raises if it has not ended or has no rows."""
    config = run.config()
    must_have_ended(run)
    rows = run.rows()
    if not rows:
        raise StoreError(f"{run.path} has no rows to judge. Delete it and train it again.")
    return config, rows


def judged(
    run: Run,
    config: RunConfig,
    rows: Sequence[Row],
    *,
    kept: KeptAudit,
    control: Control | None,
    protocol: Protocol,
    remarks: Sequence[str],
) -> Audited:
    """The verdict on a run whose measurements are known."""
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
        right=answers.of(run),
    )
    return Audited(run, config, case, judge(case, protocol), tuple(remarks))


def must_have_ended(run: Run) -> None:
    """Refuse a run that is still training or was stopped."""
    if run.status not in ENDED:
        raise StoreError(
            f"{run.path} is {run.status}: a verdict needs a finished run. Run its `faudit train` command again."
        )


def declared_facts(config: RunConfig, row: Row) -> Facts:
    """The facts that a verdict needs besides the rows, read from the source of the rule; raises for an older row."""
    sizes = {name: row.get(name) for name in ("test_samples", "classes", "eval_samples")}
    if None in sizes.values():
        raise StoreError("Its rows are of an older faudit and lack the size of the test set")
    if config.rule not in tuple(RULES):  # code of the user, which is run only for an audit
        raise StoreError("Its rule is not part of faudit, so only an audit knows its facts")
    own = RULES.source(config.rule)[1]
    reasons: dict[str, str | None] = dict.fromkeys(("no_control", "no_credit"))
    for name in reasons:
        with suppress(KeyError):
            reasons[name] = declared(own, name)
    return Facts(trains_blocks=config.rule != control_name(config.rule), **reasons, **sizes)  # type: ignore[arg-type]  # checked


def measured(run: Run, config: RunConfig, row: Row, *, data_dir: Path | None) -> tuple[KeptAudit, list[str]]:
    """The probes that a row lacks, with facts of the run: read from the kept audit or measured now; and remarks.

    A failed run cannot be measured, and a log without weights only has what was kept; other entries stay missing.
    """
    wanted = {name: PROBES.declared(name).version for name in lacking(row)}
    if run.status != Status.DONE or not run.checkpoint.exists():
        return without_weights(run, config, row, wanted=wanted, data_dir=data_dir)
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


def without_weights(
    run: Run, config: RunConfig, row: Row, *, wanted: Mapping[str, int], data_dir: Path | None
) -> tuple[KeptAudit, list[str]]:
    """What an earlier audit kept of a run whose weights are gone, with the facts of the run; and remarks."""
    kept, problem = audits.read(run) if run.status == Status.DONE else (KeptAudit(), "")
    usable = [name for name, version in wanted.items() if kept.versions.get(name) == version]
    remarks = [problem.removesuffix(" It is measured again.")] if problem else []
    if run.status == Status.DONE and len(usable) < len(wanted):
        lost = "an imported run has no weights" if run.is_imported else f"{run.checkpoint} is missing"
        remarks.append(f"{lost}: what only the weights can tell is not measured")
    if kept.known is None:
        from faudit.audit.measure import facts_of

        kept = KeptAudit(known=facts_of(config, row, data_dir=data_dir))
    return kept.of(usable), remarks


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


def case_of(
    config: RunConfig,
    rows: Sequence[Row],
    *,
    samples: int,
    classes: int,
    control: Control | None,
    right: str | None = None,
) -> Case:
    """The case of a run, with the facts that its rule declares."""
    rule = RULES[config.rule]
    controls = (control,) if control else ()
    facts = {name: getattr(rule, name) for name in ("trains_blocks", "no_control", "no_credit")}
    return Case(config, rows, samples, classes, controls, **facts, right=right)
