"""Tables to print: all runs with one line each, the seeds of each method together, or one run in full.

A list of runs fits the terminal. It has as many columns as there is room for, the most important first. The last
column says in which settings a run differs from the others.
"""

from __future__ import annotations

import statistics
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.table import Table

from faudit.config import attribute, key, known
from faudit.formats import gammas, least_and_most, mean_and_deviation, share, size, times
from faudit.store.index import Overview
from faudit.store.rows import OVERFLOWED, growth
from faudit.store.run import Run, Status, run_id_in
from faudit.store.where import WITHIN_METHOD, named, varying

SETTINGS = "settings"  # the column of what differs
COLUMNS = ["run", "status", "epoch", "test acc", "growth", "deep Γ", "‖h_L‖", "acc", "‖g_L‖", "Γ per block"]
NEEDED = ("run", "status", "epoch", "test acc")  # the others are left out where there is no room, the last one first
GROUPED = ["rule", "net", "data", "n", "test acc", "growth", "‖h_L‖", "deep Γ"]
LEFT = ("run", "status", "rule", "net", "data", "Γ per block", SETTINGS)  # the others are numbers
IN_PAPER = ("status", "epoch", "test acc", "growth", "deep Γ", "‖h_L‖")  # columns of a table for a paper
SHARED = ("net", "data", "n", "status", "epoch")  # left out of it where all rows agree
IN_NAME = ("net", "rule", "data", "seed")  # settings that the name of a run tells
IN_COLUMNS = ("epochs",)  # settings that another column tells
PLAIN_FROM = 500  # rows from which a table is plain text
GAP = 2  # spaces between two columns


def runs_table(entries: Sequence[Overview], *, width: int) -> Table | str:
    """A table with one line per run, for a width in characters."""
    differ = [name for name in varying(entries) if name not in IN_COLUMNS and not is_told(name, entries)]
    return fitted(COLUMNS, run_lines(entries, differ), needed=NEEDED, width=width)


def run_lines(entries: Sequence[Overview], differ: Sequence[str]) -> list[list[str]]:
    """The cells of each run: those of ``COLUMNS``, then the given settings that are not at their default."""
    return [[*line(entry), changed(entry, differ)] for entry in entries]


def is_told(name: str, entries: Sequence[Overview]) -> bool:
    """Whether the names of all runs tell a setting; the name of a copied run may be any."""
    return name in IN_NAME and all(run_id_in(named(entry)) for entry in entries)


def line(entry: Overview) -> list[str]:
    """The cells of one run."""
    return [
        named(entry),
        entry["status"],
        f"{entry['epochs'] if entry['epochs'] is not None else '–'}/{entry['epochs_asked'] or '–'}",
        share(entry["test_acc"]),
        times(entry["growth"]),
        cosine(deep_gamma(entry)),
        size(entry["hidden_norm"]),
        share(entry["acc_eval"]),
        size(entry["grad_norm"]),
        gammas(entry["gamma"]),
    ]


def changed(entry: Overview, names: Sequence[str]) -> str:
    """Those of some settings of a run that are not at their default: ``penalty=0.01 no-residual``."""
    words = []
    for name in names:
        value = entry["config"].get(name)
        if value is not None and not is_default(name, value, entry):
            told = "" if value is True else f"={','.join(map(str, value)) if isinstance(value, list) else value}"
            words.append(f"{name}{told}")
    return " ".join(words)


def is_default(name: str, value: Any, entry: Overview) -> bool:
    """Whether a setting of a run is at its default; a net, rule or optimizer may have a default of its own."""
    setting = known().get(attribute(name))
    if setting is None or name in IN_NAME:
        return False
    member = entry["config"].get(setting.family, "run")
    default = setting.readers.get(member, setting.first).default
    return bool((list(default) if isinstance(default, tuple) else default) == value)


def deep_gamma(entry: Overview) -> float | None:
    """The mean Γ of the blocks l ≥ 1 in the last row; None if one is undefined."""
    values = [OVERFLOWED.get(value, value) for value in (entry["gamma"] or [])[1:]]
    known_ones = [value for value in values if value is not None]
    return statistics.fmean(known_ones) if known_ones and len(known_ones) == len(values) else None


