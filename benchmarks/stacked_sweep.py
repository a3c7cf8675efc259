"""Time a sweep of 64 runs on the digits with and without stacked runs, in turns, and print the ratio of runs per hour.

    python benchmarks/stacked_sweep.py [--width 128] [--depth 4] [--batch-size 32] [--epochs 10] [--rounds 3]

Four rules, four seeds and four learning rates. A round times the whole command both ways: wall time, and the processor
time of all its processes, which other work on the machine disturbs less.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

STUDY = """data = "digits"
epochs = {epochs}
batch-size = {batch}
width = {width}
depth = {depth}
[grid]
rule = ["bp", "fa", "dfa", "frozen-dfa"]
lr = [3e-4, 1e-3, 2e-3, 3e-3]
seed = [{seeds}]
"""


def timed(study: Path, store: Path, *, stack: str) -> tuple[float, float]:
    """Seconds on the wall and of the processor for one sweep into an empty store."""
    words = [sys.executable, "-m", "faudit", "sweep", str(study), "--runs", str(store), "--stack", stack]
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(words, check=True, capture_output=True)
    wall, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    for name, value in {"width": 128, "depth": 4, "batch-size": 32, "epochs": 10, "rounds": 3, "seeds": 4}.items():
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--stack", default="auto")
    args = parser.parse_args()
    times: dict[str, list[tuple[float, float]]] = {"off": [], args.stack: []}
    with tempfile.TemporaryDirectory() as folder:
        study = Path(folder) / "study.toml"
        seeds = ", ".join(map(str, range(args.seeds)))
        sizes = {"epochs": args.epochs, "batch": args.batch_size, "width": args.width, "depth": args.depth}
        study.write_text(STUDY.format(seeds=seeds, **sizes))
        for round_ in range(args.rounds):
            for way in sorted(times, reverse=bool(round_ % 2)):
                times[way].append(timed(study, Path(folder) / f"{way}-{round_}", stack=way))
    pairs = list(zip(times["off"], times[args.stack], strict=True))
    wall = [off[0] / on[0] for off, on in pairs]
    processor = [off[1] / on[1] for off, on in pairs]
    told = {"runs": 16 * args.seeds, **sizes, "seconds": times, "wall": wall, "processor": processor}
    print(json.dumps({**told, "median_wall": median(wall), "median_processor": median(processor)}))


if __name__ == "__main__":
    main()
