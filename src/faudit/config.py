"""The configuration of a run: every setting that affects a result, validated. Its hash is part of the run's name.

Some settings belong to every run and are fields of ``RunConfig``. The others are declared by the run's net, rule and
optimizer in their own files (``settings.py``), so two members may give one name different defaults or parsers.

TOML, JSON and messages spell keys like the command line's flags (``batch-size``). The attribute has underscores
instead. Importing this module does not import torch.

A member of the user's, ``package.module:Name``, is kept with the config (``own_members.py``).
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
import stat
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from faudit.data import SHIPPED
from faudit.errors import ConfigError
from faudit.own_members import FAMILIES, MEMBERS, USED, OwnMember, kept_members, read_member, registry_of, slug
from faudit.registry import DIGITS, unknown
from faudit.settings import Parser, Setting, Settings, epoch_list, number, one_of, setting, settings_of, switch, whole
from faudit.settings import attribute as attribute
from faudit.settings import key as key
from faudit.settings import quoted as quoted

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

TOML_LIMIT = 1 << 20  # bytes
# Two runs of one method may differ in these settings: how long a run trained and how it was measured.
BESIDES = ("seed", "epochs", "log_every", "keep_epochs", "probe_epochs", "threads", "device", "compile")
USELESS = "leave it out, because it would change nothing"
UNREAD = object()  # in place of the default of a setting that a run does not read


def member_of(family: str) -> Parser:
    """A parser of the names of a family's members."""
    return lambda value: one_of(registry_of(family), " or package.module:Name")(value)


def own_member(family: str, name: str) -> tuple[OwnMember, Settings]:
    """An own member as its source is now, with its settings, which are known from then on."""
    own, settings = read_member(family, name, clash=clash)
    SEEN.setdefault((family, own), settings)
    return own, settings


def clash(family: str, name: str, default: Any) -> str:
    """Why an own member of a family cannot declare a setting of this name; empty if it can."""
    if hasattr(RunConfig, name):
        return USED
    if name in _known(()) and not _known(())[name].is_alike(family, default):
        return "a name that faudit uses in another family or for another type. Give it another name"
    return ""


# Own members that this process has read, with their settings: they are known settings from then on.
SEEN: dict[tuple[str, OwnMember], Settings] = {}


def device_name(value: Any) -> str:
    """A parser of torch's device names."""
    if not isinstance(value, str) or not re.fullmatch(r"cpu|cuda(:\d{1,3})?", value):
        raise ValueError("cpu, cuda or cuda:N")
    return value


