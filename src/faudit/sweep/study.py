"""Read a study file: shared settings and a grid → configurations. The whole file is checked before anything starts.

    net = "resmlp"                  # shared settings at the top level; keys are spelled like the flags
    with = ["matched"]              # controls: add the baseline of every run

    [grid]                          # one run for each combination of the values
    rule = ["bp", "dfa"]
    penalty = [0, 1e-4, 1e-2]
    seed = [42, 123, 456]

    [[exclude]]                     # leave out runs of the grid that match all of these; a list means any of them
    rule = "bp"
    penalty = [1e-4, 1e-2]

    [[include]]                     # more runs: their settings override the shared ones; they may have their own grid
    rule = "fa"
    [include.grid]
    seed = [42, 123]

``name = "{rule}, λ={penalty:g}"``, at the top level or in an include, names experiments. An experiment is the set of
runs that share every setting except the seed. Figures and claims look experiments up by name. A sweep needs no names.

A control is ``matched`` (frozen blocks; the embedding is trained as the run's own rule trains it) or the name of a
frozen rule. Runs are counted before they are enumerated. One error lists all problems with their places.

A setting that no run reads is refused at any value. In a grid over rules it is enough that one of the runs reads it;
the value must then be the default for the others.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from faudit.audit.audit import control_of
from faudit.config import USELESS, RunConfig, all_keys, attribute, known, listing, own_member, quoted, read_toml
from faudit.errors import ConfigError
from faudit.own_members import FAMILIES
from faudit.registry import nearest, some_of, unknown
from faudit.rules import RULES, control_name
from faudit.settings import epoch_list
from faudit.settings import key as spelled
from faudit.sweep import STUDIES
from faudit.sweep.names import mixed, named, template_problems

LIMIT = 10_000  # runs of a study; --max-runs allows more
OTHERS = ("name", "grid", "include", "exclude", "with")  # keys of a study that are not settings
CONTROLS = ("matched", *RULES.controls)  # and the control of an own rule
Values = dict[str, Any]  # attribute → parsed value


@dataclass(frozen=True)
class Study:
    """The runs of a study file, and its experiments: name → the runs of all seeds."""

    runs: list[RunConfig]
    experiments: dict[str, list[RunConfig]]


@dataclass
class Part:
    """Fixed settings and a grid over other settings. The study's top level is a part, and so is each include."""

    settings: Values
    grid: dict[str, list[Any]]
    name: str = ""  # the template for the names of its experiments; empty if they have none
    typed: dict[str, str] = field(default_factory=dict)  # the settings that it names itself → their place in the file
    excludes: list[dict[str, list[Any]]] = field(default_factory=list)

    def count(self) -> int:
        return math.prod(len(values) for values in self.grid.values())

    def combinations(self) -> Iterator[Values]:
        for values in itertools.product(*self.grid.values()):
            yield {**self.settings, **dict(zip(self.grid, values, strict=True))}


