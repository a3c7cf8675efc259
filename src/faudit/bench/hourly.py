"""Count runs per hour: a sweep of CIFAR-10 ResMLP runs against the plain trainer that trains them one after another.

The sweep is the whole command: imports, checks, workers, probes, checkpoints and tests count. Of the plain trainer only
its epochs count, scaled from some steps. It is timed before and after each sweep with the threads of the benchmark.
"""

from __future__ import annotations

import statistics
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from faudit.bench.sweep import swept
from faudit.bench.timing import checkout_module, machine, must_be_some, pictures, seconds, spread, told
from faudit.bench.train import BATCH, RULES_TIMED, plain_epochs
from faudit.config import RunConfig
from faudit.experiment import threads
from faudit.store.counts import counted

PLAIN_STEPS = 60


# Noise of CIFAR-10's shape as a dataset of the user's, since faudit has none; the module lies beside the study.
NOISE_MODULE, NOISE_SET = "bench_noise.py", "bench_noise:noise_set"
NOISE_CODE = "from faudit.bench.timing import noise\n\n\ndef noise_set(data_dir):\n    return noise()\n"


def hourly_speed(
    *, data_dir: Path | None, threads_used: int, jobs: int, repeats: int, runs: int = 8, epochs: int = 2,
    train_size: int = 0, plain_steps: int = PLAIN_STEPS,
) -> dict[str, Any]:  # fmt: skip
    """Runs per hour of both, and how many times more a sweep makes; half of the runs are BP, half DFA."""
    must_be_some(repeats=repeats, threads=threads_used, jobs=jobs, epochs=epochs)
    dataset, plain = pictures(data_dir), checkout_module("plain_trainer")
    epoch_samples = train_size or len(dataset.train_x)
    walls: list[float] = []
    theirs: list[float] = []
    with TemporaryDirectory(prefix="faudit-bench-") as folder, threads(threads_used):
        study = Path(folder) / "study.toml"
        (Path(folder) / NOISE_MODULE).write_text(NOISE_CODE)
        name = "cifar10" if data_dir else NOISE_SET
        study.write_text(study_text(name, runs=runs, epochs=epochs, train_size=train_size))

        def plain_round() -> float:
            """The mean seconds of an epoch of the plain trainer over both rules."""
            found = []
            for rule in RULES_TIMED:
                with plain_epochs(
                    plain, RunConfig(rule=rule, data="cifar10"), dataset, plain_steps, against=("plain",)
                ) as works:
                    works["plain"]()  # starts the workers
                    found.append(seconds(works["plain"]) * epoch_samples / (plain_steps * BATCH))
            return statistics.mean(found)

        for place in counted(range(repeats), lambda place: f"sweep {place + 1}"):
            before = plain_round()
            walls.append(swept(study, Path(folder) / f"runs-{place}", jobs=jobs, data_dir=data_dir))
            theirs.append(statistics.mean((before, plain_round())))
    ours = [3600 * runs / wall for wall in walls]
    plains = [3600 / (epochs * epoch) for epoch in theirs]
    return {
        "what": f"a sweep of {runs} CIFAR-10 ResMLP runs of {epochs} epochs, half BP, half DFA",
        "data": dataset.name,
        "samples": epoch_samples,
        "jobs": jobs,
        "repeats": repeats,
        "plain_steps": plain_steps,
        "sweep_seconds": [round(wall, 2) for wall in walls],
        "plain_epoch_seconds": [round(epoch, 2) for epoch in theirs],
        "runs_per_hour": {"sweep": spread(ours, 1), "plain": spread(plains, 1)},
        "more": spread(own / other for own, other in zip(ours, plains, strict=True)),
        "machine": machine(threads_used),
    }


def study_text(data: str, *, runs: int, epochs: int, train_size: int) -> str:
    """The sweep file."""
    seeds = list(range(runs // len(RULES_TIMED)))
    head = f'data = "{data}"\nepochs = {epochs}\ntrain-size = {train_size}\n'
    return f"{head}[grid]\nrule = {list(RULES_TIMED)}\nseed = {seeds}\n"


def lines(result: dict[str, Any]) -> list[str]:
    """The result as lines to print."""
    per_hour = {name: told(numbers, ".0f") for name, numbers in result["runs_per_hour"].items()}
    return [
        f"{result['what']}, data {result['data']}, {result['jobs']} at once, {result['repeats']} sweeps",
        f"    runs per hour: sweep {per_hour['sweep']}, plain trainer one after another {per_hour['plain']}: "
        f"{told(result['more'], '.1f')} times as many",
    ]
