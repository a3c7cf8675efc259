"""What ``faudit bench`` does: speed side by side in one run, and the protocol against planted faults."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from faudit.errors import ConfigError
from faudit.verbs import print_json


def run_bench(args: argparse.Namespace) -> int:
    return BENCHES[args.what](args)


def told(result: dict[str, Any], lines: list[str], *, as_json: bool) -> int:
    """A measured result, for a program or a person."""
    if as_json:
        print_json(result)
    else:
        print("\n".join(lines))
    return 0


def bench_train(args: argparse.Namespace) -> int:
    from faudit.bench import lines, train_speed

    result = train_speed(data_dir=args.data_dir, threads_used=args.threads, repeats=args.repeats)
    return told(result, lines(result), as_json=args.json)


def bench_audit(args: argparse.Namespace) -> int:
    from faudit.bench_audit import audit_speed, lines

    result = audit_speed(data_dir=args.data_dir, threads_used=args.threads, repeats=args.repeats)
    return told(result, lines(result), as_json=args.json)


def bench_sweep(args: argparse.Namespace) -> int:
    from faudit.bench_sweep import lines, sweep_speed
    from faudit.sweep.local import cores

    result: dict[str, Any] = sweep_speed(jobs=cores() if args.jobs is None else args.jobs)
    return told(result, lines(result), as_json=args.json)


def bench_protocol(args: argparse.Namespace) -> int:
    """Train what is missing of the planted cases, judge them all, write the table."""
    from faudit.planted.bench import all_rows, cases_of, made_by
    from faudit.planted.confusion import document, page
    from faudit.store import write_json, write_whole
    from faudit.sweep.local import cores

    seeds = list(dict.fromkeys(args.seeds))
    if args.jobs == 0:
        raise ConfigError("--jobs: expected at least 1, got 0")
    out: Path = args.out
    rows = out / "rows.jsonl"
    for done, wanted in all_rows(seeds, out=rows, jobs=args.jobs or cores()):
        print(f"{done} of {wanted} networks measured", file=sys.stderr)
    result = document(cases_of(seeds, out=rows), seeds=seeds, code=made_by())
    write_json(out / "confusion.json", result)
    write_whole(out / "confusion.md", page(result).encode())
    lines = [
        f"{name}: catches {column['broken']['walked_back']} of {column['broken']['n']} broken, "
        f"flags {column['healthy']['walked_back']} of {column['healthy']['n']} healthy"
        for name, column in result["columns"].items()
    ]
    return told(result, [*lines, str(out / "confusion.md")], as_json=args.json)


BENCHES: dict[str, Callable[[argparse.Namespace], int]] = {
    "train": bench_train,
    "audit": bench_audit,
    "sweep": bench_sweep,
    "protocol": bench_protocol,
}
