"""Runs → a tidy table: for each experiment of a plan, the rows of each seed.

A run belongs to an experiment if all settings that decide what was trained are equal. It must have the plan's length.
If the plan sets no length and the recipe allows shorter runs, the longest runs in the store are used, with a remark. An
imported log is used for a seed that has no run trained by faudit.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from faudit.config import RunConfig, command, identity
from faudit.errors import StoreError
from faudit.figures.plan import Plan
from faudit.store.index import copies, copy_of
from faudit.store.rows import Row
from faudit.store.run import ENDED, Run, Status, runs_in
from faudit.store.watched import WatchedConfig


@dataclass(frozen=True)
class Series:
    """One run for a figure: its seed and its rows."""

    run: Run
    config: RunConfig

    @property
    def seed(self) -> int:
        return self.config.seed

    @cached_property
    def rows(self) -> list[Row]:
        return self.run.rows()

    @cached_property
    def status(self) -> Status:
        return self.run.status

    @property
    def ended(self) -> bool:
        return self.status in ENDED

    @property
    def imported(self) -> bool:
        return self.run.name.startswith("imported-")


@dataclass
class Table:
    """The runs of a store by experiment of a plan. ``remarks`` collects what a reader of the result must know."""

    plan: Plan
    runs: Path
    partial: bool = False
    remarks: list[str] = field(default_factory=list)

    @cached_property
    def _known(self) -> dict[tuple[object, ...], list[Series]]:
        there: dict[str, Series] = {}
        for run in runs_in(self.runs) if self.runs.is_dir() else []:
            try:
                there[str(run.path)] = Series(run, run.config())
            except StoreError as error:
                self.remark(f"left out: {error}")
        twice = copies({path: series.config.run_id for path, series in there.items()})
        known: dict[tuple[object, ...], list[Series]] = {}
        for path, series in there.items():
            if path in twice:
                self.remark(f"left out: {copy_of(path, twice[path])}")
            else:
                known.setdefault(identity(series.config), []).append(series)
        return known

    @property
    def watched(self) -> int:
        """How many runs the store holds, if all of them are of loops that faudit only watched; otherwise 0."""
        configs = [series.config for some in self._known.values() for series in some]
        return len(configs) if all(isinstance(config, WatchedConfig) for config in configs) else 0

    def again(self, *, partial: bool | None = None) -> Table:
        """A table for another result. It shares the runs, which are read once, and has its own remarks."""
        known = self._known  # first: reading adds remarks on damaged runs, which apply to every result
        other = replace(self, partial=self.partial if partial is None else partial, remarks=list(self.remarks))
        other._known = known
        return other

    def remark(self, text: str) -> None:
        if text not in self.remarks:
            self.remarks.append(text)

    def series(self, experiment: str) -> list[Series]:
        """The runs of an experiment, one per seed, in the plan's order of seeds."""
        wanted, seeds = self.plan.config(experiment), self.plan.seeds_of(experiment)
        there = [series for series in self._known.get(identity(wanted), []) if series.seed in seeds]
        own = [series for series in there if not series.imported and self._fits(experiment, series.config.epochs)]
        whole = [series for series in own if series.ended]
        length = max((series.config.epochs for series in whole or (own if self.partial else [])), default=wanted.epochs)
        # The last entry of a seed wins. In order: imported logs, unfinished runs, finished runs, probed finished runs.
        ranked = [
            series
            for series in there
            if series.imported and series.ended and self._lasts(experiment, series.config.epochs)
        ]
        ranked += [series for series in own if self.partial and not series.ended and series.config.epochs == length]
        of_length = [series for series in whole if series.config.epochs == length]
        ranked += sorted(of_length, key=lambda series: set(wanted.probe_epochs) <= set(series.config.probe_epochs))
        chosen = {series.seed: series for series in ranked if self._readable(series)}
        shorter = {series.seed for series in whole if series.config.epochs < length} - set(chosen)
        self._tell(experiment, chosen, shorter=shorter)
        return [chosen[seed] for seed in seeds if seed in chosen]

    def _fits(self, experiment: str, epochs: int) -> bool:
        """Whether a run of this length may be used for the experiment. The recipe may allow shorter runs."""
        wanted = self.plan.config(experiment).epochs
        shortened = self.plan.epochs is None and experiment in self.plan.recipe.shortened
        return epochs == wanted or (shortened and epochs < wanted)

    def _lasts(self, experiment: str, epochs: int) -> bool:
        """Whether an imported log may be used for the experiment: any length, unless it belongs to a longer twin."""
        return not self.plan.recipe.has_longer_twin(experiment) or epochs <= self.plan.config(experiment).epochs

    def _tell(self, experiment: str, chosen: dict[int, Series], *, shorter: set[int]) -> None:
        wanted = self.plan.config(experiment).epochs
        lengths = sorted({series.config.epochs for series in chosen.values()} - {wanted})
        if lengths:
            self.remark(f"{experiment}: {', '.join(map(str, lengths))} epochs, the paper has {wanted}")
        if shorter:
            seeds = ", ".join(map(str, sorted(shorter)))
            self.remark(f"{experiment}: seed {seeds} left out, its run is shorter than the others")
        for series in chosen.values():
            last = series.rows[-1]["epoch"]
            if series.status == Status.FAILED:
                self.remark(f"{series.run.name} diverged at epoch {last}")
            elif not series.ended:
                self.remark(f"{series.run.name} is unfinished: drawn up to epoch {last}")

    def missing(self, experiments: Iterable[str], *, data_dir: str | None = None) -> dict[str, str]:
        """The missing runs of the experiments, each with the command that makes it."""
        lacking = {}
        for experiment in experiments:
            there = {series.seed for series in self.series(experiment)}
            for seed in self.plan.seeds_of(experiment):
                if seed not in there:
                    config = self.plan.config(experiment, seed)
                    lacking[f"{experiment}, seed {seed}"] = command(config, runs=str(self.runs), data_dir=data_dir)
        return lacking

    def _readable(self, series: Series) -> bool:
        try:
            return bool(series.rows)
        except StoreError as error:
            self.remark(f"left out: {error}")
            return False
