"""Runs → a tidy table: for each arm of the study, the rows of each seed.  (no torch)

A run belongs to an arm when everything that decides what was trained is the same. Where the plan leaves the number of
epochs open, an arm takes the runs that are as long as the study's, or else the longest that are shorter: then the
figure says so. An imported log counts whatever its length: nobody can make it longer.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from faudit.arms import Plan, command, identity
from faudit.config import RunConfig
from faudit.errors import StoreError
from faudit.rows import Row
from faudit.store import Run, runs_in


@dataclass(frozen=True)
class Series:
    """One run as a figure sees it: its seed and its rows."""

    run: Run
    config: RunConfig

    @property
    def seed(self) -> int:
        return self.config.seed

    @cached_property
    def rows(self) -> list[Row]:
        return self.run.rows()

    @cached_property
    def status(self) -> str:
        return self.run.status

    @property
    def imported(self) -> bool:
        return self.run.name.startswith("imported-")


@dataclass
class Table:
    """The runs of a store by arm, under a plan. ``remarks`` collects what a reader of the result must know."""

    plan: Plan
    runs: Path
    partial: bool = False
    remarks: list[str] = field(default_factory=list)

    @cached_property
    def _known(self) -> dict[tuple[object, ...], list[Series]]:
        known: dict[tuple[object, ...], list[Series]] = {}
        for run in runs_in(self.runs) if self.runs.is_dir() else []:
            try:
                series = Series(run, run.config())
            except StoreError as error:
                self.remark(f"left out: {error}")
                continue
            known.setdefault(identity(series.config), []).append(series)
        return known

    def remark(self, text: str) -> None:
        if text not in self.remarks:
            self.remarks.append(text)

    def series(self, arm: str) -> list[Series]:
        """The runs of an arm, one a seed, in the plan's order of seeds."""
        wanted = self.plan.config(arm)
        there = [
            series
            for series in self._known.get(identity(wanted), [])
            if series.seed in self.plan.seeds and (series.imported or self._fits(series.config.epochs, wanted.epochs))
        ]
        by_length: dict[int, dict[int, Series]] = {}
        for series in sorted(there, key=lambda series: self._worth(series, wanted)):  # the best of a seed comes last
            if self._ended(series) or self.partial:
                length = wanted.epochs if series.imported else series.config.epochs
                by_length.setdefault(length, {})[series.seed] = series
        if not by_length:
            return []
        chosen = by_length[max(by_length)]
        self._tell_lengths(arm, wanted, chosen, others=[seeds for seeds in by_length.values() if seeds is not chosen])
        return [chosen[seed] for seed in self.plan.seeds if seed in chosen and self._readable(chosen[seed])]

    def _tell_lengths(
        self, arm: str, wanted: RunConfig, chosen: dict[int, Series], *, others: list[dict[int, Series]]
    ) -> None:
        lengths = sorted({series.config.epochs for series in chosen.values()})
        if lengths != [wanted.epochs]:
            self.remark(f"{arm}: {'–'.join(map(str, lengths))} epochs, the study has {wanted.epochs}")
        if shorter := sorted({seed for seeds in others for seed in seeds} - set(chosen)):
            left_out = ", ".join(map(str, shorter))
            self.remark(f"{arm}: seed {left_out} left out, its run is shorter than the others")

    def missing(self, arms: Iterable[str], *, data_dir: str | None = None) -> dict[str, str]:
        """Every run that the arms lack, with the command that makes it."""
        lacking = {}
        for arm in arms:
            there = {series.seed for series in self.series(arm)}
            for seed in self.plan.seeds:
                if seed not in there:
                    config = self.plan.config(arm, seed)
                    lacking[f"{arm}, seed {seed}"] = command(config, runs=str(self.runs), data_dir=data_dir)
        return lacking

    def _fits(self, epochs: int, wanted: int) -> bool:
        return epochs == wanted or (self.plan.epochs is None and epochs < wanted)

    def _worth(self, series: Series, wanted: RunConfig) -> tuple[bool, bool, bool]:
        """One's own run before an imported one, one with the probes asked for before one without, a whole one first."""
        probed = set(wanted.probe_epochs) <= set(series.config.probe_epochs)
        return not series.imported, probed, self._ended(series)

    def _ended(self, series: Series) -> bool:
        return series.status in ("done", "failed")

    def _readable(self, series: Series) -> bool:
        try:
            rows = series.rows
        except StoreError as error:
            self.remark(f"left out: {error}")
            return False
        if series.status == "failed" and rows:
            self.remark(f"{series.run.name} diverged at epoch {rows[-1]['epoch']}")
        elif not self._ended(series) and rows:
            self.remark(f"{series.run.name} is unfinished: drawn up to epoch {rows[-1]['epoch']}")
        return bool(rows)