@dataclass(frozen=True, init=False, eq=False, repr=False)
class RunConfig:
    """The settings of one run. The defaults are the recipe of the paper, on the digits that faudit includes.

    The settings of the run's net, rule and optimizer are attributes too. A setting that another member declares and
    that is at its default there is dropped. With another value it is kept in ``stray``, and the run is refused. The
    members that are not faudit's are in ``own``, by family.
    """

    net: str = setting("resmlp", member_of("net"), "network")
    rule: str = setting("bp", member_of("rule"), "learning rule")
    data: str = setting("digits", member_of("data"), "dataset")
    epochs: int = setting(100, whole(1, 1_000_000), "passes over the training set")
    seed: int = setting(42, whole(0, 2**63 - 1), "seed of every random generator of the run")
    random_targets: bool = setting(False, switch, "train on fresh uniform labels in every minibatch")

    batch_size: int = setting(128, whole(1, 10_000_000), "samples per step")
    optimizer: str = setting("adamw", member_of("optimizer"), "optimizer")
    lr: float = setting(1e-3, number(0.0, above=True), "learning rate of the first epoch")
    weight_decay: float = setting(0.01, number(0.0), "weight decay")
    schedule: str = setting(
        "cosine",
        one_of(("cosine", "constant", "step", "cooldown")),
        "learning rate over the epochs: cosine, constant, step, or cooldown (linear in the second half)",
    )
    milestones: tuple[int, ...] = setting(
        (), epoch_list, "epochs after which the step schedule multiplies the learning rate by lr-factor"
    )
    lr_factor: float = setting(0.1, number(0.0, above=True), "factor of the step schedule at each milestone")
    no_augment: bool = setting(False, switch, "leave out the dataset's random crop and flip")
    crop: int = setting(
        -1, whole(-1, 64), "most pixels by which a training image is shifted at random; -1 for the dataset's own"
    )
    no_shuffle: bool = setting(False, switch, "take the training samples in the dataset's own order in every epoch")
    drop_last: bool = setting(False, switch, "leave out the last batch of an epoch if it is smaller than the others")
    train_size: int = setting(0, whole(0, 10_000_000), "training samples, at even distances; 0 for all")
    train_last: int = setting(
        0, whole(0, 1024), "train only the last K blocks, embedding and readout; 0 for all blocks"
    )
    pixels: str = setting(
        "standard", one_of(("standard", "unit")), "standardised per channel, or unit: raw pixels from 0 to 1"
    )

    log_every: int = setting(1, whole(1, 1_000_000), "epochs between two rows (the last epoch always has one)")
    keep_epochs: tuple[int, ...] = setting((), epoch_list, "epochs whose checkpoints are kept besides the last one")
    probe_epochs: tuple[int, ...] = setting(
        (), epoch_list, "epochs at which the costly probes run too (ρ, fresh feedback)"
    )
    eval_size: int = setting(1024, whole(1, 10_000_000), "test samples in the evaluation buffer (all if fewer)")
    dtype: str = setting("float32", one_of(("float32", "float64")), "floating-point type of the net")
    amp: str = setting(
        "none",
        one_of(("none", "bfloat16")),
        "type of a training step's products under torch.autocast; weights and probes keep dtype",
    )
    threads: int = setting(
        1, whole(1, 1024), "CPU threads; part of the run's identity, because it affects the last bits"
    )
    device: str = setting("cpu", device_name, "cpu, cuda or cuda:N")
    compile: bool = setting(False, switch, "compile the step of the rule; eager if that fails; affects the last bits")

    def __init__(self, **given: Any) -> None:
        self._set(given, {})

    def _set(self, given: Mapping[str, Any], kept: Mapping[str, OwnMember]) -> None:
        """Set and check all settings. An own member in ``kept`` is taken as it is there, any other as its source is."""
        problems: list[str] = []
        members: dict[str, str | OwnMember] = {}
        own: dict[str, OwnMember] = {}
        parsers: dict[str, Setting] = {}
        lost = set()  # families whose member is not known: its own problem is told, its settings cannot be checked
        for family in (*FAMILIES, "data"):
            name, registry = given.get(family, RUN[family].default), registry_of(family)
            members[family] = RUN[family].default
            if not isinstance(name, str) or name not in registry:
                lost.add(family)
            elif not registry.is_own(name):
                members[family] = name
            elif family in kept and kept[family].name == registry.own_name(name):
                members[family] = own[family] = kept[family]
                parsers |= SEEN.get((family, kept[family]), {})
            else:
                try:
                    own[family], declared = own_member(family, name)
                    members[family] = own[family]
                    parsers |= declared
                except ConfigError as error:
                    problems.append(str(error))
                    lost.add(family)
        layout = layout_of(members["net"], members["rule"], members["optimizer"])
        values, stray = dict(layout.defaults), {}
        for name, value in given.items():
            default = values.get(name, UNREAD)
            if type(value) is type(default) and value == default:
                continue  # most settings are at their default; this halves the time to read thousands of runs
            try:
                if default is not UNREAD:
                    values[name] = parsers.get(name, layout.settings[name]).parse(value)
                elif name not in known():
                    problems.append(unknown("setting", key(name), all_keys()))
                elif not known()[name].is_default(value) and known()[name].family not in lost:
                    parsed = known()[name].parse(value)
                    if not known()[name].is_default(parsed):
                        stray[name] = parsed
            except ValueError as error:
                if layout.family.get(name) not in lost:
                    problems.append(f"{key(name)}: expected {error}, got {quoted(value)}")
        for name in () if problems else ("keep_epochs", "probe_epochs"):
            if late := [epoch for epoch in values[name] if epoch > values["epochs"]]:
                problems.append(f"{key(name)}: expected epochs up to the last, {values['epochs']}, got {late[0]}")
        if problems:
            raise ConfigError(listing(problems))
        self.__dict__.update(values)  # a frozen dataclass accepts no assignment
        self.__dict__["stray"] = {name: stray[name] for name in known() if name in stray} if stray else {}
        self.__dict__["own"] = own

    def __getattr__(self, name: str) -> Any:
        """Raise for an attribute that is no setting of this run; mypy learns here that there may be others."""
        if name.startswith("_") or "net" not in self.__dict__:  # copy and pickle ask before there are settings
            raise AttributeError(name)
        raise AttributeError(f"no setting {key(name)!r}: net {self.net}, rule {self.rule} and optimizer "
                             f"{self.optimizer} do not read it")  # fmt: skip

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, RunConfig):
            return NotImplemented
        return (self.settings, self.stray, self.own) == (other.settings, other.stray, other.own)

    def __hash__(self) -> int:
        return hash(self.run_id)

    def __repr__(self) -> str:
        named = {"net": self.net, "rule": self.rule, "data": self.data} | self.changed
        return f"RunConfig({', '.join(f'{name}={value!r}' for name, value in named.items())})"

    @property
    def _layout(self) -> Layout:
        own = self.own
        if not own:
            return layout_of(self.net, self.rule, self.optimizer)
        return layout_of(own.get("net", self.net), own.get("rule", self.rule), own.get("optimizer", self.optimizer))

    @property
    def settings(self) -> dict[str, Any]:
        """Every setting that this run reads, by attribute."""
        own = self.__dict__
        return {name: own[name] for name in self._layout.settings}

    @property
    def defaults(self) -> Mapping[str, Any]:
        """The default of every setting that this run reads."""
        return self._layout.defaults

    @property
    def changed(self) -> dict[str, Any]:
        """The settings that differ from their default, those that nothing reads included."""
        own = self.__dict__
        changed = {name: own[name] for name, default in self._layout.defaults.items() if own[name] != default}
        return {**changed, **self.stray}

    @classmethod
    def parse(cls, values: Mapping[str, Any], *, where: str) -> RunConfig:
        """A config from keys spelled like the flags; an error lists every problem.

        The own members that ``to_json`` wrote are taken from there, so that their source is not needed.
        """
        problems = [unknown("setting", name, all_keys()) for name in values if "_" in name]
        given = {attribute(name): values[name] for name in values if "_" not in name and name != MEMBERS}
        config = cls.__new__(cls)
        try:
            kept = kept_members(values.get(MEMBERS, {}))
            for family, one in kept.items():
                if registry_of(family).own_name(str(given.get(family))) != one.name:
                    problems.append(f"{MEMBERS}: expected {family} {quoted(given.get(family))}, got {one.name}")
            config._set(given, kept)
        except ConfigError as error:
            raise ConfigError(listing([*problems, *str(error).split("\n")], where=where)) from None
        if problems:
            raise ConfigError(listing(problems, where=where))
        return config

    @classmethod
    def written(cls, values: Mapping[str, Any], *, where: str) -> RunConfig:
        """A config from the files of a run: a setting that they lack has the value of the version that wrote them."""
        config = cls.parse(values, where=where)
        layout = config._layout
        if layout.unsaid == layout.defaults:
            return config
        lacks = {name: old for name, old in layout.unsaid.items() if old != layout.defaults[name]}
        return config.with_(**{name: old for name, old in lacks.items() if key(name) not in values})

    @classmethod
    def members_in(cls, path: Path) -> dict[str, Any]:
        """The net, rule and optimizer that a TOML file names; empty if it cannot be read."""
        try:
            values = read_toml(path, "config", advice="")
        except (OSError, ConfigError):  # ``from_toml`` tells why
            return {}
        return {family: values[family] for family in FAMILIES if family in values}

    @classmethod
    def from_toml(cls, path: Path, overrides: Mapping[str, Any] | None = None) -> RunConfig:
        """A config from a TOML file; ``overrides`` (the command line's flags) take precedence."""
        try:
            values = read_toml(path, "config", advice="Write one `key = value` a line.")
        except OSError as error:
            raise ConfigError(
                f"cannot read the config {path}: {error.strerror}. Give --config an existing file."
            ) from None
        if MEMBERS in values:
            raise ConfigError(listing([unknown("setting", MEMBERS, all_keys())], where=str(path)))
        return cls.asked({**values, **(overrides or {})}, where=str(path))

    @classmethod
    def asked(cls, values: Mapping[str, Any], *, where: str) -> RunConfig:
        """A config from what a user typed: refuses every setting that the run does not read, at any value.

        ``parse`` drops such a setting at its default, because files of older versions may hold it.
        """
        config = cls.parse(values, where=where)
        unread = [attribute(name) for name in values if attribute(name) not in config.settings]
        if unread:
            raise ConfigError(listing([config.unread(name) for name in unread], where=where))
        return config

    def with_(self, **changes: Any) -> RunConfig:
        """A validated copy with some settings changed.

        A new net, rule or optimizer keeps the changed settings of the old one that it reads. The others are dropped,
        and a setting at the default of the old member gets the default of the new one.
        """
        kept = self.changed
        for family in FAMILIES.keys() & changes.keys():
            reads = self._read_by(family, changes[family])
            kept = {name: value for name, value in kept.items() if family_of(self, name) != family or name in reads}
        config = RunConfig.__new__(RunConfig)
        config._set({**kept, **changes}, self.own)
        return config

    def _read_by(self, family: str, name: Any) -> Settings:
        """The settings that a member reads; none if there is no such member."""
        registry = FAMILIES[family]
        if not isinstance(name, str) or name not in registry:
            return {}
        own: OwnMember | None = self.own.get(family)
        if own is not None and own.name == registry.own_name(name):
            return own.settings
        return registry.settings(name)

    def to_json(self) -> dict[str, Any]:
        """Every setting that the run reads, spelled like the flags, those that nothing reads, and the own members."""
        own = self.__dict__
        members = {family: one.to_json() for family, one in self.own.items()}
        return {
            **{key: own[name] for key, name in self._layout.keys},
            **{key(name): self.stray[name] for name in self.stray},
            **({MEMBERS: members} if members else {}),
        }

    @cached_property
    def run_id(self) -> str:
        """``net-rule-data-s<seed>-<hash>``; the hash covers every setting that differs from its default.

        Settings at their default are left out, so that a new setting in a later version does not rename old runs. If
        the later version does something else by default, its default is covered and the value of old runs left out
        (``Setting.before``). The hash also covers the full name and the source of own members.
        """
        sources = {f"source:{family}": one.source for family, one in self.own.items()}
        named = {name: value for name, value in self.settings.items() if value != self._layout.unsaid[name]}
        covered = {**{key(name): value for name, value in (named | self.stray).items()}, **sources}
        text = json.dumps(covered, sort_keys=True, allow_nan=False)
        return f"{self.run_stem}-{hashlib.sha256(text.encode()).hexdigest()[:10]}"

    @property
    def run_stem(self) -> str:
        """The run id without its hash. An own member is there by its class or function alone."""
        return f"{slug(self.net)}-{slug(self.rule)}-{slug(self.data)}-s{self.seed}"

    def label(self, on: str = "") -> str:
        """A short label, with the name of the net if given as ``on``: ``dfa + λ=0.01 on resmlp, no terminal norm``."""
        changed = self.changed
        penalty = f" + λ={changed['penalty']:g}" if changed.get("penalty") else ""
        place = f" on {on}" if on else ""
        return f"{self.rule}{penalty}{place}{', no terminal norm' if changed.get('no_terminal_norm') else ''}"

    def settings_of(self, family: str) -> dict[str, Any]:
        """The settings that the run's member of a family (net, rule or optimizer) reads."""
        return {name: self.__dict__[name] for name, home in self._layout.family.items() if home == family}

    def unread(self, name: str) -> str:
        """What is wrong with a setting that another net, rule or optimizer reads."""
        family = known()[name].family
        reads = ", ".join(map(key, self.settings_of(family))) or "none of them"
        return f"{family} {getattr(self, family)} does not read {key(name)}: {USELESS} (it reads {reads})"

    def unused(self) -> Iterator[str]:
        """One problem for each setting that nothing in this run reads and that is not at its default."""
        yield from map(self.unread, self.stray)
        for name in ("milestones", "lr_factor"):
            if self.schedule != "step" and name in self.changed:
                yield f"schedule {self.schedule} does not read {key(name)}: {USELESS} (schedule step reads it)"
        if self.schedule == "step" and not self.milestones:
            yield "schedule step: expected the epochs of its steps, got none. Give --milestones."
        if self.amp != "none" and self.dtype != "float32":
            yield f"amp {self.amp}: expected --dtype float32, the type of its weights, got {self.dtype}. Leave one out."


