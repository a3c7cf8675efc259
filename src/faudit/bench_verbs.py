"""What ``faudit bench`` does: speed side by side in one run, and the protocol against planted faults."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from faudit.errors import ConfigError
from faudit.verbs import print_json


def run_bench(args: argparse.Namespace) -> int:
    return {"train": bench_train, "audit": bench_audit, "protocol": bench_protocol}[args.what](args)


def bench_train(args: argparse.Namespace) -> int:
    from faudit.bench import lines, train_speed

    result = train_speed(data_dir=args.data_dir, threads_used=args.threads, repeats=args.repeats)
    if args.json:
        print_json(result)
    else:
        for line in lines(result):
            print(line)
    return 0


def bench_audit(args: argparse.Namespace) -> int:
    from faudit.bench_audit import audit_speed, lines

    result = audit_speed(data_dir=args.data_dir, threads_used=args.threads, repeats=args.repeats)
    if args.json:
        print_json(result)
    else:
        for line in lines(result):
            print(line)
    return 0


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
    if args.json:
        print_json(result)
    else:
        for name, column in result["columns"].items():
            caught, flagged = column["broken"], column["healthy"]
            print(
                f"{name}: catches {caught['walked_back']} of {caught['n']} broken, flags {flagged['walked_back']} of "
                f"{flagged['n']} healthy"
            )
        print(out / "confusion.md")
    return 0
