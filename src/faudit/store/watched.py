"""The configuration of a watched run: a training loop that is not faudit's, so no setting of it can be trained again.

It has the face of a ``RunConfig``, so every reader of runs works on it. The key ``watched`` in ``config.json`` marks
it.
``rule`` is the name that the user gave, ``net`` the class of the model, ``data`` a label. ``own-…`` are the user's own
settings, as text. The run id is ``<name>-s<seed>-<hash>``. The hash covers all keys but the seed and how long the loop
ran and was measured.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from faudit.config import RUN, Layout, RunConfig, key, listing, quoted
from faudit.errors import ConfigError
from faudit.registry import unknown
from faudit.settings import Parser, Setting, one_of

MARK = "watched"  # the key that only the configuration of a watched run has
OWN = "own_"  # begins the attribute of a setting of the user
CREDITS = ("none", "turned", "fresh")  # what Γ is held against; "none" without a credit
UNHASHED = ("seed", "epochs", "probe_epochs", "eval_size")


def name_of_run(value: Any) -> str:
    """A parser of the name of a watched run, which begins the name of its directory."""
    if not isinstance(value, str) or not re.fullmatch(r"[a-z][a-z0-9._+-]{0,63}", value):
        raise ValueError("a name of small letters, digits and . _ + - that begins with a letter, such as my-dfa")
    return value


def text(value: Any) -> str:
    """A parser of short text on one line."""
    if not isinstance(value, str) or not value or len(value) > 20_000 or not value.isprintable():
        raise ValueError("text on one line")
    return value


def label(value: Any) -> str:
    """A parser of a short label; a colon would name a member outside faudit."""
    if not isinstance(value, str) or not 0 < len(value) <= 200 or ":" in value or not value.isprintable():
        raise ValueError("text on one line without a colon")
    return value


def setting(default: Any, parse: Parser, help: str) -> Setting:
    return Setting(default, parse, help)


SETTINGS: dict[str, Setting] = {
    MARK: setting("watched", name_of_run, "name of the run"),
    "net": setting("Module", label, "class of the model"),
    "rule": setting("watched", name_of_run, "name of the run, where other runs name their rule"),
    "data": setting("own", label, "label of the data"),
    "epochs": Setting(1, lambda value: value if value == 0 else RUN["epochs"].parse(value), "last logged epoch"),
    "seed": RUN["seed"],
    "taps": setting("blocks", text, "the watched submodules in the order in which they run"),
    "credit": setting("none", one_of(CREDITS), "what the null of a given credit is drawn from"),
    "measures": setting("full", one_of(("full", "light")), "light: no costly probes"),
    "probe_epochs": RUN["probe_epochs"],
    "eval_size": RUN["eval_size"],
    "dtype": RUN["dtype"],
}


@dataclass(frozen=True, init=False, eq=False, repr=False)
class WatchedConfig(RunConfig):
    """What is known of a training loop that faudit only watched."""

    def __init__(self, **given: Any) -> None:
        problems: list[str] = []
        values = {name: one.default for name, one in SETTINGS.items()}
        for name, value in given.items():
            try:
                if name.startswith(OWN) and len(name) > len(OWN):
                    values[name] = text(value)
                elif name in SETTINGS:
                    values[name] = SETTINGS[name].parse(value)
                else:
                    problems.append(unknown("setting of a watched run", key(name), map(key, SETTINGS)))
            except ValueError as error:
                problems.append(f"{key(name)}: expected {error}, got {quoted(value)}")
        if problems:
            raise ConfigError(listing(problems))
        self.__dict__.update(values)
        self.__dict__["stray"] = self.__dict__["own"] = {}

    @property
    def _layout(self) -> Layout:
        own = [name for name in self.__dict__ if name.startswith(OWN)]
        settings = {**SETTINGS, **{name: Setting("", text, "a setting of the user") for name in own}}
        defaults = {name: one.default for name, one in settings.items()}
        keys = tuple((key(name), name) for name in settings)
        return Layout(settings, defaults, defaults, dict.fromkeys(settings, "run"), keys)

    @cached_property
    def run_id(self) -> str:
        """``name-s<seed>-<hash>``."""
        told = {key(name): value for name, value in self.settings.items() if name not in UNHASHED}
        digest = hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()[:10]
        return f"{self.run_stem}-{digest}"

    @property
    def run_stem(self) -> str:
        return f"{self.rule}-s{self.seed}"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or "net" not in self.__dict__:
            raise AttributeError(name)
        raise AttributeError(f"no setting {key(name)!r}: a watched run does not know it")

    def with_(self, **changes: Any) -> WatchedConfig:
        return WatchedConfig(**{**self.settings, **changes})


def parsed(values: Mapping[str, Any], *, where: str) -> RunConfig:
    """The configuration in a run's ``config.json``: of a run that faudit trained, or of one that it watched."""
    if MARK not in values:
        return RunConfig.written(values, where=where)
    try:
        return WatchedConfig(**{name.replace("-", "_"): value for name, value in values.items()})
    except ConfigError as error:
        raise ConfigError(listing(str(error).split("\n"), where=where)) from None


def refuse_watched(config: RunConfig) -> None:
    """Refuse to train a run that faudit only watched."""
    if isinstance(config, WatchedConfig):
        raise ConfigError(
            f"{config.run_id} is a watched run: expected the settings of a run that faudit trains, got a loop of your "
            "own. Run that loop again."
        )
