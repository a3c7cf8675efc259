"""Compare the paper's floor with the float64 referee on real networks, for several buffer sizes.

    python benchmarks/referee.py --runs RUNS [--data-dir DIR] [--out FILE.md]

It uses every finished run of a store that has its weights, and buffers of 128, 1024 and 2048 test samples. It prints
the median ‖∂L/∂h_L‖ of the mean loss (the paper's number), whether that is below the paper's 1e-7, the share of samples
whose gradient direction float64 confirms at the worst tap, and the number of samples that are fitted to the last bit.
The paper's number falls with the buffer size as 1/n, although the network is the same.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from faudit.audit.measure import reading_of
from faudit.audit.method import title
from faudit.config import RunConfig
from faudit.errors import FauditError
from faudit.probes.precision import Precision
from faudit.store.files import write_whole
from faudit.store.run import Run, runs_in
from faudit.tensors import median, norms

FLOOR = 1e-7
SIZES = (128, 1024, 2048)
HEAD = ["network", "test accuracy", "‖h_L‖", "n", "‖g_L‖ of the mean loss", "floor", "float64 agrees on", "fitted"]


def lines(run: Run, config: RunConfig, data_dir: Path | None) -> list[list[str]]:
    out: list[list[str]] = []
    seen = 0
    for size in SIZES:
        reading, _ = reading_of(run, config.with_(eval_size=size), data_dir=data_dir)
        n = len(reading.y)
        if n == seen:
            continue  # the test set has no more samples
        seen = n
        floor = median(norms(reading.gradients[-1])) / n
        row = Precision().measure(reading)
        shares = row["precision_agree"]
        agrees = "–" if None in shares else f"{min(shares):.1%}"
        out.append(
            [
                f"{title(config)}, seed {config.seed}",
                f"{run.rows()[-1]['test_acc']:.3f}",
                f"{median(norms(reading.taps[-1])):.2g}",
                str(n),
                f"{floor:.2g}",
                "fires" if floor < FLOOR else "passes",
                agrees,
                f"{row['precision_fitted']} of {n}",
            ]
        )
    return out


def main() -> None:
    own = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    own.add_argument("--runs", type=Path, required=True)
    own.add_argument("--data-dir", type=Path)
    own.add_argument("--out", type=Path)
    own.add_argument("names", nargs="*", help="only these runs")
    args = own.parse_args()
    table = [HEAD, ["---"] * len(HEAD)]
    for run in runs_in(args.runs):
        if run.status != "done" or not run.checkpoint.exists() or (args.names and run.name not in args.names):
            continue
        try:
            table += lines(run, run.config(), args.data_dir)
        except FauditError as error:
            print(f"{run.name} is left out: {error}")
    text = "\n".join(f"| {' | '.join(cells)} |" for cells in table) + "\n"
    print(text)
    if args.out:
        write_whole(args.out, text.encode())


if __name__ == "__main__":
    main()
