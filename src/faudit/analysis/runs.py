"""The runs of a store as a collection: choose, count, read, audit, tabulate and plot them from Python.

    runs = faudit.runs("runs")
    for run in runs.where("epochs>=30", rule="dfa"):
        print(run.name, run.rows()[-1]["gamma"], run.audit().verdict)

A collection is a snapshot. Call ``faudit.runs`` again to see runs that were trained since.
"""

from __future__ import annotations

import html
import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from faudit.audit.audit import Audited, audit
from faudit.audit.protocol import DEFAULT
from faudit.audit.protocol import protocol as protocol_named
from faudit.config import BESIDES, key
from faudit.errors import ConfigError, StoreError
from faudit.formats import html_table, share, size, times
from faudit.registry import some_of
from faudit.store.index import Overview, entries
from faudit.store.run import Run, matching, unknown_run
from faudit.store.table import Table, spread
from faudit.store.where import chosen, named, ordered, settings_as_words, varying

if TYPE_CHECKING:
    import pandas
    import polars
    from torch import Tensor

    from faudit.figures.figure import Drawn
    from faudit.watch.trained import TrainedNet

SHOWN = 30  # runs in a notebook's table


class StoredRun(Run):
    """A run of a collection: a ``Run`` that can also be audited, and whose network can be loaded."""

    def audit(self, *, protocol: str = DEFAULT, data_dir: Path | str | None = None) -> Audited:
        """The verdict on this run, with its reasons and findings. See ``audit_run``."""
        return audit_run(self, protocol=protocol, data_dir=data_dir)

    def load_model(self, *, epoch: int | None = None, data_dir: Path | str | None = None) -> TrainedNet:
        """The trained network as an ``nn.Module``. See ``faudit.load_model``."""
        from faudit.watch.trained import load_model

        return load_model(self, epoch=epoch, data_dir=data_dir)

    def state(self, *, epoch: int | None = None) -> dict[str, Tensor]:
        """The state of the rule by name, such as its feedback. See ``faudit.rule_state``."""
        from faudit.watch.trained import rule_state

        return rule_state(self, epoch=epoch)


def audit_run(run: Run | Path | str, *, protocol: str = DEFAULT, data_dir: Path | str | None = None) -> Audited:
    """Audit a finished run, given as a run or as its directory. It measures what no earlier audit has measured.

    The matched control is searched in the run's own store. ``data_dir`` is the folder of the dataset's files.
    """
    asked = protocol_named(protocol)
    subject = run if isinstance(run, Run) else Run(Path(run))
    return audit(subject, asked, data_dir=None if data_dir is None else Path(data_dir))


def runs(store: Path | str = "runs") -> Runs:
    """The runs of a store, by name."""
    found, problems = entries(Path(store))
    return Runs(tuple(found), str(store), tuple(problems))