def read_toml(path: Path, what: str, *, advice: str) -> dict[str, Any]:
    """Read a TOML file. Refuses devices and pipes, which may block or never end, and very large files."""
    if not stat.S_ISREG(os.stat(path).st_mode):
        raise ConfigError(f"cannot read the {what} {path}: expected a file, got a directory, device or pipe.")
    with open(path, "rb") as stream:
        data = stream.read(TOML_LIMIT + 1)
    if len(data) > TOML_LIMIT:
        raise ConfigError(f"cannot read the {what} {path}: expected at most {TOML_LIMIT:,} bytes, got more. {advice}")
    try:
        return tomllib.loads(data.decode("utf-8"))
    except (ValueError, RecursionError) as error:  # not TOML, not text, or a number with thousands of digits
        raise ConfigError(f"{path} is not TOML: {error}. {advice}") from None


def listing(problems: list[str], *, where: str = "") -> str:
    """Problems as text, one line each."""
    at = f" ({where})" if where else ""
    return "\n".join(f"{problem}{at}" for problem in problems)


def identity(config: RunConfig) -> tuple[Any, ...]:
    """What all runs of one method share: all settings except ``BESIDES``, and the source of own members."""
    known: tuple[Any, ...] | None = config.__dict__.get("_identity")
    if known is None:  # a live page asks once a second for every run of a store
        settings = ((name, value) for name, value in (config.settings | config.stray).items() if name not in BESIDES)
        known = config.__dict__["_identity"] = (*settings, *config.own.items())
    return known


