"""The configuration of a run: every setting that affects a result, validated. Its hash is part of the run's name.

TOML, JSON and messages spell keys like the command line's flags (``batch-size``). The attribute has underscores
instead. Importing this module does not import torch.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import shlex
import stat
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from operator import index
from pathlib import Path
from typing import Any, SupportsIndex

from faudit.data import DATASETS, SHIPPED
from faudit.errors import ConfigError
from faudit.nets import NETS
from faudit.registry import Registry, nearest, unknown
from faudit.rules import RULES

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

Parser = Callable[[Any], Any]
QUOTED = 200  # most characters of a value in a message
TOML_LIMIT = 1 << 20  # bytes
# Two runs of one method may differ in these settings: how long a run trained and how it was measured.
BESIDES = ("seed", "epochs", "log_every", "keep_epochs", "probe_epochs", "threads", "device")


def whole(low: int, high: int) -> Parser:
    """A parser of whole numbers in [low, high], given as numbers or as text."""

    def parse(value: Any) -> int:
        if isinstance(value, str) and re.fullmatch(r"[+-]?\d{1,20}", value):
            value = int(value)
        elif type(value) not in (int, bool) and isinstance(value, SupportsIndex):  # NumPy's whole numbers
            value = index(value)
        if type(value) is not int or not low <= value <= high:
            raise ValueError(f"a whole number from {low} to {high}")
        return value

    return parse


def number(low: float, *, above: bool = False) -> Parser:
    """A parser of finite numbers ≥ low (> low with ``above``)."""

    def parse(value: Any) -> float:
        wanted = f"a finite number {'>' if above else '≥'} {low:g}"
        if isinstance(value, bool) or not isinstance(value, int | float | str):
            raise ValueError(wanted)
        try:
            parsed = float(value)
        except (ValueError, OverflowError):
            raise ValueError(wanted) from None
        if not math.isfinite(parsed) or parsed < low or (above and parsed == low):
            raise ValueError(wanted)
        return parsed

    return parse


def switch(value: Any) -> bool:
    """A parser of true and false. It accepts no text, because the text "false" is truthy."""
    if not isinstance(value, bool):
        raise ValueError("true or false")
    return value


def one_of(names: Registry[Any] | tuple[str, ...]) -> Parser:
    """A parser of a name from a fixed set."""

    def parse(value: Any) -> str:
        if not isinstance(value, str) or value not in names:
            near = nearest(value, names) if isinstance(value, str) else ""
            raise ValueError(f"one of {', '.join(names)}{near}")
        return value

    return parse


def share(value: Any) -> float:
    """A parser of numbers from 0 to 1."""
    try:
        parsed: float = number(0.0)(value)
    except ValueError:
        parsed = 2.0
    if parsed > 1.0:
        raise ValueError("a number from 0 to 1")
    return parsed


def epoch_list(value: Any) -> tuple[int, ...]:
    """A parser of a list of epochs: words on the command line, a list in TOML."""
    words = value.replace(",", " ").split() if isinstance(value, str) else value
    if not isinstance(words, list | tuple):
        raise ValueError("a list of epochs")
    try:
        return tuple(sorted({whole(0, 1_000_000)(word) for word in words}))
    except ValueError as error:
        raise ValueError(f"a list of epochs, each {error}") from None


def device(value: Any) -> str:
    """A parser of torch's device names."""
    if not isinstance(value, str) or not re.fullmatch(r"cpu|cuda(:\d{1,3})?", value):
        raise ValueError("cpu, cuda or cuda:N")
    return value


def setting(default: Any, parse: Parser, text: str, *, of: str = "run") -> Any:
    """A config field. ``of`` is its family: a setting of a net, rule or optimizer is refused where it is not read."""
    return field(default=default, metadata={"parse": parse, "help": text, "of": of})


