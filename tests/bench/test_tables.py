"""The tables of docs/performance.md hold the numbers of a document, each at its place."""

from __future__ import annotations

from typing import Any

import pytest

from faudit.bench.tables import TABLES


def spread(middle: float) -> dict[str, float]:
    return {"median": middle, "least": middle - 0.25, "most": middle + 0.25}


MACHINE = {"cpu": "a processor", "cores": 2, "memory_gb": 25.3, "threads": 2, "faudit": "1", "commit": "abc",
           "torch": "2", "python": "3", "load": [0.1, 0.2, 0.3]}  # fmt: skip
CASE = {
    "steps": {"plain": 4, "plain_tensors": 4, "faudit": 8, "roofline": 8},
    "seconds": {"plain": [8.0, 20.0, 9.0], "plain_tensors": [6.0], "faudit": [3.0], "roofline": [2.0]},
    "over_roofline": {"plain": spread(4.5), "plain_tensors": spread(3.0), "faudit": spread(1.5)},
    "faster": {"plain": {"faudit": spread(3.0)}, "plain_tensors": {"faudit": spread(2.0)}},
    "probe_share": 0.0123,
}
LINEAR = {"milliseconds": [1.0, 2.04], "slope": 1.0, "intercept": 0.0, "r2": 0.9987}
DOCUMENT: dict[str, Any] = {
    "what": "every benchmark",
    "machine": MACHINE,
    "durations": {"train": 600.0, "audit": 120.0},
    "parts": {
        "train": {"repeats": 3, "nets": {"resmlp": {"bp": CASE}, "vit": {"dfa": CASE}}},
        "audit": {"repeats": 3, "seconds": {"epoch": [5.0], "audit": [3.0]}, "audit_over_epoch": spread(0.75),
                  "probes": {"norms": 1.0, "perturbation": 3.0}},
        "watch": {"log_share": 0.011, "pairs": 50, "compare_quartiles": [1.1, 1.2, 1.3],
                  "compare_processor": [1.0, 1.15, 1.2]},
        "hourly": {"what": "a sweep of 8 runs", "samples": 50_000, "jobs": 2, "repeats": 1, "more": spread(11.0),
                   "runs_per_hour": {"sweep": spread(440.0), "plain": spread(40.0)}},
        "growth": {"sweeps": {
            "depth": {"setting": "depth", "sizes": [2, 4], "others": {"eval_size": 64}, "rounds": 5,
                      "timed": {"bp step": LINEAR}},
            "width": {"setting": "width", "sizes": [64, 128], "others": {}, "rounds": 5,
                      "timed": {"bp step": {"milliseconds": [1.0, 3.0], "exponent": 1.58}}},
        }},
        "startup": {"seconds": {"faudit --help": spread(0.5)}},
        "memory": {"peak_mb": {"bp": 824, "dfa": 850}},
    },
}  # fmt: skip


@pytest.mark.parametrize(
    ("mark", "expected"),
    [
        ("bench-machine", "a processor, 2 cores, 25 GB of memory, 2 threads."),
        ("bench-machine", "The load of the machine was 0.1 at the start. The whole took 12 minutes."),
        ("bench-train", "| ResMLP | bp | 2.0 s | 3.0 s, 1.50 (1.25–1.75) × | – | 9.0 s, 4.50 (4.25–4.75) × |"),
        ("bench-train", "| ViT-Mini | dfa |"),
        ("bench-faster", "| ResMLP | bp | pictures | 3.0 (2.8–3.2) × | – | 1.2% | 8 and 4 |"),
        ("bench-faster", "| ResMLP | bp | tensors | 2.0 (1.8–2.2) × |"),
        ("bench-audit", "- one audit: 3.0 s, 0.75 (0.50–1.00) epochs (3 pairs)\n- the probe `perturbation` takes 75%"),
        ("bench-watch", "row: 1.1% of an epoch\n- one comparison: 1.20 steps (quartiles 1.10–1.30, 50 pairs)"),
        ("bench-hourly", "440 runs per hour\n- the plain trainer, one run after another: 40 runs per hour"),
        ("bench-hourly", "- the sweep makes 11.0 (10.8–11.2) times as many (1 sweeps)"),
        ("bench-growth", "| `depth` | 2 | 4 | fit |\n|---|---|---|---|\n| bp step | 1.0 | 2.0 | R² 0.9987 |"),
        ("bench-growth", "Medians of 5 rounds, with `eval-size` 64.\n\n| `width` | 64 | 128 | fit |"),
        ("bench-growth", "| bp step | 1.0 | 3.0 | exponent 1.58 |\n\nMedians of 5 rounds."),
        ("bench-startup", "| `faudit --help` | 0.50 (0.25–0.75) |"),
        ("bench-memory", "| bp | 824 MB |\n| dfa | 850 MB |"),
    ],
)
def test_a_table_holds_the_numbers_of_the_document(mark: str, expected: str) -> None:
    assert expected in TABLES[mark](DOCUMENT)


def test_a_quick_document_says_that_it_is_quick() -> None:
    quick = {**DOCUMENT, "what": "every benchmark, quick"}
    assert TABLES["bench-machine"](quick).startswith("This is a quick run")
    assert "quick" not in TABLES["bench-machine"](DOCUMENT)
