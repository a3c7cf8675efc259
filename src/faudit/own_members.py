"""Members that are not faudit's: what a config keeps of a rule, net, optimizer or dataset ``package.module:Name``.

A config keeps the name, a digest of the source and the defaults of the settings. So a run can be read without that
code, and with other source it is another run. Importing this module does not import torch.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

from faudit.data import DATASETS
from faudit.errors import ConfigError
from faudit.nets import NETS
from faudit.optimizers import OPTIMIZERS
from faudit.probes import PROBES
from faudit.registry import OWN, Registry
from faudit.rules import FROZEN, RULES
from faudit.settings import Configurable, Parser, Setting, Settings, attribute, key, number, quoted, switch, whole

# The families whose members declare settings, by the setting that names the member.
FAMILIES: dict[str, Configurable[Any]] = {"net": NETS, "rule": RULES, "optimizer": OPTIMIZERS}
MEMBERS = "members"  # the key of the own members in JSON
# Names that a setting of an own member cannot have: other flags of `train`, and other columns of tables.
TAKEN = ("help", "config", "runs", "json", "again", "data_dir", "tensorboard", "wandb", "mlflow", "status",
         "run_id", "run", "grid", "include", "exclude", "name", "with", "own", "stray", "epoch",
         "seconds", "classes", MEMBERS)  # fmt: skip
SLUG = 40  # most characters of an own member in a run id
USED = "a name that faudit uses itself. Give it another name"


def registry_of(family: str) -> Registry[Any]:
    """The registry behind a setting that names a member: net, rule, optimizer or data."""
    return DATASETS if family == "data" else FAMILIES[family]


@dataclass(frozen=True)
class OwnMember:
    """What a config keeps of a member that is not faudit's."""

    name: str  # package.module:Name
    source: str  # the digest of its source
    defaults: tuple[tuple[str, Any], ...] = ()  # of its settings, by attribute

    @property
    def settings(self) -> Settings:
        """Its settings without their parsers and help, which only the source has."""
        return {name: Setting(default, like(default), "") for name, default in self.defaults}

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "source": self.source,
            "settings": {key(name): value for name, value in self.defaults},
        }


def read_member(family: str, name: str, *, clash: Callable[[str, str, Any], str]) -> tuple[OwnMember, Settings]:
    """An own member as its source is now, with its settings.

    ``clash(family, attribute, default)`` says why a setting of this name cannot be; empty if it can.
    """
    registry = registry_of(family)
    settings = FAMILIES[family].settings(name) if family in FAMILIES else {}
    for own, declared in settings.items():
        problem = ""
        if own in TAKEN or own in columns():
            problem = USED
        elif found := clash(family, own, declared.default):
            problem = found
        elif not is_plain(declared.default):
            problem = f"whose default is {quoted(declared.default)}: expected a number, text, false or a tuple of them"
        elif declared.default is True:
            problem = "whose default is true: a flag can only turn it on. Turn its meaning around"
        if problem:
            registry[name]  # first: what is no member of the family has other settings
            raise ConfigError(f"{family} {name} declares the setting {key(own)}, {problem}")
    defaults = tuple((own, declared.default) for own, declared in settings.items())
    return OwnMember(registry.own_name(name), registry.digest(name), defaults), settings


@cache
def columns() -> frozenset[str]:
    """The names of the entries of a row: they share the tables of an export with the settings."""
    return frozenset(entry.name for name in PROBES for entry in PROBES.declared(name).entries)


def is_plain(value: Any) -> bool:
    """Whether a default can be kept in JSON."""
    if isinstance(value, tuple):
        return all(not isinstance(one, tuple) and is_plain(one) for one in value)
    return isinstance(value, bool | int | str) or (isinstance(value, float) and math.isfinite(value))


def like(default: Any) -> Parser:
    """A parser of values of the type of a default, for a setting whose own parser is not at hand."""

    def parse(value: Any) -> Any:
        if isinstance(default, tuple):
            words = value.replace(",", " ").split() if isinstance(value, str) else value
            if not isinstance(words, list | tuple) or not is_plain(tuple(words)):
                raise ValueError("a list")
            return tuple(like(default[0])(word) for word in words) if default else tuple(words)
        if isinstance(default, bool):
            return switch(value)
        if isinstance(default, int):
            return whole(-(2**63), 2**63 - 1)(value)
        if isinstance(default, float):
            return number(-sys.float_info.max)(value)
        if not isinstance(value, str):
            raise ValueError("text")
        return value

    return parse


def kept_members(value: Any) -> dict[str, OwnMember]:
    """The own members in a JSON document, as ``RunConfig.to_json`` writes them; ConfigError if they are damaged."""
    found = {}
    try:
        for family, one in value.items():
            name, source = one["name"], one["source"]
            defaults = tuple(
                (attribute(key), tuple(default) if isinstance(default, list) else default)
                for key, default in one["settings"].items()
            )
            names = [attribute for attribute, default in defaults if attribute.isidentifier() and is_plain(default)]
            valid = family in (*FAMILIES, "data") and OWN.fullmatch(name) and re.fullmatch(r"[0-9a-f]{64}", source)
            if not valid or len(names) < len(defaults):
                raise ValueError
            found[family] = OwnMember(name, source, defaults)
    except (AttributeError, KeyError, TypeError, ValueError):
        raise ConfigError(f"{MEMBERS}: expected the own members that faudit wrote, got {quoted(value)}") from None
    return found


def slug(member: str) -> str:
    """The name of a member in a run id, which is the name of a directory."""
    head, colon, name = member.rpartition(":")
    if not colon:
        return member
    frozen = FROZEN if head.startswith(FROZEN) else ""
    return frozen + re.sub(r"[^A-Za-z0-9_]", "_", name)[:SLUG]
