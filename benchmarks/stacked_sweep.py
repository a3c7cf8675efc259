"""Time a sweep of 64 runs on the digits two ways in turns, and print the ratio of runs per hour.

    python benchmarks/stacked_sweep.py [--width 128] [--depth 4] [--batch-size 32] [--epochs 10] [--rounds 3]
    python benchmarks/stacked_sweep.py --against PATH     PATH is a checkout of another version of faudit

Four rules, four seeds and four learning rates. One way is the sweep of this checkout with ``--stack auto``. The other
is the same with ``--stack off``, or the sweep of another checkout as that version does it (``git worktree add --detach
PATH COMMIT``). A round times the whole command both ways: wall time, and the processor time of all its processes, which
other work on the machine disturbs less.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

HERE = Path(__file__).resolve().parents[1]
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


def timed(study: Path, store: Path, *, checkout: Path, flags: list[str]) -> tuple[float, float]:
    """Seconds on the wall and of the processor for one sweep of a checkout into an empty store."""
    words = [sys.executable, "-m", "faudit", "sweep", str(study), "--runs", str(store), *flags]
    environment = {**os.environ, "PYTHONPATH": str(checkout / "src")}
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(words, check=True, capture_output=True, env=environment)
    wall, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, value in {"width": 128, "depth": 4, "batch-size": 32, "epochs": 10, "rounds": 3, "seeds": 4}.items():
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--stack", default="auto")
    parser.add_argument("--against", type=Path, metavar="PATH", help="a checkout of another version of faudit")
    args = parser.parse_args()
    if args.against and not (args.against / "src/faudit").is_dir():
        parser.error(f"--against: expected a checkout of faudit, got {args.against}")
    ways: dict[str, tuple[Path, list[str]]] = {
        "before": (args.against.resolve(), []) if args.against else (HERE, ["--stack", "off"]),
        "now": (HERE, ["--stack", args.stack]),
    }
    times: dict[str, list[tuple[float, float]]] = {"before": [], "now": []}
    with tempfile.TemporaryDirectory() as folder:
        study = Path(folder) / "study.toml"
        seeds = ", ".join(map(str, range(args.seeds)))
        sizes = {"epochs": args.epochs, "batch": args.batch_size, "width": args.width, "depth": args.depth}
        study.write_text(STUDY.format(seeds=seeds, **sizes))
        for round_ in range(args.rounds):
            for way in sorted(times, reverse=bool(round_ % 2)):
                checkout, flags = ways[way]
                times[way].append(timed(study, Path(folder) / f"{way}-{round_}", checkout=checkout, flags=flags))
    pairs = list(zip(times["before"], times["now"], strict=True))
    wall = [before[0] / now[0] for before, now in pairs]
    processor = [before[1] / now[1] for before, now in pairs]
    told = {"runs": 16 * args.seeds, **sizes, "seconds": times, "wall": wall, "processor": processor}
    told |= {"before": " ".join([str(ways["before"][0]), *ways["before"][1]])}
    print(json.dumps({**told, "median_wall": median(wall), "median_processor": median(processor)}))


if __name__ == "__main__":
    main()
