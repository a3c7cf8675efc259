"""The tables of docs/performance.md, from the document that ``faudit bench --out`` writes.

Each function returns Markdown. ``scripts/readme-tables`` puts it between the marks of the page.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from faudit.bench.timing import told

Document = Mapping[str, Any]
NAMES = {"resmlp": "ResMLP", "vit": "ViT-Mini", "cnn": "CNN"}


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table."""
    return "\n".join([f"| {' | '.join(head)} |", "|---" * len(head) + "|", *(f"| {' | '.join(row)} |" for row in rows)])


def machine(document: Document) -> str:
    """On what and when it was measured."""
    known = document["machine"]
    quick = (
        "This is a quick run, which shows that everything works and not how fast it is. " if is_quick(document) else ""
    )
    return (
        f"{quick}Processor: {known['cpu']}, {known['cores']} cores, {known['memory_gb']:.0f} GB of memory, "
        f"{known['threads']} threads. Versions: faudit {known['faudit']} (commit {known['commit']}), torch "
        f"{known['torch']}, Python {known['python']}. The load of the machine was {known['load'][0]:.1f} at the start. "
        f"The whole took {sum(document['durations'].values()) / 60:.0f} minutes."
    )


def is_quick(document: Document) -> bool:
    return str(document["what"]).endswith("quick")


def train(document: Document) -> str:
    """Epochs of all candidates."""
    part = document["parts"]["train"]
    head = ["net", "rule", "roofline", "faudit", "compiled", "plain, on pictures", "plain, on tensors"]
    rows = []
    for net, rules in part["nets"].items():
        for rule, entry in rules.items():
            middle = {name: statistics.median(values) for name, values in entry["seconds"].items()}
            cells = [NAMES[net], rule, f"{middle['roofline']:.1f} s"]
            for name in ("faudit", "faudit_compiled", "plain", "plain_tensors"):
                over = entry["over_roofline"].get(name)
                cells.append(f"{middle[name]:.1f} s, {told(over)} ×" if over else "–")
            rows.append(cells)
    rounds = {len(entry["seconds"]["roofline"]) for rules in part["nets"].values() for entry in rules.values()}
    many = f"{min(rounds)} to {max(rounds)}" if len(rounds) > 1 else f"{max(rounds)}"
    closing = (
        f"Seconds are those of one epoch, as medians of {many} rounds. "
        "The number before × is the time divided by the roofline, with the least and the most of the rounds."
    )
    return "\n\n".join([table(head, rows), closing])


def faster(document: Document) -> str:
    """How many times faster than the plain trainer, the share of the probes, and what was timed."""
    part = document["parts"]["train"]
    head = ["net", "rule", "against", "faudit is faster by", "compiled", "probes' share of an epoch", "steps timed"]
    rows = []
    for net, rules in part["nets"].items():
        for rule, entry in rules.items():
            for name, words in (("plain", "pictures"), ("plain_tensors", "tensors")):
                by = {own: f"{told(numbers, '.1f')} ×" for own, numbers in entry["faster"][name].items()}
                steps = f"{entry['steps']['faudit']} and {entry['steps'][name]}"
                share = f"{entry['probe_share']:.1%}"
                rows.append([NAMES[net], rule, words, by["faudit"], by.get("faudit_compiled", "–"), share, steps])
    return table(head, rows)


def audit(document: Document) -> str:
    """An audit against an epoch."""
    part = document["parts"]["audit"]
    shares = part["probes"]
    dearest = max(shares, key=shares.__getitem__)
    return "\n".join(
        [
            f"- one epoch of DFA: {statistics.median(part['seconds']['epoch']):.1f} s",
            f"- one audit: {statistics.median(part['seconds']['audit']):.1f} s, {told(part['audit_over_epoch'])} "
            f"epochs ({part['repeats']} pairs)",
            f"- the probe `{dearest}` takes {shares[dearest] / sum(shares.values()):.0%} of an audit",
        ]
    )


def watch(document: Document) -> str:
    """A watched loop against a plain one."""
    part = document["parts"]["watch"]
    low, middle, high = part["compare_quartiles"]
    return "\n".join(
        [
            f"- one logged row: {part['log_share']:.1%} of an epoch",
            f"- one comparison: {middle:.2f} steps (quartiles {low:.2f}–{high:.2f}, {part['pairs']} pairs); "
            f"in processor time {part['compare_processor'][1]:.2f}",
        ]
    )


def hourly(document: Document) -> str:
    """Runs per hour."""
    part = document["parts"]["hourly"]
    ours, plain = (part["runs_per_hour"][name]["median"] for name in ("sweep", "plain"))
    return (
        f"- {part['what']}, {part['samples']:,} samples an epoch, {part['jobs']} at once: {ours:.0f} runs per hour\n"
        f"- the plain trainer, one run after another: {plain:.0f} runs per hour\n"
        f"- the sweep makes {told(part['more'], '.1f')} times as many ({part['repeats']} sweeps)"
    )


def growth(document: Document) -> str:
    """Milliseconds at each size, and the fits."""
    out = []
    for sweep in document["parts"]["growth"]["sweeps"].values():
        head = [f"`{sweep['setting']}`", *map(str, sweep["sizes"]), "fit"]
        rows = []
        for timed, entry in sweep["timed"].items():
            fit = f"exponent {entry['exponent']:.2f}" if "exponent" in entry else f"R² {entry['r2']:.4f}"
            rows.append([timed, *(f"{value:.1f}" for value in entry["milliseconds"]), fit])
        others = ", ".join(f"`{name.replace('_', '-')}` {value}" for name, value in sweep["others"].items())
        closing = f"Medians of {sweep['rounds']} rounds{f', with {others}' if others else ''}."
        out.append(f"{table(head, rows)}\n\n{closing}")
    return "\n\n".join(out)


def startup(document: Document) -> str:
    """Starts of commands."""
    part = document["parts"]["startup"]
    return table(["command", "seconds"], ([f"`{name}`", told(numbers)] for name, numbers in part["seconds"].items()))


def memory(document: Document) -> str:
    """Peaks of memory."""
    part = document["parts"]["memory"]
    return table(["rule", "peak memory"], ([rule, f"{peak} MB"] for rule, peak in part["peak_mb"].items()))


TABLES: dict[str, Callable[[Document], str]] = {
    "bench-machine": machine,
    "bench-train": train,
    "bench-faster": faster,
    "bench-audit": audit,
    "bench-watch": watch,
    "bench-hourly": hourly,
    "bench-growth": growth,
    "bench-startup": startup,
    "bench-memory": memory,
}