def cosine(value: float | None) -> str:
    return "–" if value is None else f"{value:+.2f}"


def group_table(entries: Sequence[Overview], *, width: int) -> Table | str:
    """A table with one line per method: its finished seeds together."""
    head, *lines = group_lines(entries)
    return fitted(head[:-1], lines, needed=(*GROUPED[:5],), width=width)


def groups(entries: Sequence[Overview]) -> list[list[Overview]]:
    """The runs of each method. Runs of one method differ in the seed, and in what is logged."""
    found: dict[str, list[Overview]] = {}
    for entry in entries:
        settings = {name: value for name, value in entry["config"].items() if name not in WITHIN_METHOD}
        found.setdefault(repr(settings), []).append(entry)
    return list(found.values())


def by_method(entries: Sequence[Overview]) -> list[Overview]:
    """The runs by net, data and rule, then by the settings that differ."""
    names = ["net", "data", "rule", *varying(entries, besides=WITHIN_METHOD)]

    def place(entry: Overview) -> list[tuple[bool, Any]]:
        values = [entry["config"].get(name) for name in names]
        return [(value is not None, value) for value in values]

    return sorted(entries, key=place)


def group_lines(entries: Sequence[Overview]) -> list[list[str]]:
    """The head, and the cells of each method: mean ± s.d. over its finished seeds, or least … most of a size."""
    differ = [name for name in varying(entries, besides=WITHIN_METHOD) if name not in IN_NAME]
    lines = []
    for group in groups(entries):
        config, done = group[0]["config"], [entry for entry in group if entry["status"] == Status.DONE]
        count = str(len(done)) if len(done) == len(group) else f"{len(done)} of {len(group)}"
        lines.append([
            config["rule"], config["net"], config["data"], count,
            over([entry["test_acc"] for entry in done], ".4f"),
            between([entry["growth"] for entry in done], "×"),
            between([entry["hidden_norm"] for entry in done]),
            over([deep_gamma(entry) for entry in done], "+.3f"),
            changed(group[0], differ),
        ])  # fmt: skip
    return [[*GROUPED, SETTINGS], *lines]


def paper_lines(entries: Sequence[Overview], *, by_method: bool) -> tuple[list[list[str]], str]:
    """The head and the cells of a table for a paper, and a line that says what all its rows share.

    It has the settings of a run in place of its name, and leaves out the columns that say the same in every row.
    """
    if by_method:
        head, *lines = group_lines(entries)
    else:
        differ = list(varying(entries, besides=(*IN_NAME, *IN_COLUMNS)))
        shown = [place for place, name in enumerate(COLUMNS) if name in IN_PAPER]
        head = ["rule", "net", "data", "seed", *(COLUMNS[place] for place in shown), SETTINGS]
        lines = [
            [*(str(entry["config"][name]) for name in head[:4]), *(cells[place] for place in shown), cells[-1]]
            for entry, cells in zip(entries, run_lines(entries, differ), strict=True)
        ]
    same = {
        name: lines[0][place]
        for place, name in enumerate(head)
        if name in SHARED and lines and len({line[place] for line in lines}) == 1
    }
    kept = [place for place, name in enumerate(head) if name not in same and (name != SETTINGS or any(
        line[place] for line in lines))]  # fmt: skip
    told = ", ".join(f"{name} {value}" for name, value in same.items())
    return [[line[place] for place in kept] for line in (head, *lines)], f"all: {told}" if told else ""


def over(values: Sequence[Any], form: str) -> str:
    """Mean ± standard deviation of the numbers that are finite; a dash if there is none."""
    finite = [value for value in values if isinstance(value, float)]
    return mean_and_deviation(finite, form) if finite else "–"


def between(values: Sequence[Any], unit: str = "") -> str:
    """The least and the most; an overflow is the most."""
    there = [float(value) for value in values if value is not None]
    finite = [value for value in there if value < float("inf")]
    if len(finite) < len(there):
        return "overflowed" if not finite else f"{least_and_most(finite, unit)} … inf"
    return least_and_most(finite, unit) if finite else "–"