@dataclass
class Draft:
    """Parses the parts of a study file and collects the problems."""

    problems: list[str] = field(default_factory=list)

    def value(self, key: str, value: Any, place: str) -> Any:
        """The parsed value of a setting; None, with a problem added, if it is not valid."""
        try:
            return known()[attribute(key)].parse(value)
        except ValueError as error:
            self.problems.append(f"{place}{key}: expected {error}, got {quoted(value)}")
            return None

    def table(self, value: Any, place: str) -> Mapping[str, Any]:
        if isinstance(value, dict):
            return value
        self.problems.append(f"{place}: expected a table of settings, got {quoted(value)}")
        return {}

    def tables(self, document: Mapping[str, Any], name: str) -> list[tuple[str, Mapping[str, Any]]]:
        """The tables with that name, each with its place."""
        values = document.get(name)
        if isinstance(values, list) and values:
            places = [f"[[{name}]] {place}" for place in range(1, len(values) + 1)]
            return [(place, self.table(entry, place)) for place, entry in zip(places, values, strict=True)]
        if name in document:
            self.problems.append(f"{name}: expected at least one table headed [[{name}]], got {quoted(values)}")
        return []

    def known(self, keys: Mapping[str, Any], place: str, *, besides: Sequence[str] = ()) -> list[str]:
        """The keys that are settings. Adds a problem for each unknown key."""
        settings = all_keys()
        valid = [*settings, *besides]
        for key in keys:
            if key not in valid:
                self.problems.append(f"{place}{unknown('setting', key, valid)}")
        return [key for key in keys if key in settings]

    def settings(self, values: Mapping[str, Any], place: str, *, besides: Sequence[str]) -> Values:
        keys = self.known(values, place, besides=besides)
        return {attribute(key): self.value(key, values[key], place) for key in keys}

    def grid(self, value: Any, place: str) -> dict[str, list[Any]]:
        values = self.table(value, place)
        if isinstance(value, dict) and not values:
            self.problems.append(f"{place} is empty: expected a list of values for at least one setting")
        return {attribute(key): self.axis(key, values[key], place) for key in self.known(values, f"{place} ")}

    def axis(self, key: str, values: Any, place: str) -> list[Any]:
        """The parsed values of one list of a grid. Each value may occur once."""
        if not isinstance(values, list) or not values:
            self.problems.append(f"{place} {key}: expected a list of at least one value, got {quoted(values)}")
            return []
        if known()[attribute(key)].first.parse is epoch_list and not all(isinstance(value, list) for value in values):
            self.problems.append(f"{place} {key}: expected a list of lists of epochs, got {quoted(values)}")
            return []
        parsed = [self.value(key, value, f"{place} ") for value in values]
        twice = [value for value, count in Counter(parsed).items() if count > 1 and value is not None]
        if twice:
            self.problems.append(f"{place} {key}: expected each value once, got {quoted(twice[0])} twice")
        return parsed

    def part(self, settings: Values, values: Mapping[str, Any], place: str, *, name: str) -> Part:
        """Settings with their grid."""
        grid = self.grid(values["grid"], place) if "grid" in values else {}
        for key in [key for key in all_keys() if attribute(key) in grid and key in values]:
            self.problems.append(
                f"{place} {key}: also set outside the grid, as {quoted(values[key])}. Remove one of them."
            )
        return Part(settings, grid, name, dict.fromkeys(grid, f"{place} "))

    def name(self, template: Any, place: str) -> str:
        """A checked template for names; empty, with problems added, if it is not valid."""
        found = template_problems(template)
        self.problems += [f"{place}name: {problem}" for problem in found]
        return "" if found else str(template)

    def exclude(self, values: Mapping[str, Any], place: str) -> dict[str, list[Any]]:
        """An exclude: for each of its settings, the values that match."""
        if not values:
            self.problems.append(f"{place} is empty: expected at least one setting, since it would exclude everything")
        matched = {}
        for key in self.known(values, f"{place} "):
            several = isinstance(values[key], list) and not isinstance(known()[attribute(key)].first.default, tuple)
            one_or_more = values[key] if several else [values[key]]
            matched[attribute(key)] = [self.value(key, value, f"{place} ") for value in one_or_more]
        return matched

    def controls(self, value: Any) -> list[str]:
        if not isinstance(value, list):
            self.problems.append(f"with: expected a list of controls, got {quoted(value)}. Valid: {some_of(CONTROLS)}")
            return []
        for name in value:
            if name not in CONTROLS and not (isinstance(name, str) and is_own_control(name)):
                told = f"expected {some_of(CONTROLS)}, got {quoted(name)}{nearest(quoted(name), CONTROLS)}"
                self.problems.append(f"with: {told}")
        return value


def read(path: Path, overrides: Mapping[str, Any] | None = None, *, limit: int = LIMIT) -> list[RunConfig]:
    """The runs of a study file or a built-in study. ``overrides`` are settings from the command line."""
    return read_study(path, overrides, limit=limit).runs


def read_study(path: Path, overrides: Mapping[str, Any] | None = None, *, limit: int = LIMIT) -> Study:
    """The runs of a study with its named experiments."""
    if str(path) in STUDIES and not path.exists():
        path = STUDIES[str(path)]
    try:
        document = read_toml(path, "study", advice="See docs/sweeps.md for what a study looks like.")
    except OSError as error:
        known = f"{nearest(path, STUDIES) or '.'} Built-in studies: {', '.join(STUDIES)}."
        raise ConfigError(f"cannot read the study {path}: {error.strerror}. Give an existing file{known}") from None
    return study_of(document, overrides or {}, where=str(path), limit=limit)


