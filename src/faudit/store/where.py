"""Choose runs of a store: by conditions on settings, status and results, or by their names.

A condition is ``KEY=VALUE``, or ``KEY`` and ``!=``, ``<``, ``<=``, ``>`` or ``>=``. A run must meet all conditions. Of
several values given with ``=`` for one key, one is enough. ``!=`` is the opposite of ``=``, so a run that does not read
a setting meets it. Every other condition on a setting asks for a run that reads it.
"""

from __future__ import annotations

import itertools
import math
import operator
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from faudit.config import BESIDES, all_keys, attribute, key, known
from faudit.errors import ConfigError, StoreError
from faudit.own_members import like
from faudit.registry import some_of, unknown
from faudit.store.index import Overview
from faudit.store.rows import OVERFLOWED
from faudit.store.run import ENDED, Status, matching, unknown_run
from faudit.store.watched import MARK

WITHIN_METHOD = frozenset(map(key, BESIDES)) - {"epochs"}  # settings in which the runs of one method may differ
STATES = (*ENDED, Status.RUNNING, Status.STOPPED)
# Results of a run that a condition may ask about and that a list can be sorted by.
RESULTS = ("test_acc", "acc_eval", "loss_eval", "hidden_norm", "grad_norm", "growth", "growth_max", "seconds")
COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "<=": operator.le, ">=": operator.ge, "!=": operator.ne, "=": operator.eq, "<": operator.lt, ">": operator.gt,
}  # fmt: skip
WORD = re.compile(r"([^=<>!]*)(<=|>=|!=|=|<|>)(.*)", re.DOTALL)


@dataclass(frozen=True)
class Condition:
    """One condition on a run. ``values`` are alternatives; only ``=`` and ``!=`` have several."""

    key: str
    comparison: str
    values: tuple[Any, ...]

    def holds(self, entry: Overview) -> bool:
        """Whether a run meets it."""
        value = value_in(entry, self.key)
        if self.comparison in ("=", "!="):
            return (value in self.values) is (self.comparison == "=")
        compare = COMPARISONS[self.comparison]
        return value is not None and compare(value, self.values[0])


def value_in(entry: Overview, name: str) -> Any:
    """The setting, status or result of this name in an overview; None if the run has none."""
    if name in RESULTS:
        return OVERFLOWED.get(entry[name], entry[name])
    return entry[name] if name == "status" else entry["config"].get(name)


def conditions(words: Iterable[str], found: Sequence[Overview] = ()) -> list[Condition]:
    """Parse the words of ``--where``; one error lists every problem.

    A setting or a name that faudit does not declare, such as the rule of a watched run, is valid if a run found has it.
    """
    alternatives: dict[str, list[Any]] = {}
    others, problems = [], []
    for word in words:
        parts = WORD.fullmatch(word)
        if not parts:
            problems.append(f"--where: expected KEY=VALUE (or !=, <, <=, >, >=), got {word!r}")
            continue
        name, comparison, text = (part.strip() for part in parts.groups())
        met = [value for entry in found if (value := entry["config"].get(name)) is not None]
        try:
            value = value_of(name, text, comparison=comparison, met=met)
        except ConfigError as error:
            problems.append(f"--where {error}")
            continue
        if comparison == "=":
            alternatives.setdefault(name, []).append(value)
        else:
            others.append(Condition(name, comparison, (value,)))
    if problems:
        raise ConfigError("\n".join(problems))
    return [*(Condition(name, "=", tuple(values)) for name, values in alternatives.items()), *others]


def is_condition(word: str) -> bool:
    """Whether a word is a condition, and not the name of a run."""
    return WORD.fullmatch(word) is not None


def settings_as_words(settings: Mapping[str, Any]) -> list[str]:
    """Settings given in Python as words of ``--where``: ``rule="dfa", epochs=[10, 30]``. A list holds alternatives."""
    words = []
    for name, wanted in settings.items():
        for value in wanted if isinstance(wanted, list | tuple | set) else [wanted]:
            text = str(value).lower() if isinstance(value, bool) else str(value)
            words.append(f"{name if name in RESULTS else key(name)}={text}")
    return words


