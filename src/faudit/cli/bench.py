"""``faudit bench``: measure speed side by side, and test the audit protocol on planted networks."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from faudit.cli.flags import Parser, add_json, count
from faudit.cli.output import print_json, refuse_stdout
from faudit.cli.progress import counting
from faudit.config import key
from faudit.errors import ConfigError, StoreError
from faudit.registry import unknown

if TYPE_CHECKING:
    from faudit.bench.everything import Asked

Told = tuple[dict[str, Any], list[str]]  # a result as JSON, and as lines to print


HELP = "measure the speed of faudit, or test the audit protocol on planted networks"
ABOUT = (
    "Measure the speed of faudit. Without a name, every part from startup to hourly runs after another. This takes "
    "about a quarter of an hour on two cores, and some minutes with --quick."
)
EXAMPLES = (
    "faudit bench --quick --out bench.json",
    "faudit bench train --data-dir data",
    "faudit bench protocol --seeds 7 --jobs 2 --out protocol",
)
WHAT = (
    "startup: commands in new processes; memory: the peak of a run; "
    "train: an epoch against a plain PyTorch trainer and the roofline; roofline: the same without the plain trainer; "
    "audit: an audit against an epoch; watch: a watched epoch and step against plain ones; "
    "growth: the cost by depth, width, batch and buffer; hourly: runs per hour of a sweep against the plain trainer; "
    "guard: the ratios that CI holds; "
    "rules: a step of every rule against BP's; "
    "serve: training beside a live page with 20 clients against training alone; "
    "sweep: a sweep against single runs; "
    "protocol: verdicts on networks that are healthy or broken by construction"
)


def add_flags(own: Parser) -> None:
    own.add_argument(
        "what", nargs="?", type=known_name, choices=list(BENCHES), metavar="NAME",
        help=f"{WHAT} (default: all from startup to hourly)",
    )  # fmt: skip
    own.add_argument(
        "--seeds", type=count, nargs="+", metavar="S", help="protocol: seeds of the networks (default: 21 22 23)"
    )
    own.add_argument(
        "--jobs", type=count, metavar="N", help="hourly, sweep, protocol: runs side by side (default: one per core)"
    )
    own.add_argument(
        "--out", type=Path, metavar="PATH", help="file for the result as JSON; protocol: folder (default: protocol)"
    )
    own.add_argument(
        "--data-dir", type=Path, metavar="DIR", help="folder with CIFAR-10 (default: noise of the same shape)"
    )
    own.add_argument("--threads", type=int, metavar="N", help="CPU threads (default: 2)")
    own.add_argument(
        "--repeats", type=int, metavar="N", help="how often each is timed (default: 1 to 5; rules: 25; serve: 40)"
    )
    own.add_argument(
        "--steps", type=int, metavar="N", help="train, roofline: most steps that are timed at once (default: by net)"
    )
    own.add_argument(
        "--quick", action="store_true", default=None, help="a small share of the work, to see that it runs"
    )
    own.add_argument(
        "--rule", nargs="+", metavar="NAME", help="rules: time these rules and BP, your own too (default: every rule)"
    )
    add_json(own)


def known_name(text: str) -> str:
    """The name of a benchmark."""
    if text not in BENCHES:
        raise argparse.ArgumentTypeError(unknown("benchmark", text, BENCHES))
    return text


def run(args: argparse.Namespace) -> int:
    """Run one benchmark, or all timed ones. A flag that it does not read is refused, since it would have no effect."""
    bench = EVERYTHING if args.what is None else BENCHES[args.what]
    named = "bench" if args.what is None else f"bench {args.what}"
    given = {name: value for name in FLAGS if (value := getattr(args, name)) is not None}
    if stray := [f"--{key(name)}" for name in given if name not in bench.flags]:
        reads = ", ".join(f"--{key(name)}" for name in bench.flags)
        raise ConfigError(f"{named} does not read {', '.join(stray)}: leave it out (it reads {reads})")
    for name in ("repeats", "steps", "threads", "jobs"):
        if given.get(name, 1) < 1:
            raise ConfigError(f"--{name}: expected at least 1, got {given[name]}")
    result, lines = bench.run(**{**bench.flags, **given})
    if args.json:
        print_json(result)
    else:
        print("\n".join(lines))
    return 0


def bench_everything(*, out: Path | None, **asked: Any) -> Told:
    """Run every part; with --out, keep the result after each, and within a long one."""
    from faudit.bench.everything import everything, lines

    must_be_writable(out)
    keep = kept_in(out)
    document: dict[str, Any] = {}
    for document in everything(asked_of(**asked), keep):
        keep(document)
    return document, lines(document)


def bench_part(name: str, *, out: Path | None, **asked: Any) -> Told:
    """Run one part; with --out, write its result, and that of a long part while it goes on."""
    from faudit.bench.everything import ALONE, PARTS

    must_be_writable(out)
    part, keep = {**PARTS, **ALONE}[name], kept_in(out)
    result = asked_of(**asked).of(part, keep)
    keep(result)
    return result, part.lines(result)


def kept_in(out: Path | None) -> Callable[[dict[str, Any]], None]:
    """Writes a result to --out, if there is one."""
    from faudit.store.files import write_json

    def keep(result: dict[str, Any]) -> None:
        if out is not None:
            write_json(out, result)

    return keep


def asked_of(*, threads: int = 2, jobs: int | None = None, **others: Any) -> Asked:
    """What the flags ask of a part."""
    from faudit.bench.everything import Asked
    from faudit.sweep.engine import cores

    return Asked(threads_used=threads, jobs=jobs or cores(), **others)


def must_be_writable(out: Path | None) -> None:
    """Refuse a file that cannot be written before minutes are spent on its content."""
    from faudit.store.files import must_be_file

    if out is None:
        return
    refuse_stdout("--out", out, "a file")
    must_be_file(out)
    if not os.access(out.parent, os.W_OK):
        raise StoreError(f"cannot write {out}: no permission in its folder. Choose another directory.")


def bench_guard(*, repeats: int) -> Told:
    """The ratios that CI holds, beside their limits."""
    from faudit.bench.guard import guarded, lines

    result = guarded(repeats=repeats)
    return result, lines(result)


def bench_serve(*, threads: int, repeats: int) -> Told:
    from faudit.bench.serve import lines, serve_speed

    result = serve_speed(threads=threads, repeats=repeats)
    return result, lines(result)


def bench_sweep(*, jobs: int | None) -> Told:
    from faudit.bench.sweep import lines, sweep_speed
    from faudit.sweep.engine import cores

    result = sweep_speed(jobs=jobs or cores())
    return result, lines(result)


def bench_rules(*, threads: int, repeats: int, out: Path | None, rule: Sequence[str]) -> Told:
    """Time every rule, or those of --rule; with --out also write the result as JSON."""
    from faudit.bench.rules import lines, rules_speed
    from faudit.store.files import write_json

    must_be_writable(out)
    result = rules_speed(threads_used=threads, repeats=repeats, only=rule)
    if out is not None:
        write_json(out, result)
    return result, lines(result)


def bench_protocol(*, seeds: Sequence[int], jobs: int | None, out: Path) -> Told:
    """Train the missing planted networks, judge all of them, and write the table."""
    from faudit.bench.protocol.confusion import HALVES, document, page
    from faudit.bench.protocol.networks import all_rows, cases_of, made_by
    from faudit.store.files import write_json, write_text
    from faudit.sweep.engine import cores

    refuse_stdout("--out", out, "a directory")
    seeds = list(dict.fromkeys(seeds))
    rows = out / "rows.jsonl"
    with counting("bench protocol") as tell:
        for place, (done, wanted) in enumerate(all_rows(seeds, out=rows, jobs=jobs or cores())):
            tell(done, wanted, "networks measured" if place else "")
    result = document(cases_of(seeds, out=rows), seeds=seeds, code=made_by())
    write_json(out / "confusion.json", result)
    write_text(out / "confusion.md", page(result))
    lines = []
    for part, title in HALVES.items():
        lines.append(f"{title}:")
        for name, column in result["columns"].items():
            broken, healthy = column[part]["broken"], column[part]["healthy"]
            lines.append(
                f"  {name}: catches {broken['walked_back']} of {broken['n']} broken, "
                f"flags {healthy['walked_back']} of {healthy['n']} healthy "
                f"({healthy['trustworthy']} trustworthy, {healthy['inconclusive']} inconclusive)"
            )
    return result, [*lines, str(out / "confusion.md")]


@dataclass(frozen=True)
class Bench:
    """A benchmark: its function, and the flags it reads with their defaults."""

    run: Callable[..., Told]
    flags: Mapping[str, Any]


SHARED = {"repeats": None, "quick": False, "out": None}
ON_DATA = {"data_dir": None, "threads": 2, **SHARED}
EVERYTHING = Bench(bench_everything, {**ON_DATA, "steps": None, "jobs": None})
BENCHES = {
    "startup": Bench(partial(bench_part, "startup"), SHARED),
    "memory": Bench(partial(bench_part, "memory"), {"data_dir": None, "threads": 2, "out": None}),
    "train": Bench(partial(bench_part, "train"), {**ON_DATA, "steps": None}),
    "roofline": Bench(partial(bench_part, "roofline"), {**ON_DATA, "steps": None}),
    "audit": Bench(partial(bench_part, "audit"), ON_DATA),
    "watch": Bench(partial(bench_part, "watch"), ON_DATA),
    "growth": Bench(partial(bench_part, "growth"), {"threads": 2, **SHARED}),
    "hourly": Bench(partial(bench_part, "hourly"), {**ON_DATA, "jobs": None}),
    "guard": Bench(bench_guard, {"repeats": 7}),
    "rules": Bench(bench_rules, {"threads": 2, "repeats": 25, "out": None, "rule": ()}),
    "serve": Bench(bench_serve, {"threads": 2, "repeats": 40}),
    "sweep": Bench(bench_sweep, {"jobs": None}),
    "protocol": Bench(bench_protocol, {"seeds": (21, 22, 23), "jobs": None, "out": Path("protocol")}),
}
FLAGS = ("seeds", "jobs", "out", "data_dir", "threads", "repeats", "steps", "quick", "rule")
