"""Runs → a tidy table: for each arm of the study, the rows of each seed.  (no torch)

A run belongs to an arm when everything that decides what was trained is the same. Its length must be the plan's; where
the plan leaves it open, the costly arms without a claim on their end take the longest runs there are, and say so. An
imported log stands in for a seed that has no run of one's own.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from faudit.config import RunConfig, command, identity
from faudit.errors import StoreError
from faudit.papers.faeval.experiments import Plan
from faudit.store.rows import Row
from faudit.store.run import Run, runs_in

SHORTENED = ("vit", "noln")  # arms that shorter runs may stand for
TWINS = ("matched bp", "matched dfa", "matched frozen-dfa")  # arms that differ from a main one by their length alone


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
    def ended(self) -> bool:
        return self.status in ("done", "failed")

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

    def again(self, *, partial: bool | None = None) -> Table:
        """The same runs, found and read once, for another result, which has remarks of its own."""
        known = self._known  # first: it remarks on what is damaged, which is so for every result
        other = replace(self, partial=self.partial if partial is None else partial, remarks=list(self.remarks))
        other._known = known
        return other

    def remark(self, text: str) -> None:
        if text not in self.remarks:
            self.remarks.append(text)

    def series(self, arm: str) -> list[Series]:
        """The runs of an arm, one a seed, in the plan's order of seeds."""
        wanted = self.plan.config(arm)
        there = [series for series in self._known.get(identity(wanted), []) if series.seed in self.plan.seeds]
        own = [series for series in there if not series.imported and self._fits(arm, series.config.epochs)]
        whole = [series for series in own if series.ended]
        length = max((series.config.epochs for series in whole or (own if self.partial else [])), default=wanted.epochs)
        # The later entry of a seed stays: an imported log, then a part of a run, then a whole one, the probed one last.
        ranked = [
            series for series in there if series.imported and series.ended and self._lasts(arm, series.config.epochs)
        ]
        ranked += [series for series in own if self.partial and not series.ended and series.config.epochs == length]
        of_length = [series for series in whole if series.config.epochs == length]
        ranked += sorted(of_length, key=lambda series: set(wanted.probe_epochs) <= set(series.config.probe_epochs))
        chosen = {series.seed: series for series in ranked if self._readable(series)}
        self._tell(arm, chosen, shorter={series.seed for series in whole} - set(chosen))
        return [chosen[seed] for seed in self.plan.seeds if seed in chosen]

    def _fits(self, arm: str, epochs: int) -> bool:
        """Whether a run of so many epochs stands for the arm; a shorter one only where the study leaves room for it."""
        wanted = self.plan.config(arm).epochs
        return epochs == wanted or (self.plan.epochs is None and epochs < wanted and arm.split()[0] in SHORTENED)

    def _lasts(self, arm: str, epochs: int) -> bool:
        """Whether an imported log stands for the arm: of any length, but a main run's is no matched run's."""
        return arm not in TWINS or epochs <= self.plan.config(arm).epochs

    def _tell(self, arm: str, chosen: dict[int, Series], *, shorter: set[int]) -> None:
        wanted = self.plan.config(arm).epochs
        lengths = sorted({series.config.epochs for series in chosen.values()} - {wanted})
        if lengths:
            self.remark(f"{arm}: {', '.join(map(str, lengths))} epochs, the study has {wanted}")
        if shorter:
            seeds = ", ".join(map(str, sorted(shorter)))
            self.remark(f"{arm}: seed {seeds} left out, its run is shorter than the others")
        for series in chosen.values():
            last = series.rows[-1]["epoch"]
            if series.status == "failed":
                self.remark(f"{series.run.name} diverged at epoch {last}")
            elif not series.ended:
                self.remark(f"{series.run.name} is unfinished: drawn up to epoch {last}")

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

    def _readable(self, series: Series) -> bool:
        try:
            return bool(series.rows)
        except StoreError as error:
            self.remark(f"left out: {error}")
            return False