def study_of(document: Mapping[str, Any], overrides: Mapping[str, Any], *, where: str, limit: int = LIMIT) -> Study:
    """The runs of a study, each once, in the order of the file. Controls come last."""
    draft = Draft()
    for family, member in dict.fromkeys(own_members(document)):
        try:
            own_member(family, member)
        except ConfigError as error:
            raise ConfigError(listing(str(error).splitlines(), where=where)) from None
    shared = {**document, **overrides}
    settings = draft.settings(shared, "", besides=OTHERS)
    name = draft.name(document["name"], "") if "name" in document else ""
    alone = "grid" in document or "include" not in document
    parts = [draft.part(settings, shared, "[grid]", name=name)] if alone else []
    for place, values in draft.tables(document, "include"):
        own = draft.settings({**values, **overrides}, f"{place} ", besides=["name", "grid"])
        template = draft.name(values["name"], f"{place} ") if "name" in values else name
        part = draft.part({**settings, **own}, {**values, **overrides}, f"{place} grid", name=template)
        part.typed |= {attribute(key): f"{place} " for key in values if attribute(key) in own}
        parts.append(part)
    excludes = [draft.exclude(values, place) for place, values in draft.tables(document, "exclude")]
    controls = draft.controls(document.get("with", []))
    if not document.keys() - {"with", "name"}:
        draft.problems.append("the study is empty: expected settings, a [grid] or an [[include]]")
    if excludes and "grid" not in document:
        draft.problems.append("[[exclude]]: expected a [grid] to exclude runs from, got none")
    if draft.problems:
        raise ConfigError(listing(draft.problems, where=where))
    parts[0].excludes = excludes  # excludes need a grid, and the part with the grid is the first
    total = sum(part.count() for part in parts) * (1 + len(controls))
    if total > limit:
        raise ConfigError(
            f"the study has {total:,} runs, controls and excluded ones counted: expected at most {limit:,} ({where}). "
            f"Remove values from its grid, or allow them with --max-runs {total}."
        )
    return enumerated(parts, controls, shared=settings, where=where)


def enumerated(parts: list[Part], controls: list[str], *, shared: Mapping[str, Any], where: str) -> Study:
    """The runs of all parts and their controls. A problem of several combinations is listed once with its count."""
    found: dict[str, RunConfig] = {}
    experiments: dict[str, list[RunConfig]] = {}
    problems: dict[str, int] = {}
    read: list[set[str]] = [set() for _ in parts]  # the settings that some run of the part reads
    idle = set(range(len(parts[0].excludes)))  # excludes that have not matched a run yet
    for part, reads in zip(parts, read, strict=True):
        for values in part.combinations():
            try:
                config = RunConfig(**values)
            except ConfigError as error:
                for line in str(error).splitlines():
                    problems[line] = problems.get(line, 0) + 1
                continue
            hits = {i for i, exclude in enumerate(part.excludes) if matches(config, exclude)}
            idle -= hits
            run_id = config.run_id
            if not hits and run_id in found:
                problems[f"{run_id} occurs twice. Remove it from the grid or from an [[include]]."] = 1
            elif not hits:
                found[run_id] = config
                reads.update(config.settings)
                if part.name:
                    experiments.setdefault(named(part.name, config), []).append(config)
    told = [f"{line}{f' (in {count} runs)' if count > 1 else ''}" for line, count in problems.items()]
    told += mixed(experiments)
    told += [f"[[exclude]] {i + 1}: matches no run of the grid. Remove it." for i in sorted(idle)]
    if not (told or found):
        told = ["the study has no runs: everything in its grid is excluded"]
    if not told:
        told = [no_reader(name, "") for name in shared if not any(name in reads for reads in read)]
        for part, reads in zip(parts, read, strict=True):
            told += [no_reader(name, place) for name, place in part.typed.items() if name not in reads]
    if told:
        raise ConfigError(listing(told, where=where))
    for config in list(found.values()):
        for name in controls:
            control = control_of(config) if name == "matched" else control_of(config).with_(rule=name)
            found.setdefault(control.run_id, control)
    return Study(list(found.values()), experiments)


def no_reader(name: str, place: str) -> str:
    """What is wrong with a setting that none of the runs reads."""
    one = known()[name]
    return f"{place}{spelled(name)}: no run reads it; {USELESS} (read by {one.family} {some_of(list(one.readers))})"


def is_own_control(name: str) -> bool:
    """Whether a name is that of the control of an own rule."""
    return RULES.is_own(name) and name == control_name(name)


def own_members(document: Any) -> Iterator[tuple[str, str]]:
    """The own members that a study names anywhere, by family: their settings are keys of the study."""
    for name, value in document.items() if isinstance(document, dict) else ():
        if name in FAMILIES:
            for one in value if isinstance(value, list) else [value]:
                if isinstance(one, str) and FAMILIES[name].is_own(one):
                    yield name, one
        for part in value if isinstance(value, list) else [value]:
            yield from own_members(part)


def matches(config: RunConfig, exclude: Mapping[str, list[Any]]) -> bool:
    own = config.settings | config.stray
    return all(name in own and own[name] in values for name, values in exclude.items())
