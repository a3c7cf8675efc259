"""Train and measure every case of the benchmark with every seed, and keep the rows in a file.

A case is trained and measured like any run, with the trainer's epoch and the probes' row, after its fault was planted.
Its control is the matched frozen run of its configuration, as a user would have it in the store. Each measured row is
appended to a file. So a killed benchmark can resume, and judging again needs no training. Rows made by other code are
measured again.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from faudit.audit.audit import case_of, control_of
from faudit.audit.checks.check import Case, Control
from faudit.bench.protocol.cases import CASES
from faudit.config import RunConfig
from faudit.errors import StoreError
from faudit.store import answers
from faudit.store.files import contents, refusals, write_whole
from faudit.store.rows import Row, from_lines, to_line
from faudit.sweep.local import safe_path

PACKAGE = Path(__file__).parents[2]
# The code that decides a measured row. The audit is not part of it, since it only judges the rows.
MADE_BY = (
    "nets", "rules", "data", "probes", "bench/protocol/faults.py", "bench/protocol/wrong_rules.py",
    "config.py", "train.py", "experiment.py", "tensors.py", "rng.py",
)  # fmt: skip


@dataclass(frozen=True)
class Task:
    """One network to train: a planted case by name, or a control, whose name is empty."""

    case: str
    config: RunConfig

    @property
    def key(self) -> str:
        """What the row depends on besides the code: the configuration and what is planted."""
        changes = (CASES[self.case].plant, CASES[self.case].after) if self.case else ()
        return " ".join(filter(None, (self.case or "control", *changes, self.config.run_id)))


def tasks(seeds: Sequence[int]) -> list[Task]:
    """All cases and the controls that they need, each once."""
    found = {}
    for seed in seeds:
        for name, case in CASES.items():
            config = case.config.with_(seed=seed)
            for task in (Task(name, config), Task("", control_of(config))):
                found[task.key] = task
    return list(found.values())


def measured(task: Task) -> tuple[Row, str]:
    """Train a case to its end and measure it with every probe; returns its answers to the test samples too.

    Of a control only the accuracy and the answers are used.
    """
    from faudit.data import DATASETS
    from faudit.experiment import prepare, threads
    from faudit.train import measure, one_epoch, test_right

    config = task.config.with_(probe_epochs=(task.config.epochs,)) if task.case else task.config
    with threads(1):
        experiment = prepare(config, DATASETS[config.data](None))
        if task.case:
            experiment = CASES[task.case].planted(experiment)
        for epoch in range(1, config.epochs + 1):
            one_epoch(experiment, epoch)
        if task.case:
            experiment = CASES[task.case].ended(experiment)
        row = measure(experiment, config.epochs, train_loss=None, seconds=0.0)
        return row, answers.packed(test_right(experiment).tolist())


def all_rows(seeds: Sequence[int], *, out: Path, jobs: int) -> Iterator[tuple[int, int]]:
    """Measure the networks that ``out`` does not hold yet. Yields (done, total) after each."""
    wanted, code = tasks(seeds), made_by()
    there = {key for key, entry in held(out).items() if entry["code"] == code}
    todo = sorted((task for task in wanted if task.key not in there), key=lambda task: -task.config.epochs)
    yield len(wanted) - len(todo), len(wanted)
    with refusals(out):
        out.parent.mkdir(parents=True, exist_ok=True)
    whole_lines(out)
    with safe_path(), ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        waiting = {pool.submit(measured, task): task for task in todo}
        for count, future in enumerate(as_completed(waiting), start=1):
            row, right = future.result()
            line = {"key": waiting[future].key, "code": code, "row": to_line(row), answers.KEY: right}
            with refusals(out), out.open("a", encoding="utf-8") as stream:
                stream.write(json.dumps(line) + "\n")
            yield len(wanted) - len(todo) + count, len(wanted)


def whole_lines(out: Path) -> None:
    """Remove an incomplete last line, which a kill may leave, so that the next row starts on a new line."""
    if out.exists():
        data = contents(out)
        if data and not data.endswith(b"\n"):
            write_whole(out, data[: data.rfind(b"\n") + 1])


def held(out: Path) -> dict[str, dict[str, Any]]:
    """The rows of a file by key. The last row of a key wins, and an incomplete last line is ignored."""
    if not out.exists():
        return {}
    entries = {}
    with refusals(out):
        lines = contents(out).splitlines()
    for place, line in enumerate(lines, start=1):
        try:
            entry = json.loads(line)
            (row,) = from_lines([str(entry["row"]).encode()], where=str(out), first=place)
            entries[entry["key"]] = {"code": entry["code"], "row": row, "right": entry.get(answers.KEY)}
        except (ValueError, KeyError, TypeError, StoreError):
            if place < len(lines):
                raise StoreError(
                    f"{out}, line {place}, is not a measured row. Delete the file to measure again."
                ) from None
    return entries


def cases_of(seeds: Sequence[int], *, out: Path) -> dict[tuple[str, int], Case]:
    """Every case with every seed, as input for the checks."""
    entries = held(out)
    rows = {key: entry["row"] for key, entry in entries.items()}
    found = {}
    for seed in seeds:
        for name, case in CASES.items():
            config = case.config.with_(seed=seed)
            row, control = rows[Task(name, config).key], Task("", control_of(config))
            found[name, seed] = case_of(
                config,
                [row],
                samples=row["test_samples"],
                classes=row["classes"],
                control=Control(control.key, rows[control.key]["test_acc"], right=entries[control.key]["right"]),
                right=entries[Task(name, config).key]["right"],
            )
    return found


def made_by() -> str:
    """A digest of the code that decides what is measured."""
    digest = hashlib.sha256()
    for entry in MADE_BY:
        path = PACKAGE / entry
        for file in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
            digest.update(file.read_bytes())
    return digest.hexdigest()[:16]
