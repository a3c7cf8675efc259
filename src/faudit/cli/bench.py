"""``faudit bench``: measure speed side by side, and test the audit protocol on planted networks."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from faudit.cli.flags import Parser, add_json, count
from faudit.cli.output import print_json, refuse_stdout
from faudit.cli.progress import counting
from faudit.config import key
from faudit.errors import ConfigError

Told = tuple[dict[str, Any], list[str]]  # a result as JSON, and as lines to print


HELP = "measure the speed of faudit, or test the audit protocol on planted networks"
EXAMPLES = (
    "faudit bench train",
    "faudit bench protocol --seeds 7 --jobs 2 --out protocol",
)
WHAT = (
    "train: an epoch against a plain PyTorch trainer; audit: an audit against an epoch; "
    "rules: a step of every rule against BP's; watch: a watched epoch and step against plain ones; "
    "serve: training beside a live page with 20 clients against training alone; "
    "sweep: a sweep against single runs; "
    "protocol: verdicts on networks that are healthy or broken by construction"
)


def add_flags(own: Parser) -> None:
    own.add_argument("what", choices=list(BENCHES), metavar="|".join(BENCHES), help=WHAT)
    own.add_argument(
        "--seeds", type=count, nargs="+", metavar="S", help="protocol: seeds of the networks (default: 21 22 23)"
    )
    own.add_argument(
        "--jobs", type=count, metavar="N", help="sweep, protocol: runs side by side (default: one per core)"
    )
    own.add_argument(
        "--out", type=Path, metavar="PATH", help="protocol: folder for the results (default: protocol); rules: file"
    )
    own.add_argument(
        "--data-dir",
        type=Path,
        metavar="DIR",
        help="train, audit, watch: folder with CIFAR-10 (default: noise of the same shape)",
    )
    own.add_argument("--threads", type=int, metavar="N", help="all but sweep, protocol: CPU threads (default: 2)")
    own.add_argument(
        "--repeats",
        type=int,
        metavar="N",
        help="all but sweep, protocol: how often each is timed (default: 3; rules: 25; serve: 10)",
    )
    own.add_argument(
        "--rule", nargs="+", metavar="NAME", help="rules: time these rules and BP, your own too (default: every rule)"
    )
    add_json(own)


def run(args: argparse.Namespace) -> int:
    """Run one benchmark. A flag that it does not read is refused, since it would have no effect."""
    bench = BENCHES[args.what]
    given = {name: value for name in FLAGS if (value := getattr(args, name)) is not None}
    if stray := [f"--{key(name)}" for name in given if name not in bench.flags]:
        reads = ", ".join(f"--{key(name)}" for name in bench.flags)
        raise ConfigError(f"bench {args.what} does not read {', '.join(stray)}: leave it out (it reads {reads})")
    result, lines = bench.run(**{**bench.flags, **given})
    if args.json:
        print_json(result)
    else:
        print("\n".join(lines))
    return 0


def bench_train(*, data_dir: Path | None, threads: int, repeats: int) -> Told:
    from faudit.bench.train import lines, train_speed

    result = train_speed(data_dir=data_dir, threads_used=threads, repeats=repeats)
    return result, lines(result)


def bench_audit(*, data_dir: Path | None, threads: int, repeats: int) -> Told:
    from faudit.bench.audit import audit_speed, lines

    result = audit_speed(data_dir=data_dir, threads_used=threads, repeats=repeats)
    return result, lines(result)


def bench_watch(*, data_dir: Path | None, threads: int, repeats: int) -> Told:
    from faudit.bench.watch import lines, watch_speed

    result = watch_speed(data_dir=data_dir, threads_used=threads, repeats=repeats)
    return result, lines(result)


def bench_serve(*, threads: int, repeats: int) -> Told:
    from faudit.bench.serve import lines, serve_speed

    result = serve_speed(threads=threads, repeats=repeats)
    return result, lines(result)


def bench_sweep(*, jobs: int | None) -> Told:
    from faudit.bench.sweep import lines, sweep_speed
    from faudit.sweep.engine import cores

    result = sweep_speed(jobs=cores() if jobs is None else jobs)
    return result, lines(result)


def bench_rules(*, threads: int, repeats: int, out: Path | None, rule: Sequence[str]) -> Told:
    """Time every rule, or those of --rule; with --out also write the result as JSON."""
    from faudit.bench.rules import lines, rules_speed
    from faudit.store.files import write_json

    result = rules_speed(threads_used=threads, repeats=repeats, only=rule)
    if out is not None:
        refuse_stdout("--out", out, "a file")
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
    if jobs == 0:
        raise ConfigError("--jobs: expected at least 1, got 0")
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


TIMED = {"data_dir": None, "threads": 2, "repeats": 3}
BENCHES = {
    "train": Bench(bench_train, TIMED),
    "audit": Bench(bench_audit, TIMED),
    "watch": Bench(bench_watch, TIMED),
    "serve": Bench(bench_serve, {"threads": 2, "repeats": 10}),
    "sweep": Bench(bench_sweep, {"jobs": None}),
    "protocol": Bench(bench_protocol, {"seeds": (21, 22, 23), "jobs": None, "out": Path("protocol")}),
    "rules": Bench(bench_rules, {"threads": 2, "repeats": 25, "out": None, "rule": ()}),
}
FLAGS = {name: value for bench in BENCHES.values() for name, value in bench.flags.items()}
