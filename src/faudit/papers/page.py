"""The claims as a page of Markdown: the table, what to know of it, and the commands behind each row.  (no torch)"""

from __future__ import annotations

from typing import Any

from faudit.papers.faeval.claims import VERDICTS
from faudit.papers.faeval.experiments import Plan


def page(entries: list[dict[str, Any]], plan: Plan, remarks: list[str]) -> str:
    """The whole page."""
    counts = {verdict: sum(entry["verdict"] == verdict for entry in entries) for verdict in VERDICTS}
    told = ", ".join(f"{count} {verdict}" for verdict, count in counts.items() if count)
    out = ["# The published study's claims, measured again", ""]
    if not plan.is_full:
        length = f", {plan.epochs} epochs" if plan.epochs else ""
        out += [
            f"**A rehearsal** ({plan.data}{length}): it shows that every step runs, and says nothing of the claims.",
            "",
        ]
    out += [
        f"{len(entries)} claims: {told}. Seeds {', '.join(map(str, plan.seeds))}.",
        "",
        "Accuracies (full test set), Γ and ρ: mean over n runs and its 95 % interval. Norms: geometric mean, least and",
        "most. Epochs: least and most. Gradient norms are in the study's unit, ρ is by the study's definition.",
        "",
        *table(entries, rehearsal=not plan.is_full),
    ]
    if remarks:
        out += ["", "To know:", "", *(f"- {remark}" for remark in remarks)]
    out += ["", "## Commands", ""]
    for entry in entries:
        out += [f"{entry['number']}. {entry['claim']}", "", *(f"        {line}" for line in entry["commands"]), ""]
    return "\n".join(out)


def table(entries: list[dict[str, Any]], *, rehearsal: bool = False) -> list[str]:
    """One line a claim."""
    head = ["| # | claim | published | ours | n | tolerance | verdict |", "|---|---|---|---|---|---|---|"]
    mark = " (rehearsal)" if rehearsal else ""
    return head + [
        "| "
        + " | ".join(
            [
                str(entry["number"]),
                entry["claim"],
                entry["published"],
                "; ".join(written(part) for part in entry["parts"]),
                ", ".join(dict.fromkeys(f"{part['n']}/{part['expected']}" for part in entry["parts"])),
                ", ".join(dict.fromkeys(allowed(part) for part in entry["parts"])),
                entry["verdict"] + mark,
            ]
        )
        + " |"
        for entry in entries
    ]


def allowed(part: dict[str, Any]) -> str:
    """The tolerance in words."""
    if part["kind"] == "never":
        return "never"
    if part["kind"] == "norm":
        return f"factor {part['tolerance']:g}"
    return (
        f"± {part['tolerance']:g} epochs" if part["kind"] == "epoch" else f"± {part['tolerance']:g}".replace("0.", ".")
    )


def written(part: dict[str, Any]) -> str:
    """A part's number with its interval, and a mark where it is the one that deviates."""
    mark = " **(deviates)**" if part["verdict"] == "deviates" else ""
    lost = f", {part['diverged']} diverged" if part["diverged"] else ""
    shorter = f" (after {', '.join(map(str, part['shorter']))} epochs)" if part["shorter"] else ""
    return f"{part['what']} {number(part)}{shorter}{lost}{mark}"


def number(part: dict[str, Any]) -> str:
    if part["n"] == 0:
        return "not run"
    if part["kind"] in ("never", "epoch"):
        fired = [value for value in part["values"] if value is not None]
        never = part["n"] - len(fired)
        if not fired:
            return "never"
        epochs = f"epoch {min(fired):.0f}" if min(fired) == max(fired) else f"epochs {min(fired):.0f}–{max(fired):.0f}"
        return f"{epochs}, never in {never} of {part['n']}" if never else epochs
    form = {"norm": size, "cosine": signed, "accuracy": share}[part["kind"]]
    if part["n"] == 1 or part["low"] is None:
        return form(part["ours"])
    return f"{form(part['ours'])} [{form(part['low'])}, {form(part['high'])}]"


def share(value: float) -> str:
    """Three digits of a share, as papers write it."""
    return f"{value:.3f}".replace("0.", ".", 1)


def signed(value: float) -> str:
    """The same with its sign."""
    return f"{value:+.3f}".replace("0.", ".", 1).replace("-", "−")


def size(value: float | None) -> str:
    """Two digits of a number of any size."""
    if value is None:
        return "overflowed"
    if 0.1 <= value < 1000:
        return f"{value:.3g}"
    mantissa, exponent = f"{value:.1e}".split("e")
    return f"{mantissa}e{int(exponent)}"