def value_of(name: str, text: str, *, comparison: str, met: Sequence[Any]) -> Any:
    """Parse the value of a condition, in the form that it has in an overview; ``met`` are values that runs have."""
    if name == "status":
        if text not in STATES:
            raise ConfigError(unknown("status", text, STATES))
        value: Any = text
    elif name in RESULTS:
        value = number(name, text)
    elif name == MARK:  # any name may be that of a watched loop
        value = text
    elif name in all_keys():
        value = text if text in met else setting(name, text)
    elif met:
        value = setting(name, text, other=met[0])
    else:
        raise ConfigError(unknown("setting", name, [*all_keys(), "status", MARK, *RESULTS]))
    if comparison not in ("=", "!=") and (isinstance(value, bool) or not isinstance(value, int | float)):
        raise ConfigError(f"{name}: expected = or !=, since its values have no order, got {comparison}")
    return value


def setting(name: str, text: str, *, other: Any = None) -> Any:
    """Parse the value of a setting as it is declared, or else like ``other``; the config of an overview holds lists."""
    declared = known().get(attribute(name))
    default = declared.first.default if declared else tuple(other) if isinstance(other, list) else other
    parse = declared.parse if declared else like(default)
    try:
        value = parse({"true": True, "false": False}.get(text, text) if isinstance(default, bool) else text)
    except ValueError as error:
        raise ConfigError(f"{name}: expected {error}, got {text!r}") from None
    return list(value) if isinstance(value, tuple) else value


def number(name: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if math.isnan(value):
        raise ConfigError(f"{name}: expected a number, got {text!r}")
    return value


def matches(entry: Overview, wanted: Sequence[Condition]) -> bool:
    """Whether a run meets all conditions."""
    return all(condition.holds(entry) for condition in wanted)


def named(entry: Overview) -> str:
    """The name of a run: that of its directory, which ``show`` and ``audit`` accept."""
    return os.path.basename(str(entry["run"]))


def chosen(found: Sequence[Overview], words: Iterable[str], *, store: str) -> list[Overview]:
    """The runs that meet the conditions among the words and, if there are names or patterns, have one of them."""
    words = list(words)
    wanted = conditions([word for word in words if is_condition(word)], found)
    there = [entry for entry in found if matches(entry, wanted)]
    names = [word for word in words if not is_condition(word)]
    if not names:
        return there
    kept: set[str] = set()
    known_names = [named(entry) for entry in found]
    for name in names:
        hits = matching(name, known_names)
        if not hits:
            raise StoreError(f"{unknown_run(name, known_names, store)} A condition has an = or a comparison.")
        kept.update(hits)
    return [entry for entry in there if named(entry) in kept]


def keys_of(found: Sequence[Overview]) -> list[str]:
    """The keys of every setting that faudit declares, then of the others that some run has, as a watched one may."""
    return list(dict.fromkeys([*all_keys(), *(name for entry in found for name in entry["config"])]))


def ordered(found: Sequence[Overview], by: str, *, largest_first: bool) -> list[Overview]:
    """The runs sorted by a setting, status, result or ``run``; those without a value come last."""
    if by not in (valid := ["run", "status", *keys_of(found), *RESULTS]):
        raise ConfigError(f"--sort {unknown('key', by, valid)}")
    if by == "run":
        return sorted(found, key=named, reverse=largest_first)
    values = [(value_in(entry, by), entry) for entry in found]
    is_known = [isinstance(value, str | list) or (value is not None and value == value) for value, _ in values]
    there = [pair for pair, known_one in zip(values, is_known, strict=True) if known_one]
    rest = [entry for (_, entry), known_one in zip(values, is_known, strict=True) if not known_one]
    return [entry for _, entry in sorted(there, key=lambda pair: pair[0], reverse=largest_first)] + rest


def varying(found: Sequence[Overview], besides: Iterable[str] = ()) -> dict[str, list[Any]]:
    """The settings that differ between the runs that read them, each with its values."""
    skipped = set(besides)
    first: dict[str, Any] = {}
    different: dict[str, set[Any]] = {}
    for entry in found:  # one pass over each config: a store may hold thousands of runs
        for name, value in entry["config"].items():
            if value is None or name in skipped:
                continue
            if first.setdefault(name, value) != value:
                different.setdefault(name, {hashable(first[name])}).add(hashable(value))
    order = dict.fromkeys(itertools.chain(all_keys(), different))
    return {
        name: sorted(list(value) if isinstance(value, tuple) else value for value in different[name])
        for name in order
        if name in different
    }


def hashable(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def told(values: Sequence[Any]) -> str:
    """Values of a setting in a message."""
    return some_of([str(value) for value in values])


def no_runs(store: str, words: Sequence[str]) -> StoreError:
    """The error for a choice that no run meets."""
    asked = f" with {', '.join(words)}" if words else ""
    return StoreError(f"no run in {store}{asked}: expected at least one. List the runs with `faudit show`.")