def must_be_current(config: RunConfig) -> None:
    """Refuse to run the code of an own member that is not the code with which the run was named."""
    for family, one in config.own.items():
        if (now := registry_of(family).digest(one.name)) != one.source:
            raise ConfigError(
                f"the source of {family} {one.name} changed: expected {one.source[:DIGITS]}, got {now[:DIGITS]} "
                f"({config.run_id}). Put the old source back, or train a new run."
            )


def command(config: RunConfig, *, runs: str, data_dir: str | None = None) -> str:
    """The command line that trains a run."""
    words = ["faudit", "train"]
    for name, value in config.settings.items():
        if value == config.defaults[name] and name not in ("net", "rule", "data", "epochs", "seed"):
            continue
        if isinstance(value, bool):
            words.append(f"--{key(name)}")
        else:
            words += [f"--{key(name)}", *(map(str, value) if isinstance(value, tuple) else [str(value)])]
    words += ["--runs", runs]
    if needs_files(config) and (data_dir or "data" not in config.own):
        words += ["--data-dir", data_dir or "DIR"]
    return " ".join(map(shlex.quote, words))


def needs_files(config: RunConfig) -> bool:
    """Whether a run needs dataset files that faudit does not include; an own dataset may need some."""
    return config.data not in SHIPPED


