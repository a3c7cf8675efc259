"""Run every timed benchmark after another in one process tree and gather the results in one document.

Inside a part the candidates alternate. The document holds the machine, the versions, and the load and the duration of
each part. ``QUICK`` has smaller shares of the same work: it shows that everything runs, not how fast it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

from faudit.bench import audit, growth, hourly, memory, startup, train, watch
from faudit.bench.timing import Keep, machine, nowhere, pictures
from faudit.bench.train import NETS, Steps

Result = dict[str, Any]


@dataclass(frozen=True)
class Part:
    """A benchmark: its function, its lines, what it reads of the command, and its sizes in full and when quick."""

    run: Callable[..., Result]
    lines: Callable[[Result], list[str]]
    reads: tuple[str, ...]
    full: Mapping[str, Any] = field(default_factory=dict)
    quick: Mapping[str, Any] = field(default_factory=dict)


FILES, THREADS, JOBS, STEPS, KEEP = "data_dir", "threads_used", "jobs", "steps", "keep"
FEW = {"resmlp": Steps(40, 10), "vit": Steps(1, 1, probes=1), "cnn": Steps(2, 2, probes=1)}
PARTS: dict[str, Part] = {
    "startup": Part(startup.startup_speed, startup.lines, (), {"repeats": 5}, {"repeats": 2}),
    "memory": Part(memory.memory_used, memory.lines, (FILES, THREADS)),
    "train": Part(
        train.train_speed, train.lines, (FILES, THREADS, STEPS, KEEP),
        {"repeats": 4, "steps": NETS}, {"repeats": 2, "steps": FEW},
    ),
    "audit": Part(audit.audit_speed, audit.lines, (FILES, THREADS), {"repeats": 3}, {"repeats": 1}),
    "watch": Part(watch.watch_speed, watch.lines, (FILES, THREADS), {"repeats": 3}, {"repeats": 1}),
    "growth": Part(
        growth.growth_speed, growth.lines, (THREADS,), {"repeats": 5}, {"repeats": 2, "sizes": 3}
    ),
    "hourly": Part(
        hourly.hourly_speed, hourly.lines, (FILES, THREADS, JOBS),
        {"repeats": 1}, {"repeats": 1, "runs": 2, "epochs": 1, "train_size": 5120, "plain_steps": 10},
    ),
}  # fmt: skip
ALONE: dict[str, Part] = {  # by name only: `train` includes it
    "roofline": Part(
        train.roofline_speed, train.lines, (FILES, THREADS, STEPS, KEEP),
        {"repeats": 4, "steps": NETS}, {"repeats": 2, "steps": FEW},
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Asked:
    """What the command asks of every part; None leaves it to the part."""

    data_dir: Path | None = None
    threads_used: int = 2
    jobs: int = 1
    repeats: int | None = None
    steps: int | None = None
    quick: bool = False

    def of(self, part: Part, keep: Keep = nowhere) -> Result:
        """Run one part. A long one gives what it has to ``keep`` while it goes on."""
        sizes = dict(part.quick if self.quick else part.full)
        if self.repeats is not None and "repeats" in sizes:
            sizes["repeats"] = self.repeats
        if self.steps is not None and "steps" in sizes:
            sizes["steps"] = {net: steps.at_most(self.steps) for net, steps in sizes["steps"].items()}
        given = {FILES: self.data_dir, THREADS: self.threads_used, JOBS: self.jobs, KEEP: keep}
        return part.run(**{name: given[name] for name in part.reads if name in given}, **sizes)


def everything(asked: Asked, keep: Keep = nowhere) -> Iterator[Result]:
    """The document after each part; ``keep`` also gets it within a long part. So a killed measurement is kept."""
    if asked.data_dir:
        pictures(asked.data_dir)  # raises before minutes are spent if the files are not there
    document: Result = {
        "what": "every benchmark of `faudit bench`" + (", quick" if asked.quick else ""),
        "machine": machine(asked.threads_used),
        "complete": False,
        "durations": {},
        "parts": {},
    }
    for name, part in PARTS.items():
        began = perf_counter()
        document["parts"][name] = asked.of(part, partial(keep_within, document, name, keep))
        document["durations"][name] = round(perf_counter() - began, 1)
        document["complete"] = name == list(PARTS)[-1]
        yield document


def keep_within(document: Result, name: str, keep: Keep, so_far: Result) -> None:
    """Keep the document with what a part has so far."""
    keep({**document, "parts": {**document["parts"], name: so_far}})


def lines(document: Result) -> list[str]:
    """The document as lines to print."""
    known = document["machine"]
    head = (
        f"{known['cpu']}, {known['cores']} cores, {known['memory_gb']} GB, {known['threads']} threads, torch "
        f"{known['torch']}; {sum(document['durations'].values()):.0f} s"
    )
    return [head, *(line for name, result in document["parts"].items() for line in ("", *PARTS[name].lines(result)))]
