"""``faudit train``: train or resume one run."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from faudit.cli.flags import Parser, add_data_dir, add_json, add_runs, add_trackers, trackers_of
from faudit.cli.output import complain, print_json, remark
from faudit.config import RunConfig, key, known, needs_files, own_member
from faudit.own_members import FAMILIES, registry_of
from faudit.settings import OneOf, Setting, epoch_list

if TYPE_CHECKING:
    from faudit.store.rows import Row
    from faudit.store.run import Run

HELP = "train one run, or resume it; a finished run is not trained again"
EXAMPLES = (
    "faudit train --net resmlp --rule dfa --data digits --epochs 30 --batch-size 32 --width 128 --seed 42",
    "faudit train --config run.toml --seed 43",
    "faudit train --rule kolen-pollack --help",
)


def add_flags(own: Parser) -> None:
    own.usage = f"{own.prog} [FLAGS]"  # a list of all flags would fill the screen
    own.add_argument(
        "-h", "--help", action="store_true",
        help="show this message; with --net, --rule or --optimizer only the settings of that member",
    )  # fmt: skip
    own.add_argument(
        "--config", type=Path, metavar="FILE", help="TOML file with keys spelled like these flags; flags override it"
    )
    for name, setting in known().items():
        if setting.family == "run":
            add_setting(own, name, setting.first)
    for family in FAMILIES:
        group = own.add_argument_group(f"settings of the {family}, with the members that read them")
        for name, setting in known().items():
            if setting.family == family:
                add_setting(group, name, setting.first, readers=setting.readers)
    add_runs(own)
    add_json(own)
    add_data_dir(own)
    add_trackers(own)
    own.add_argument(
        "--again", action="store_true", help="train from the start; the old files of the run are kept beside it"
    )


def add_own_flags(own: Parser, words: Sequence[str]) -> None:
    """Add the settings of the own members that the command line or its TOML file names."""
    look = Parser(add_help=False)
    look.add_argument("--config", type=Path)
    for family in FAMILIES:
        look.add_argument(f"--{family}")
    named, _ = look.parse_known_args(words)
    filed = RunConfig.members_in(named.config) if named.config else {}
    there = {option for action in own._actions for option in action.option_strings}
    for family, registry in FAMILIES.items():
        name = getattr(named, family) or filed.get(family)
        if isinstance(name, str) and registry.is_own(name):
            _, settings = own_member(family, name)
            group = own.add_argument_group(f"settings of the {family} {name}")
            for attribute, setting in settings.items():
                if f"--{key(attribute)}" not in there:
                    add_setting(group, attribute, setting)


def add_setting(
    own: argparse._ActionsContainer, name: str, setting: Setting, *, readers: Mapping[str, Setting] | None = None
) -> None:
    """Add a setting as a flag. The config checks its value, so that one error lists every problem."""
    about = [", ".join(readers)] if readers else []
    if isinstance(setting.default, bool):
        options: dict[str, Any] = {"action": "store_true", "default": None}
    elif isinstance(setting.default, tuple):
        options = {"nargs": "+", "metavar": "EPOCH" if setting.parse is epoch_list else "N"}
    else:
        options = {"metavar": name.upper()}
    if setting.default is not False and setting.default != ():
        others = [f"{written(one.default)} for {member}" for member, one in (readers or {}).items()
                  if one.default != setting.default]  # fmt: skip
        about.append("; ".join([f"default: {written(setting.default)}", *others]))
    text = with_choices(name, setting)
    help = f"{text} ({'; '.join(about)})" if about else text
    own.add_argument(f"--{key(name)}", help=help.replace("%", "%%"), **options)


def choices(name: str, setting: Setting) -> list[str]:
    """The names that a setting accepts; none if it accepts no names. Own members are not among them."""
    if name in (*FAMILIES, "data"):
        return list(registry_of(name))
    return list(setting.parse.names) if isinstance(setting.parse, OneOf) else []


def with_choices(name: str, setting: Setting) -> str:
    """The help of a setting with the names that it accepts. Controls are derived from rules, so they are not listed."""
    listed = list(FAMILIES[name].declaring) if name in FAMILIES else choices(name, setting)
    if all(one in setting.help for one in listed):
        return setting.help
    derived = " and frozen-RULE of each" if name == "rule" else ""
    return f"{setting.help}: {', '.join(listed)}{derived}"


def written(default: Any) -> str:
    """A default as it is typed."""
    return " ".join(map(str, default)) if isinstance(default, tuple) else str(default)


def members_help(args: argparse.Namespace) -> str:
    """The help of the members that were chosen with --net, --rule or --optimizer; of the command if there are none."""
    chosen = {family: name for family in FAMILIES if (name := getattr(args, family)) is not None}
    if not chosen:
        return str(args.own.format_help())
    words = [word for family, name in chosen.items() for word in (f"--{family}", name)]
    page = Parser(prog=" ".join([args.own.prog, *words]), usage="%(prog)s [FLAGS]", add_help=False,
                  epilog=f"`{args.own.prog} --help` lists the settings of every run.")  # fmt: skip
    for family, name in chosen.items():
        summary, settings = FAMILIES[family].summary(name), FAMILIES[family].settings(name)
        about = summary if settings else f"{summary} It has no settings of its own."
        group = page.add_argument_group(f"{family} {name}", about.replace("%", "%%"))
        for setting, declared in settings.items():
            add_setting(group, setting, declared)
    return page.format_help()


def run(args: argparse.Namespace) -> int:
    if args.help:
        print(members_help(args), end="")
        return 0
    given = {key(name): value for name in known() if (value := getattr(args, name, None)) is not None}
    config = RunConfig.from_toml(args.config, given) if args.config else RunConfig.asked(given, where="command line")

    from faudit.store.run import Run, Status, must_not_begin_again
    from faudit.store.summary import overview

    chosen = Run(args.runs / config.run_id)
    if args.again and (aside := chosen.set_aside()):
        remark([f"the old files of {chosen.path} are in {aside}"])
    if not args.again:
        must_not_begin_again(config, args.runs)
    finish(config, chosen, data_dir=args.data_dir, trackers=trackers_of(args))
    entry = overview(chosen)
    if args.json:
        print_json(entry)
    else:
        print(entry["run"])
    if entry["status"] == Status.FAILED:
        complain([f"{entry['reason']} ({chosen.path}/failed.json); the rows so far are kept"])
        return 1
    return 0


def finish(config: RunConfig, run: Run, *, data_dir: Path | None, trackers: Mapping[str, Path]) -> None:
    """Train the rest of a run. For a run that has ended, torch is imported only to check its data in ``data_dir``."""
    from faudit.store.run import ENDED

    if run.status in ENDED and not (data_dir and needs_files(config)):
        run.must_hold(config)
        run.must_be_whole()
        rows: Iterator[Row] = iter(())
    else:
        from faudit.train import stream

        rows = stream(config, run, data_dir=data_dir)
    from faudit.store.progress import shown
    from faudit.sweep.trackers.tracker import followed

    shown(followed(rows, config, run, trackers), total=config.epochs, title=config.rule)