RUN: Settings = settings_of(RunConfig)  # the settings of every run
# Where the settings of a member come in lists and commands: after these settings of the run.
PLACES = {"seed": ("net", "rule"), "weight_decay": ("optimizer",)}


@dataclass(frozen=True)
class Layout:
    """The settings of a combination of net, rule and optimizer, in the order of lists and commands."""

    settings: Settings
    defaults: Mapping[str, Any]
    unsaid: Mapping[str, Any]  # what the id of a run leaves out
    family: Mapping[str, str]  # "run", "net", "rule" or "optimizer"
    keys: tuple[tuple[str, str], ...]  # the key and the attribute of each


@cache
def layout_of(net: str | OwnMember, rule: str | OwnMember, optimizer: str | OwnMember) -> Layout:
    """The settings of a run by its members."""
    members = {"net": net, "rule": rule, "optimizer": optimizer}
    told = {part: one if isinstance(one, str) else one.name for part, one in members.items()}
    settings: dict[str, Setting] = {}
    family: dict[str, str] = {}
    for name, own in RUN.items():
        parts: list[tuple[str, Settings]] = [("run", {name: own})]
        parts += [(part, declared_by(part, members[part])) for part in PLACES.get(name, ())]
        for part, declared in parts:
            if twice := [one for one in declared if one in settings or (one in RUN and part != "run")]:
                raise ConfigError(
                    f"{part} {told[part]} declares the setting {key(twice[0])}, which the "
                    f"{family.get(twice[0], 'run')} of this run has too. Give it another name."
                )
            settings |= declared
            family |= dict.fromkeys(declared, part)
    defaults = {name: one.default for name, one in settings.items()}
    unsaid = {name: one.unsaid for name, one in settings.items()}
    return Layout(settings, defaults, unsaid, family, tuple((key(name), name) for name in settings))