@dataclass(frozen=True, repr=False)
class Runs(Sequence[StoredRun]):
    """Runs of a store. ``problems`` tells which directories were left out: damaged runs and copies."""

    overviews: tuple[Overview, ...]
    store: str
    problems: tuple[str, ...] = ()

    def where(self, *words: str, **settings: Any) -> Runs:
        """The runs that meet all conditions: ``where("epochs>=30", rule=["dfa", "fa"])``. A list holds alternatives.

        A word is a condition as in ``--where``, or the name, a prefix or a pattern of runs.
        """
        return self._with(chosen(self.overviews, [*words, *settings_as_words(settings)], store=self.store))

    def sort(self, by: str, *, largest_first: bool = False) -> Runs:
        """The same runs sorted by a setting, a result such as ``test_acc``, or ``run``."""
        return self._with(ordered(self.overviews, by, largest_first=largest_first))

    def _with(self, overviews: Iterable[Overview]) -> Runs:
        return Runs(tuple(overviews), self.store, self.problems)

    @property
    def names(self) -> list[str]:
        """The names of the runs, in order."""
        return list(map(named, self.overviews))

    @property
    def varying(self) -> dict[str, list[Any]]:
        """The settings that differ between these runs, each with its values."""
        return varying(self.overviews)

    def __len__(self) -> int:
        return len(self.overviews)

    def __iter__(self) -> Iterator[StoredRun]:
        return (StoredRun(Path(entry["run"])) for entry in self.overviews)

    @overload
    def __getitem__(self, place: int | str) -> StoredRun: ...
    @overload
    def __getitem__(self, place: slice) -> Runs: ...
    def __getitem__(self, place: int | str | slice) -> StoredRun | Runs:
        """One run by its place, its name, or a prefix that only one name has; runs by a slice."""
        if isinstance(place, slice):
            return self._with(self.overviews[place])
        if isinstance(place, str):
            hits = matching(place, self.names)
            if not hits:
                raise unknown_run(place, self.names, self.store)
            if len(hits) > 1:
                raise StoreError(f"{place!r} is not one run: {len(hits)} runs match. Name one of {some_of(hits)}.")
            place = self.names.index(hits[0])
        return StoredRun(Path(self.overviews[place]["run"]))

    def __contains__(self, run: object) -> bool:
        return (run.name if isinstance(run, Run) else run) in self.names

    def plot(self, *entries: str, **options: Any) -> Drawn:
        """Plot entries of these runs. See ``faudit.plot``."""
        from faudit.figures.plot import plot

        return plot(*entries, runs=self, **options)

    def to_pandas(self) -> pandas.DataFrame:
        """One line per row of each run, with its settings. ``gamma[2]`` is Γ of block 2."""
        try:
            import pandas
        except ImportError:
            raise ConfigError(missing("pandas")) from None
        return pandas.DataFrame(self._columns())

    def to_polars(self) -> polars.DataFrame:
        """One line per row of each run, with its settings. ``gamma[2]`` is Γ of block 2."""
        try:
            import polars
        except ImportError:
            raise ConfigError(missing("polars")) from None
        return polars.DataFrame(self._columns(), strict=False)

    def _columns(self) -> dict[str, list[Any]]:
        """Every row of every run, by column; None where a row lacks a number. A run that cannot be read raises."""
        table = Table(list(self.overviews))
        table.survey()
        if table.damaged:
            raise StoreError("\n".join(table.damaged))
        heads = ["run", *itertools.chain.from_iterable(column.heads(name) for name, column in table.columns.items())]
        columns: dict[str, list[Any]] = {head: [] for head in heads}
        for entry in table.runs:
            for row in table.rows([entry]):
                cells = {head: one for name, value in row.items() for head, one in spread(name, value)}
                cells["run"] = named(entry)
                for head, column in columns.items():
                    column.append(cells.get(head))
        return columns

    def __repr__(self) -> str:
        counts = Counter(entry["status"] for entry in self.overviews)
        states = ", ".join(f"{count} {status}" for status, count in counts.items())
        differ = [name for name in self.varying if name not in map(key, BESIDES)]
        vary = f"; they differ in {some_of(differ)}" if differ else ""
        return f"{len(self)} runs in {self.store}" + (f": {states}{vary}" if states else "")

    def _repr_html_(self) -> str:
        settings = list(self.varying)
        head = ["run", "status", "epoch", *settings, "test acc", "‖h_L‖", "growth"]
        lines = [
            [
                named(entry),
                entry["status"],
                f"{'–' if entry['epochs'] is None else entry['epochs']}/{entry['epochs_asked']}",
                *("–" if (value := entry["config"].get(name)) is None else str(value) for name in settings),
                share(entry["test_acc"]),
                size(entry["hidden_norm"]),
                times(entry["growth"]),
            ]
            for entry in self.overviews[:SHOWN]
        ]
        more = f" The first {SHOWN} are shown." if len(self) > SHOWN else ""
        problems = "".join(f"<br>{html.escape(problem)}" for problem in self.problems)
        return f"<p>{html.escape(repr(self))}.{more}{problems}</p>{html_table([head, *lines])}"


def missing(package: str) -> str:
    return (
        f"to_{package}() needs the package {package}, which is not installed. "
        f"Install it with `pip install 'faudit[{package}]'`."
    )
