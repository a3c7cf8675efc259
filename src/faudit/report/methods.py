"""What the first screen shows of each method over its seeds: verdict, reason, accuracy, growth, deep Γ and its null."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean, stdev
from typing import Any

from faudit.audit.judge import INCONCLUSIVE, TRUSTWORTHY, WALK_BACK
from faudit.audit.method import method
from faudit.config import BESIDES, attribute, identity
from faudit.report.runs import NOT_AUDITED, UNFINISHED, Page, number
from faudit.report.series import rounded_all

WORST_FIRST = (WALK_BACK, INCONCLUSIVE, NOT_AUDITED, UNFINISHED, TRUSTWORTHY)
NAMED = ("net", "rule", "data", "penalty", "no-terminal-norm", "epochs")  # settings that a label already shows


def methods_of(pages: Iterable[Page]) -> list[dict[str, Any]]:
    """The methods in the order of the runs; each holds the names of its runs, one per seed."""
    groups: dict[tuple[Any, ...], dict[int, Page]] = {}
    for page in pages:
        if page.config is not None:
            key = (*identity(page.config), page.config.epochs, page.document["imported"])
            groups.setdefault(key, {}).setdefault(page.config.seed, page)
    varying = differing([page.document["config"] for group in groups.values() for page in group.values()])
    shown = [name for name in varying if attribute(name) not in BESIDES and name not in NAMED]
    found = [method_of(list(group.values()), shown) for group in groups.values()]
    return [{"key": place, **one} for place, one in enumerate(found)]


def differing(configs: Sequence[Mapping[str, Any]]) -> list[str]:
    """The settings in which runs differ; a run that does not read a setting differs from one that does."""
    names = dict.fromkeys(name for config in configs for name in config)
    return [name for name in names if len({repr(config.get(name)) for config in configs}) > 1]


def method_of(group: Sequence[Page], shown: Sequence[str]) -> dict[str, Any]:
    """One method: its runs differ only in the seed and in how they were measured."""
    runs = [page.document for page in group]
    judged = [(page.config, page.verdict) for page in group if page.config and page.verdict]
    words = [run["verdict"] for run in runs]
    word = next(word for word in WORST_FIRST if word in words)
    last = [run["last"] for run in runs]
    accuracy, gamma, null, spread = (
        [value for one in last if (value := number(one[name])) is not None]
        for name in ("test_acc", "gamma", "null_mean", "null_std")
    )
    return rounded_all(
        {
            "name": name_of(group[0], shown),
            "rule": runs[0]["rule"],
            "runs": [run["name"] for run in runs],
            "seeds": [run["seed"] for run in runs],
            "verdict": word,
            "sentence": sentence_of(runs, word),
            "accuracy": {"n": len(accuracy), **mean_and_deviation(accuracy)},
            "growth": [value for one in last if (value := one["growth"]) is not None],
            "gamma": {"n": len(gamma), **mean_and_deviation(gamma)},
            "null": {"n": len(null), "mean": fmean(null) if null else None, "std": fmean(spread) if spread else None},
            "checks": [check.to_json() for check in method(judged).checks] if judged else [],
        }
    )


def name_of(page: Page, shown: Sequence[str]) -> str:
    """A name that differs from those of all other methods on the page."""
    config, settings = page.config, page.document["config"]
    assert config is not None, "a damaged run has no method"
    more = [f"{name} {written(settings[name])}" for name in shown if name in settings]
    tail = ["imported"] if page.document["imported"] else []
    return ", ".join([config.label(on=config.net), config.data, f"{config.epochs} epochs", *more, *tail])


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