@dataclass(frozen=True)
class RunConfig:
    """The settings of one run. The defaults are the recipe of the paper, on the digits that faudit includes."""

    net: str = setting("resmlp", one_of(NETS), "network")
    rule: str = setting("bp", one_of(RULES), "learning rule")
    data: str = setting("digits", one_of(DATASETS), "dataset")
    epochs: int = setting(100, whole(1, 1_000_000), "passes over the training set")
    seed: int = setting(42, whole(0, 2**63 - 1), "seed of every random generator of the run")

    depth: int = setting(4, whole(1, 1024), "number of blocks, L", of="net")
    width: int = setting(256, whole(1, 65_536), "features of a hidden state, d", of="net")
    w2_std: float = setting(0.01, number(0.0), "standard deviation of each block's last layer at init", of="net")
    no_terminal_norm: bool = setting(False, switch, "leave out the LayerNorm before the head", of="net")
    no_residual: bool = setting(False, switch, "h_{l+1} = f_l(h_l), without the skip", of="net")

    patch: int = setting(4, whole(1, 1024), "pixels along a side of a patch (ViT)", of="net")
    heads: int = setting(4, whole(1, 1024), "attention heads (ViT)", of="net")
    mlp_ratio: int = setting(2, whole(1, 64), "hidden width of a ViT block's MLP, in widths", of="net")
    credit_tokens: str = setting(
        "all", one_of(("all", "cls")), "which tokens a signal teaches (ViT, local rules)", of="net"
    )
    alpha: float = setting(1.0, share, "α of StudentNet's activation (1 − α) z + α tanh(z)", of="net")

    penalty: float = setting(0.0, number(0.0), "λ of the branch penalty λ·mean Σ f_l(h_l)²", of="rule")
    clip: float = setting(1.0, number(0.0, above=True), "largest gradient norm of one block (local rules)", of="rule")
    credit_eps: float = setting(
        1e-6, number(0.0, above=True), "ε in the credit's normalisation a/(RMS(a)+ε) (local rules)", of="rule"
    )
    random_targets: bool = setting(False, switch, "train on fresh uniform labels in every minibatch")

    batch_size: int = setting(128, whole(1, 10_000_000), "samples per step")
    optimizer: str = setting("adamw", one_of(("adamw", "sgd")), "optimizer")
    lr: float = setting(1e-3, number(0.0, above=True), "learning rate at the start of the cosine schedule")
    weight_decay: float = setting(0.01, number(0.0), "weight decay")
    momentum: float = setting(0.0, share, "momentum of SGD", of="optimizer")
    no_augment: bool = setting(False, switch, "leave out the dataset's random crop and flip")

    log_every: int = setting(1, whole(1, 1_000_000), "epochs between two rows (the last epoch always has one)")
    keep_epochs: tuple[int, ...] = setting((), epoch_list, "epochs whose checkpoints are kept besides the last one")
    probe_epochs: tuple[int, ...] = setting(
        (), epoch_list, "epochs at which the costly probes run too (ρ, fresh feedback)"
    )
    eval_size: int = setting(1024, whole(1, 10_000_000), "test samples in the evaluation buffer (all if fewer)")
    dtype: str = setting("float32", one_of(("float32", "float64")), "floating-point type of the net")
    threads: int = setting(
        1, whole(1, 1024), "CPU threads; part of the run's identity, because it affects the last bits"
    )
    device: str = setting("cpu", device, "cpu, cuda or cuda:N")

    def __post_init__(self) -> None:
        problems = [problem for name in SETTINGS for problem in self._coerce(name)]
        for name in () if problems else ("keep_epochs", "probe_epochs"):
            if late := [epoch for epoch in getattr(self, name) if epoch > self.epochs]:
                problems.append(f"{key(name)}: expected epochs up to the last, {self.epochs}, got {late[0]}")
        if problems:
            raise ConfigError(listing(problems))

    def _coerce(self, name: str) -> Iterator[str]:
        """Replace the given value by the parsed one (1 → 1.0, "3" → 3), or yield what is wrong with it."""
        value = getattr(self, name)
        if type(value) is type(DEFAULTS[name]) and value == DEFAULTS[name]:
            return  # most settings are at their default; this halves the time to read thousands of runs
        try:
            parsed = SETTINGS[name]["parse"](value)
            if parsed is not value:
                object.__setattr__(self, name, parsed)
        except ValueError as error:
            yield f"{key(name)}: expected {error}, got {quoted(value)}"

    @classmethod
    def parse(cls, values: Mapping[str, Any], *, where: str) -> RunConfig:
        """A config from keys spelled like the flags; an error lists every problem."""
        problems = [unknown("setting", name, KEYS) for name in values if name not in ATTRIBUTES]
        known = {ATTRIBUTES[name]: value for name, value in values.items() if name in ATTRIBUTES}
        try:
            config = cls(**known)
        except ConfigError as error:
            raise ConfigError(listing([*problems, *str(error).split("\n")], where=where)) from None
        if problems:
            raise ConfigError(listing(problems, where=where))
        return config

    @classmethod
    def from_toml(cls, path: Path, overrides: Mapping[str, Any] | None = None) -> RunConfig:
        """A config from a TOML file; ``overrides`` (the command line's flags) take precedence."""
        try:
            values = read_toml(path, "config", advice="Write one `key = value` a line.")
        except OSError as error:
            raise ConfigError(
                f"cannot read the config {path}: {error.strerror}. Give --config an existing file."
            ) from None
        return cls.parse({**values, **(overrides or {})}, where=str(path))

    def with_(self, **changes: Any) -> RunConfig:
        """A validated copy with some settings changed."""
        return replace(self, **changes)

    def to_json(self) -> dict[str, Any]:
        """Every setting, spelled like the flags."""
        return {key: getattr(self, name) for key, name in ATTRIBUTES.items()}

    @cached_property
    def run_id(self) -> str:
        """``net-rule-data-s<seed>-<hash>``; the hash covers every setting that differs from its default.

        Settings at their default are left out, so that a new setting in a later version does not rename old runs.
        """
        values = {key: value for key, name in ATTRIBUTES.items() if (value := getattr(self, name)) != DEFAULTS[name]}
        text = json.dumps(values, sort_keys=True, allow_nan=False)
        return f"{self.net}-{self.rule}-{self.data}-s{self.seed}-{hashlib.sha256(text.encode()).hexdigest()[:10]}"

    def label(self, on: str = "") -> str:
        """A short label, with the name of the net if given as ``on``: ``dfa + λ=0.01 on resmlp, no terminal norm``."""
        penalty = f" + λ={self.penalty:g}" if self.penalty else ""
        place = f" on {on}" if on else ""
        return f"{self.rule}{penalty}{place}{', no terminal norm' if self.no_terminal_norm else ''}"

    def settings_of(self, family: str, wanted: set[str]) -> dict[str, Any]:
        """The settings of a family (net, rule or optimizer) that one of its members reads."""
        return {name: getattr(self, name) for name in SETTINGS if SETTINGS[name]["of"] == family and name in wanted}

    def unused_settings(self, family: str, wanted: set[str], *, member: str) -> list[str]:
        """One problem for each setting of the family that the member does not read and that is not at its default."""
        own = [name for name in SETTINGS if SETTINGS[name]["of"] == family]
        reads = ", ".join(key(name) for name in own if name in wanted) or "none of them"
        return [
            f"{member} does not read {key(name)}: leave it out, because it would change nothing (it reads {reads})"
            for name in own
            if name not in wanted and getattr(self, name) != default(name)
        ]


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