def fitted(columns: Sequence[str], rows: Sequence[Sequence[str]], *, needed: Sequence[str], width: int) -> Table | str:
    """A table that fits a width: columns that are not needed are left out from the right; the settings are folded.

    Each row has the cells of ``columns`` and then the settings. Where they have no room, they are on a line below.
    """
    heads = [*columns, SETTINGS] if any(row[-1] for row in rows) else list(columns)
    widths = {name: max([len(name), *(len(row[place]) for row in rows)]) for place, name in enumerate(heads)}
    if SETTINGS in heads:
        widths[SETTINGS] = max(len(word) for row in rows for word in [SETTINGS, *row[-1].split()])
    kept = list(heads)
    for name in [name for name in reversed(columns) if name not in needed]:
        if room(kept, widths) > width:
            kept.remove(name)
    if SETTINGS in kept and room(kept, widths) > width:
        kept = list(columns)  # the line below leaves room for more columns
        for name in [name for name in reversed(columns) if name not in needed]:
            if room(kept, widths) > width:
                kept.remove(name)
        lines = plain(kept, [[row[heads.index(name)] for name in kept] for row in rows], left=LEFT)
        return "\n".join([next(lines), *(text for row in rows for text in below(next(lines), row[-1], width))])
    return listed(kept, [[row[heads.index(name)] for name in kept] for row in rows], left=LEFT)


def room(columns: Sequence[str], widths: Mapping[str, int]) -> int:
    """The characters that columns take beside each other."""
    return sum(widths[name] for name in columns) + GAP * (len(columns) - 1)


def below(text: str, settings: str, width: int) -> list[str]:
    """A line with its settings below it."""
    return [text, *textwrap.wrap(settings, width, initial_indent="    ", subsequent_indent="    ")]


def listed(columns: Sequence[str], rows: Sequence[Sequence[str]], *, left: Sequence[str]) -> Table | str:
    """A table of rows. Columns in ``left`` are aligned left. A long table is plain text, which is much faster."""
    if len(rows) >= PLAIN_FROM:
        return "\n".join(plain(columns, rows, left=left))
    table = Table(box=None, header_style="bold", pad_edge=False)
    for column in columns:
        table.add_column(column, justify="left" if column in left else "right", no_wrap=column != SETTINGS)
    for row in rows:
        table.add_row(*row)
    return table


def plain(columns: Sequence[str], rows: Sequence[Sequence[str]], *, left: Sequence[str]) -> Iterator[str]:
    """The table as lines of plain text."""
    widths = [max(map(len, column)) for column in zip(columns, *rows, strict=True)]
    aligned = [str.ljust if name in left else str.rjust for name in columns]
    for words in (columns, *rows):
        yield "  ".join(align(word, width) for align, word, width in zip(aligned, words, widths, strict=True)).rstrip()


RUN_COLUMNS = (
    "epoch", "train loss", "acc", "test acc", "growth", "‖h_L‖", "Γ per block", "‖g_L‖", "loss", "‖h_0‖", "s",
)  # fmt: skip


def run_table(run: Run, *, width: int) -> Table | str:
    """Every row of one run, for a width in characters."""
    rows = [
        [
            str(row["epoch"]),
            size(row["train_loss"]),
            share(row["acc_eval"]),
            share(row["test_acc"]),
            times(growth(row["hidden_norms"])),
            size(row["hidden_norms"][-1]),
            gammas(row["gamma"]),
            size(row["grad_norms"][-1]),
            size(row["loss_eval"]),
            size(row["hidden_norms"][0]),
            f"{row['seconds'] + row['probe_seconds']:.2f}",
            "",
        ]
        for row in run.rows()
    ]
    return fitted(RUN_COLUMNS, rows, needed=RUN_COLUMNS[:5], width=width)


def settings_line(run: Run) -> str:
    """The settings of a run that differ from their defaults."""
    changed = run.config().changed
    return " ".join(f"{key(name)}={value}" for name, value in changed.items()) or "all settings at their defaults"
