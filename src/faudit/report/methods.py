"""What the first screen shows of each method over its seeds: verdict, reason, accuracy, growth, deep Γ and its null."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean, stdev
from typing import Any

from faudit.audit.judge import INCONCLUSIVE, TRUSTWORTHY, WALK_BACK
from faudit.audit.method import method, title
from faudit.config import BESIDES, attribute, identity
from faudit.report.runs import NOT_AUDITED, UNFINISHED, Page, number
from faudit.report.series import rounded_all
from faudit.rules import RULES

WORST_FIRST = (WALK_BACK, INCONCLUSIVE, NOT_AUDITED, UNFINISHED, TRUSTWORTHY)


Kept = dict[tuple[Page, ...], dict[str, Any]]  # what was computed of the runs of a method


def methods_of(pages: Iterable[Page], kept: Kept) -> list[dict[str, Any]]:
    """The methods in the order of their rules, each with the names of its runs.

    ``kept`` holds what the last call computed. A method whose runs have not changed is taken from it.
    """
    groups: dict[tuple[Any, ...], list[Page]] = {}
    for page in pages:
        if page.config is not None:
            key = (identity(page.config), page.config.epochs, page.document["imported"])
            groups.setdefault(key, []).append(page)
    alike: dict[str, list[Page]] = {}  # the first run of each method, by the short name that several may share
    for group in groups.values():
        alike.setdefault(short_name(group[0]), []).append(group[0])
    shown = {name: differing([page.document["config"] for page in some]) for name, some in alike.items()}
    known = {tuple(group): kept.get(tuple(group)) or method_of(group) for group in groups.values()}
    kept.clear()
    kept.update(known)
    found = [{"name": name_of(group[0], shown), **numbers} for group, numbers in known.items()]
    order = {name: place for place, name in enumerate(RULES)}  # a control follows all rules
    found.sort(key=lambda one: (order.get(one["rule"], len(order)), one["name"]))
    return [{"key": place, **one} for place, one in enumerate(found)]


def differing(configs: Sequence[Mapping[str, Any]]) -> list[str]:
    """The settings that have several values among the runs that read them."""
    names = dict.fromkeys(name for config in configs for name in config)
    return [name for name in names if len({repr(config[name]) for config in configs if name in config}) > 1]


def method_of(group: Sequence[Page]) -> dict[str, Any]:
    """One method: its runs differ only in the seed and in how they were measured. The first run of a seed counts."""
    firsts = list({page.document["seed"]: page for page in reversed(group)}.values())[::-1]
    runs = [page.document for page in firsts]
    judged = [(page.config, page.verdict) for page in firsts if page.config and page.verdict]
    words = [run["verdict"] for run in runs]
    word = next(word for word in WORST_FIRST if word in words)
    last = [page.last for page in firsts]
    accuracy, gamma, null, spread = (
        [value for one in last if (value := number(one[name])) is not None]
        for name in ("test_acc", "gamma", "null_mean", "null_std")
    )
    found: dict[str, Any] = rounded_all(
        {
            "rule": runs[0]["rule"],
            "runs": [page.name for page in group],
            "seeds": [run["seed"] for run in runs],
            "verdict": word,
            "headline": next((run["headline"] for run in runs if run["verdict"] == word), word),
            "sentence": sentence_of(runs, word),
            "accuracy": {"n": len(accuracy), **mean_and_deviation(accuracy)},
            "growth": [value for one in last if (value := one["growth"]) is not None],
            "gamma": {"n": len(gamma), **mean_and_deviation(gamma)},
            "null": {
                "n": len(null),
                "mean": fmean(null) if null else None,
                "std": fmean(spread) if spread else None,
                "none": any(one["null_none"] for one in last),
            },
            "checks": [check.to_json() for check in method(judged).checks] if judged else [],
        }
    )
    return found


def short_name(page: Page) -> str:
    """The rule, net, data and length of a method."""
    assert page.config is not None, "a damaged run has no method"
    tail = ", imported" if page.document["imported"] else ""
    return title(page.config) + tail


def name_of(page: Page, shown: Mapping[str, Sequence[str]]) -> str:
    """The short name, and the settings in which methods of the same short name differ."""
    name, settings = short_name(page), page.document["config"]
    more = [key for key in shown[name] if key in settings and attribute(key) not in BESIDES]
    return ", ".join([name, *(f"{key} {written(settings[key])}" for key in more)])


def written(value: Any) -> str:
    """The value of a setting as it is typed on the command line."""
    if isinstance(value, list):
        return " ".join(map(str, value)) or "none"
    return str(value).lower() if isinstance(value, bool) else f"{value:g}" if isinstance(value, float) else str(value)


def mean_and_deviation(values: Sequence[float]) -> dict[str, float | None]:
    return {"mean": fmean(values) if values else None, "std": stdev(values) if len(values) > 1 else None}


def sentence_of(runs: Sequence[Mapping[str, Any]], word: str) -> str:
    """The reason of the first run with the verdict of the method, and in how many seeds it is so."""
    alike = [run for run in runs if run["verdict"] == word]
    first = str(alike[0]["sentence"])
    return first if len(runs) == len(alike) else f"In {len(alike)} of {len(runs)} seeds: {first}"
