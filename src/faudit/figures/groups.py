"""Choose runs of a store, read their rows and put them into groups by their settings, for a plot."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from faudit.errors import ConfigError, StoreError
from faudit.registry import unknown
from faudit.rules import RULES
from faudit.store.counts import counted
from faudit.store.index import Overview, entries
from faudit.store.rows import Row
from faudit.store.run import Run, Status
from faudit.store.summary import overview
from faudit.store.where import WITHIN_METHOD, chosen, keys_of, named, no_runs, told, varying

Source = Path | str | Sequence[Run]  # a store, or runs
END = "end"
MOST_GROUPS = 24


@dataclass(frozen=True)
class Series:
    """One run with the rows that are plotted."""

    entry: Overview
    rows: list[Row]

    @property
    def name(self) -> str:
        return named(self.entry)

    @property
    def seed(self) -> int:
        return int(self.entry["config"]["seed"])


@dataclass(frozen=True)
class Group:
    """The runs with the same values of the settings in ``by``."""

    settings: dict[str, Any]
    series: list[Series]

    @cached_property
    def mixes(self) -> dict[str, list[Any]]:
        """The settings besides the seed that differ inside the group."""
        return varying([one.entry for one in self.series], besides=WITHIN_METHOD)

    @property
    def is_over_seeds(self) -> bool:
        """Whether its runs differ in the seed alone."""
        return not self.mixes and len({one.seed for one in self.series}) == len(self.series)

    def name(self) -> str:
        """Its name in a legend."""
        from faudit.figures.style import DATA_NAMES, NET_NAMES

        parts = []
        for name, value in self.settings.items():
            if name == "rule":
                parts.append(rule_name(value))
            elif name in ("data", "net"):
                parts.append({**DATA_NAMES, **NET_NAMES}.get(value, value))
            elif isinstance(value, bool):
                parts.append(name if value else f"not {name}")
            elif value is not None:
                parts.append(f"{'λ' if name == 'penalty' else name} = {written(value)}")
        return ", ".join(parts) or "all runs"

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name(),
            "settings": self.settings,
            "rule": self.settings.get("rule"),
            "runs": [one.name for one in self.series],
            "seeds": [one.seed for one in self.series],
            "mixes": self.mixes,
        }


@dataclass
class Selected:
    """The chosen runs in groups, and remarks on what was left out."""

    groups: list[Group]
    by: tuple[str, ...]
    where: tuple[str, ...]
    remarks: list[str] = field(default_factory=list)

    @property
    def series(self) -> list[Series]:
        return [one for group in self.groups for one in group.series]

    @property
    def last_rows(self) -> list[Row]:
        return [one.rows[-1] for one in self.series]

    def remark(self, text: str) -> None:
        if text not in self.remarks:
            self.remarks.append(text)


def selected(runs: Source, *, where: Sequence[str], by: str | Sequence[str] | None, at: int | str | None) -> Selected:
    """Choose, read and group runs."""
    if isinstance(runs, str | Path):
        found, remarks = entries(Path(runs))
        store = str(runs)
    else:
        found, remarks, store = [overview(run) for run in runs], [], "these runs"
    asked = tuple([by] if isinstance(by, str) else by or ())
    if wrong := [name for name in asked if name not in (valid := keys_of(found))]:
        raise ConfigError(f"by: {unknown('setting', wrong[0], valid)}")
    there = chosen(found, where, store=store)
    if not there:
        raise no_runs(store, where)
    result = Selected([], asked, tuple(where), [f"left out: {text}" for text in remarks])
    series = [one for entry in counted(there, named) if (one := read(entry, at, result)) is not None]
    tell_unfinished(series, at, result)
    if not series:
        raise StoreError(
            "\n".join(result.remarks) or f"the chosen runs have no rows yet (in {store}). Train them first."
        )
    result.by = asked or tuple(varying([one.entry for one in series], besides=WITHIN_METHOD)) or ("rule",)
    groups: dict[str, Group] = {}
    for one in series:
        settings = {name: one.entry["config"].get(name) for name in result.by}
        groups.setdefault(repr(settings), Group(settings, [])).series.append(one)
    result.groups = sorted(groups.values(), key=lambda group: order(group.settings))
    if len(groups) > MOST_GROUPS:
        raise ConfigError(
            f"expected at most {MOST_GROUPS} groups of runs, got {len(groups)} by {', '.join(result.by)}. "
            "Group by fewer settings with --by, or choose runs with --where."
        )
    for group in result.groups:
        if group.mixes:
            mixed = "; ".join(f"{name} {told(values)}" for name, values in group.mixes.items())
            result.remark(f"{group.name()}: its runs differ in more than the seed ({mixed}), and so does the spread")
    return result


def order(settings: dict[str, Any]) -> list[tuple[int, Any]]:
    """Rules in the order of the registry, numbers by size, other values by name."""
    rules = list(RULES)
    return [
        (0, rules.index(value)) if name == "rule" and value in rules
        else (1, float(value)) if isinstance(value, int | float) else (2, str(value))
        for name, value in settings.items()
    ]  # fmt: skip


def read(entry: Overview, at: int | str | None, result: Selected) -> Series | None:
    """The rows of a run that a plot needs; None if it has none. At the end, only the last row is read."""
    run = Run(Path(entry["run"]))
    try:
        rows = run.last_rows(run.outcome() or {}) if at == END and entry["status"] == Status.DONE else run.rows()
    except StoreError as error:
        result.remark(f"left out: {error}")
        return None
    if at == END and entry["status"] != Status.DONE:
        result.remark(f"left out: {named(entry)} is {entry['status']}, so it has no end")
        return None
    if at is not None and at != END:
        rows = [row for row in rows if row["epoch"] == at]
    if not rows:
        missing = "no rows yet" if at in (None, END) else f"no row of epoch {at}"
        result.remark(f"left out: {named(entry)} has {missing}")
        return None
    return Series(entry, rows)


def tell_unfinished(series: Sequence[Series], at: int | str | None, result: Selected) -> None:
    open_ones = [one for one in series if one.entry["status"] != Status.DONE] if at is None else []
    for one in open_ones:
        result.remark(f"{one.name} is {one.entry['status']}: drawn up to epoch {one.rows[-1]['epoch']}")


def as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def written(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else " ".join(map(str, as_list(value)))


def rule_name(rule: str) -> str:
    from faudit.figures.style import rule_look

    return rule_look(rule)[0] if rule in RULES else rule
