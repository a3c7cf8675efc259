"""Measure how much faster stacked runs are than runs one by one, by the size of the net: the numbers behind the rule.

    python benchmarks/stack_rule.py [--epochs 3] [--runs 8] [WIDTH,DEPTH,BATCH …]

Both ways train whole runs on the digits in this process, with their rows and checkpoints. The numbers are ratios of
processor time for BP, DFA and frozen DFA (``faudit.stack.plan``).
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path

import torch

from faudit.config import RunConfig
from faudit.stack.plan import weights_of, width_of
from faudit.sweep.engine import attempt
from faudit.sweep.together import attempt_all

SHAPES = ("32,2,32", "64,2,32", "64,4,128", "128,4,32", "128,4,128", "256,4,32", "256,4,128")


def seconds(configs: list[RunConfig], store: Path, *, together: bool) -> float:
    """The processor time of training these runs."""
    began = time.process_time()
    told = [config.to_json() for config in configs]
    if together:
        answers = [answer for _, answer in attempt_all(told, store, data_dir=None)]
    else:
        answers = [attempt(one, store, data_dir=None) for one in told]
    assert all(answer.word == "ended" for answer in answers), answers
    return time.process_time() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--runs", type=int, default=0, help="runs of a stack (default: as the rule says, at least 4)")
    parser.add_argument("shapes", nargs="*", default=SHAPES)
    args = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        for place, shape in enumerate(args.shapes):
            width, depth, batch = map(int, shape.split(","))
            base = RunConfig(width=width, depth=depth, batch_size=batch, epochs=args.epochs)
            runs = args.runs or max(4, width_of(base))
            found = {}
            for rule in ("bp", "dfa", "frozen-dfa"):
                configs = [base.with_(rule=rule, seed=seed) for seed in range(runs)]
                times = [
                    seconds(configs, Path(folder) / f"{place}-{rule}-{together}", together=together)
                    for together in (False, True)
                ]
                found[rule] = round(times[0] / times[1], 2)
            print(json.dumps({"shape": shape, "runs": runs, "work": weights_of(base) * batch, **found}), flush=True)


if __name__ == "__main__":
    main()
