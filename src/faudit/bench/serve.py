"""Time what a live page costs: epochs of training with and without ``faudit serve`` and its polling clients.

One process trains a StudentNet on the teacher's data and logs every epoch. So each epoch is a change that the server
reads and every client fetches. Server and clients are processes of their own, on the same machine. They are stopped and
continued in turns (SIGSTOP, SIGCONT), so both kinds of epoch come from one run. The clients' own work counts too.

Wall times of a small machine differ by more than the server costs. So the benchmark also tells which share of the time
the training threads waited for a core that another process had. All threads together cannot lose more to the scheduler
than they waited. So how much longer they wait beside the server bounds the slowdown, and it varies far less than wall
times. Only Linux counts this (``/proc/self/task``).
"""

from __future__ import annotations

import os
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from faudit.bench.timing import must_be_some, seconds
from faudit.config import RunConfig
from faudit.errors import StoreError
from faudit.stats import median_interval
from faudit.store.counts import counted
from faudit.store.environment import environment
from faudit.store.run import Run
from faudit.train import fit, stream

CLIENTS = 20
# Seconds of training in one measurement: each client asks twice, and the machine hardly drifts within a pair.
SPAN = 4.0
TRAINED = RunConfig(net="student", data="teacher", rule="dfa", width=128, epochs=1_000_000)
OTHERS = RunConfig(rule="dfa", epochs=20, width=16, depth=4, batch_size=256)  # runs that are there before
SEEDS = range(8)


def serve_speed(*, threads: int, repeats: int) -> dict[str, Any]:
    """Seconds of some epochs with and without a server under polling clients, in turns, and the slowdown."""
    must_be_some(repeats=repeats, threads=threads)
    with TemporaryDirectory() as folder:
        store = Path(folder) / "runs"
        for seed in SEEDS:
            fit(OTHERS.with_(seed=seed), store)
        config = TRAINED.with_(threads=threads)
        rows = stream(config, Run(store / config.run_id))
        try:
            next(rows)  # the row before training
            epochs = max(1, round(SPAN / min(seconds(lambda: next(rows)) for _ in range(3))))
            with served(store) as (processes, used):
                times, waits = measured(rows, processes, epochs=epochs, repeats=repeats)
        finally:
            rows.close()  # type: ignore[attr-defined]  # stream is a generator
    if used["answers"] < CLIENTS:
        raise StoreError(
            f"bench serve: expected at least {CLIENTS} answers of the server, got {used['answers']:.0f}. Try again."
        )
    slower = [with_ / without - 1.0 for without, with_ in zip(times["alone"], times["served"], strict=True)]
    longer = [with_ - without for without, with_ in zip(waits["alone"], waits["served"], strict=True)]
    return {
        "what": f"{epochs} epochs of StudentNet (d 128) on the teacher's data, {len(SEEDS)} other runs in the store",
        "clients": CLIENTS,
        "threads": threads,
        "repeats": repeats,
        "seconds": {name: [round(value, 4) for value in values] for name, values in times.items()},
        "slower": {
            "median": round(statistics.median(slower), 4),
            "of_medians": round(statistics.median(times["served"]) / statistics.median(times["alone"]) - 1.0, 4),
            "least": round(min(slower), 4),
            "most": round(max(slower), 4),
            "interval": rounded(median_interval(slower)),
        },
        "waited": {
            **{name: round(statistics.median(shares), 4) for name, shares in waits.items()},
            "more": round(statistics.median(longer), 4),
            "interval": rounded(median_interval(longer)),
        },
        "answers": used["answers"],
        "server_core_share": round(used["server"] / sum(times["served"]), 4),
        "clients_core_share": round(used["clients"] / sum(times["served"]), 4),
        "environment": environment(),
    }


def rounded(interval: Iterable[float | None]) -> list[float | None]:
    return [None if edge is None else round(edge, 4) for edge in interval]


def measured(
    rows: Iterator[Any], processes: list[subprocess.Popen[str]], *, epochs: int, repeats: int
) -> tuple[dict[str, list[float]], dict[str, list[float]]]:
    """The seconds of each kind, and the share of them that was spent waiting for a core.

    Every other pair begins with the other kind, because a machine drifts.
    """
    times: dict[str, list[float]] = {"alone": [], "served": []}
    waits: dict[str, list[float]] = {"alone": [], "served": []}

    def some() -> None:
        for _ in range(epochs):
            next(rows)

    for pair in counted(range(repeats), lambda place: f"repeat {place + 1}"):
        for kind in ("alone", "served") if pair % 2 == 0 else ("served", "alone"):
            send(processes, signal.SIGSTOP if kind == "alone" else signal.SIGCONT)
            next(rows)  # not timed: a server that goes on after a stop has the past seconds to catch up with
            before = waited()
            times[kind].append(seconds(some))
            waits[kind].append((waited() - before) / times[kind][-1])
    return times, waits


def waited() -> float:
    """The seconds that threads of this process were ready to run and had no core; 0 where Linux does not tell."""
    total = 0
    for file in Path("/proc/self/task").glob("*/schedstat"):
        with suppress(OSError):  # a thread that has just ended
            total += int(file.read_text().split()[1])
    return total / 1e9


@contextmanager
def served(store: Path) -> Iterator[tuple[list[subprocess.Popen[str]], dict[str, float]]]:
    """A server and its clients. At the end: the answers, and the processor time of both since they polled."""
    python = [sys.executable, "-m"]
    words = [*python, "faudit", "serve", "--runs", str(store), "--port", "0"]
    used: dict[str, float] = {}
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as server:
        assert server.stdout is not None
        address = server.stdout.readline().strip()
        words = [*python, "faudit.bench.clients", address, str(CLIENTS)]
        with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as clients:
            assert clients.stdout is not None
            time.sleep(2.0)  # until each client has asked
            before = [spent(server.pid), spent(clients.pid)]
            try:
                yield [server, clients], used
            finally:
                send([server, clients], signal.SIGCONT)
                used["server"], used["clients"] = spent(server.pid) - before[0], spent(clients.pid) - before[1]
                clients.send_signal(signal.SIGTERM)
                used["answers"] = int(clients.stdout.readline() or 0)
                server.send_signal(signal.SIGTERM)  # a shell lets its background jobs ignore SIGINT


def send(processes: list[subprocess.Popen[str]], number: int) -> None:
    for process in processes:
        process.send_signal(number)


def spent(pid: int) -> float:
    """The processor seconds of a process; only Linux tells them, elsewhere 0."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def lines(result: dict[str, Any]) -> list[str]:
    """The result as lines to print."""
    alone, with_ = (statistics.median(result["seconds"][name]) for name in ("alone", "served"))
    slower = result["slower"]
    waits = result["waited"]
    return [
        f"{result['what']}; {result['clients']} clients, {result['threads']} threads, {result['repeats']} pairs",
        f"without a server {alone:.3f} s, with it {with_:.3f} s: {slower['median']:+.1%} (median of the pairs, "
        f"{sure(slower['interval'])}; all pairs {slower['least']:+.1%} to {slower['most']:+.1%})",
        f"training waited for a core in {waits['alone']:.2%} of the time without it, with it in "
        f"{waits['served']:.2%}: {waits['more']:+.2%} ({sure(waits['interval'])})",
        f"the server took {result['server_core_share']:.1%} of one core, the clients "
        f"{result['clients_core_share']:.1%}; {result['answers']} answers",
    ]


def sure(interval: list[float | None]) -> str:
    """An interval as text."""
    low, high = interval
    if low is None or high is None:
        return "too few pairs for an interval"
    return f"95 % interval {low:+.2%} to {high:+.2%}"