def declared_by(family: str, member: str | OwnMember) -> Settings:
    """The settings of a member."""
    return FAMILIES[family].settings(member) if isinstance(member, str) else member.settings


@dataclass(frozen=True)
class Known:
    """A setting of the run, or one that some members of a family declare."""

    family: str  # "run", "net", "rule" or "optimizer"
    readers: Mapping[str, Setting]  # member → its declaration; the run's own under "run"

    @cached_property
    def defaults(self) -> list[Any]:
        """The defaults of its readers."""
        return [one.default for one in self.readers.values()]

    @property
    def first(self) -> Setting:
        """The declaration of the first member that has it."""
        return next(iter(self.readers.values()))

    def is_alike(self, family: str, default: Any) -> bool:
        """Whether a member of a family may declare this setting too, with its own default."""
        return family == self.family and type(default) is type(self.first.default)

    def is_default(self, value: Any) -> bool:
        """Whether a value is the default of a member."""
        return value in self.defaults and type(value) is type(self.defaults[0])

    def parse(self, value: Any) -> Any:
        """The value as the first member that accepts it parses it; ValueError if none accepts it."""
        problems = []
        for one in self.readers.values():
            try:
                return one.parse(value)
            except ValueError as error:
                problems.append(error)
        raise problems[0]


def known() -> Mapping[str, Known]:
    """Every setting of the run, of every registered member and of the own members that were read, by attribute."""
    return _known(tuple(SEEN))


@cache
def _known(seen: tuple[tuple[str, OwnMember], ...]) -> Mapping[str, Known]:
    """The known settings, in the order of lists; with those of own members."""
    found: dict[str, Known] = {}
    for name, own in RUN.items():
        found[name] = Known("run", {"run": own})
        for family in PLACES.get(name, ()):
            readers: dict[str, dict[str, Setting]] = {}
            registered = [(member, FAMILIES[family].settings(member)) for member in FAMILIES[family].declaring]
            more = [(one.name, SEEN[home, one]) for home, one in seen if home == family]
            for member, settings in (*registered, *more):
                for one, declared in settings.items():
                    readers.setdefault(one, {})[member] = declared
            found |= {one: Known(family, declared) for one, declared in readers.items() if one not in found}
    return found


def all_keys() -> list[str]:
    """The key of every known setting."""
    return list(map(key, known()))


def family_of(config: RunConfig, name: str) -> str:
    """The family that a setting of a config belongs to: "run", "net", "rule" or "optimizer"."""
    family = config._layout.family
    return family[name] if name in family else known()[name].family
