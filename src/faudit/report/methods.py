"""What the first screen shows of each method over its seeds: verdict, reason, accuracy, growth, deep Γ and its null."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean, stdev
from types import MappingProxyType
from typing import Any

from faudit.audit.checks.check import FIRED, PASSED
from faudit.audit.judge import INCONCLUSIVE, TRUSTWORTHY, WALK_BACK, Verdict
from faudit.audit.method import method
from faudit.config import BESIDES, RunConfig, attribute, identity
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
    drops = shared_by([page.config for group in groups.values() if (page := group[0]).config])
    found = [
        {"name": name_of(group[0], shown), "label": name_of(group[0], shown, without=drops), **numbers}
        for group, numbers in known.items()
    ]
    order = {name: place for place, name in enumerate(RULES)}  # a control follows all rules
    found.sort(key=lambda one: (order.get(one["rule"], len(order)), one["name"]))
    return [{"key": place, **one} for place, one in enumerate(found)]


def differing(configs: Sequence[Mapping[str, Any]]) -> list[str]:
    """The settings that have several values among the runs that read them."""
    names = dict.fromkeys(name for config in configs for name in config)
    return [name for name in names if len({repr(config[name]) for config in configs if name in config}) > 1]


def shared_by(configs: Sequence[RunConfig]) -> dict[str, Any]:
    """The net, data and length that all methods have, by the name of the setting: a label need not repeat them."""
    return {
        name: getattr(configs[0], name)
        for name in ("net", "data", "epochs")
        if configs and len({getattr(config, name) for config in configs}) == 1
    }


def told_once(shared: Mapping[str, Any]) -> str:
    """What all methods share, for the line above their table: resmlp, digits, 30 epochs."""
    return ", ".join(f"{value} epochs" if name == "epochs" else str(value) for name, value in shared.items())


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
            "checks": checks_of(judged),
        }
    )
    return found


def checks_of(judged: Sequence[tuple[RunConfig, Verdict]]) -> list[dict[str, Any]]:
    """Each check over the seeds; ``open`` is the status at every seed if the check decided nothing at any."""
    found = []
    for check in method(judged).checks if judged else ():
        said = {one.status for _, verdict in judged for one in verdict.findings if one.check == check.check}
        found.append({**check.to_json(), "open": said.pop() if len(said) == 1 and not said & {PASSED, FIRED} else ""})
    return found


def short_name(page: Page, without: Mapping[str, Any] = MappingProxyType({})) -> str:
    """The rule, net, data and length of a method; without those that all methods share."""
    config = page.config
    assert config is not None, "a damaged run has no method"
    tail = ", imported" if page.document["imported"] else ""
    parts = [config.label(on="" if "net" in without else config.net)]
    parts += ["" if "data" in without else config.data, "" if "epochs" in without else f"{config.epochs} epochs"]
    return ", ".join(filter(None, parts)) + tail


def name_of(page: Page, shown: Mapping[str, Sequence[str]], without: Mapping[str, Any] = MappingProxyType({})) -> str:
    """The short name, and the settings in which methods of the same short name differ."""
    settings = page.document["config"]
    more = [key for key in shown[short_name(page)] if key in settings and attribute(key) not in BESIDES]
    return ", ".join([short_name(page, without), *(f"{key} {written(settings[key])}" for key in more)])


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