def key(name: str) -> str:
    """The key of an attribute, as in flags, TOML and JSON."""
    return name.replace("_", "-")


def attribute(name: str) -> str:
    """The attribute of a key."""
    return name.replace("-", "_")


def default(name: str) -> Any:
    """The default of a setting, by attribute name."""
    return DEFAULTS[name]


def quoted(value: Any) -> str:
    """A value as a message shows it, cut if it is long."""
    try:
        text = repr(value)
    except ValueError:  # Python does not print an int with thousands of digits
        return "a number of thousands of digits"
    return text if len(text) <= QUOTED else f"{text[: QUOTED - 1]}…"


def listing(problems: list[str], *, where: str = "") -> str:
    """Problems as text, one line each."""
    at = f" ({where})" if where else ""
    return "\n".join(f"{problem}{at}" for problem in problems)


def identity(config: RunConfig) -> tuple[Any, ...]:
    """The settings that all runs of one method share: all except ``BESIDES``."""
    return tuple(getattr(config, name) for name in SETTINGS if name not in BESIDES)


def command(config: RunConfig, *, runs: str, data_dir: str | None = None) -> str:
    """The command line that trains a run."""
    words = ["faudit", "train"]
    for name in SETTINGS:
        value = getattr(config, name)
        if value == default(name) and name not in ("net", "rule", "data", "epochs", "seed"):
            continue
        if SETTINGS[name]["parse"] is switch:
            words.append(f"--{key(name)}")
        else:
            words += [f"--{key(name)}", *(map(str, value) if isinstance(value, tuple) else [str(value)])]
    words += ["--runs", runs]
    if needs_files(config):
        words += ["--data-dir", data_dir or "DIR"]
    return " ".join(map(shlex.quote, words))


def needs_files(config: RunConfig) -> bool:
    """Whether a run needs dataset files that faudit does not include."""
    return config.data not in SHIPPED


SETTINGS: dict[str, Mapping[str, Any]] = {entry.name: entry.metadata for entry in fields(RunConfig)}
DEFAULTS: dict[str, Any] = {entry.name: entry.default for entry in fields(RunConfig)}
ATTRIBUTES: dict[str, str] = {key(name): name for name in SETTINGS}
KEYS: list[str] = [key(name) for name in SETTINGS]
