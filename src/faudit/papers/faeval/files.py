"""The published study's result files: written from runs, and read back as runs marked imported.  (no torch)

Gradients in these files are of the mean loss over the evaluation buffer; ours are of each sample's own loss, so its n
samples divide on the way out and multiply on the way in. A number that overflowed is null. An imported run keeps the
entries it came from as they were: writing it again gives the same document, whatever else that holds.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import reprlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from faudit.config import RunConfig
from faudit.errors import ConfigError, DataError, FauditError, StoreError
from faudit.figures.table import Series, Table
from faudit.papers.faeval.experiments import PENALTIES, Plan
from faudit.store.files import refusals, write_json, write_whole
from faudit.store.rows import Row, finite, growth, overflow, to_line
from faudit.store.run import Run

# Every file of the study under results/: the log's key in it → the arm whose run it is.
FILES: dict[str, dict[str, str]] = {
    "snapshot_evolution_v2/snapshot_evolution_s{seed}.json": {"bp_log": "resmlp bp", "dfa_log": "resmlp dfa"},
    "snapshot_no_outln_v1/snapshot_noLN_s{seed}.json": {"bp_log": "noln bp", "dfa_log": "noln dfa"},
    "snapshot_no_outln_v1/snapshot_fa_canonical_noln_s{seed}.json": {"fa_log": "noln fa"},
    "snapshot_vit_v1/snapshot_vit_s{seed}.json": {"bp_log": "vit bp", "dfa_log": "vit dfa"},
    "snapshot_vit_v1/snapshot_fa_canonical_s{seed}.json": {"fa_log": "vit fa"},
    "snapshot_synth_v1/snapshot_synth_a1.0_L4_s{seed}.json": {"bp_log": "student bp", "dfa_log": "student dfa"},
    "snapshot_synth_v1/snapshot_fa_canonical_s{seed}.json": {"fa_log": "student fa"},
    **{f"dfa_residual_penalty/dfa_pen_lam{v:g}_s{{seed}}.json": {"log": f"matched dfa λ={v:g}"} for v in PENALTIES},
}
RULE_OF = {"bp_log": "bp", "dfa_log": "dfa", "fa_log": "fa", "log": "dfa"}
MARKS = {"noln": "noln", "no_outln": "noln", "snapshot_synth": "student", "snapshot_vit": "vit", "evolution": "resmlp"}
PENALTY = "log"  # whose entries are four numbers: epoch, h_L_norm, g_2_norm, acc_eval
# What the study calls our hidden_norms, grad_norms and grad_norms_frobenius, by whether the net is a ViT.
NAMES = {
    False: ("hidden_norms", "bp_grad_norms_per_sample_med", "bp_grad_norms_F"),
    True: ("hidden_norms_cls", "bp_grad_per_sample_l2_med", "bp_grad_norms_F"),
}
LIMIT = 16 * 2**20  # bytes of a file; the study's have about a hundred thousand
LEVELS = 32  # of nesting; the study's files have four
MANY = 1_000_000  # entries, epochs, samples: what no file has more of
ADVICE = "Repair that file, or leave it out."
Log = tuple[Series, Mapping[str, Any]]  # a run with its entries and, if it was imported, what else its file held


def export(table: Table, out: Path) -> list[Path]:
    """Write every file of the study that the table has a run for; a log without a run is null."""
    runs = {(arm, one.seed): one for keys in FILES.values() for arm in keys.values() for one in table.series(arm)}
    written = []
    for seed in table.plan.seeds:
        for name, keys in FILES.items():
            there = {key: runs[arm, seed] for key, arm in keys.items() if (arm, seed) in runs}
            logs = {key: log for key, series in there.items() if (log := outgoing(table, key, series))}
            if logs:
                path = out / "results" / name.format(seed=seed)
                with refusals(path):
                    path.parent.mkdir(parents=True, exist_ok=True)
                write_json(path, strict(restored(logs) or composed(list(keys), logs), where=str(path)))
                written.append(path)
    return written


def outgoing(table: Table, key: str, series: Series) -> Log | None:
    """A run as a log of the study; None, with a remark, where the run is damaged."""
    try:
        if series.imported:
            return series, kept_document(series.run)
        return series, {"entries": [to_entry(row, series.config, key=key) for row in rows_of_depth(series)]}
    except StoreError as error:
        table.remark(f"left out: {error}")
        return None


def kept_document(run: Run) -> dict[str, Any]:
    """What an imported run keeps of the file it came from."""
    kept, wanted = run.environment().get("imported"), {"entries": list, "sha256": str, "head": dict}
    if not isinstance(kept, dict) or any(not isinstance(kept.get(name), kind) for name, kind in wanted.items()):
        raise StoreError(
            f"{run.path}/env.json is damaged: expected {', '.join(wanted)} under 'imported', got "
            f"{reprlib.repr(kept)}. Delete {run.path} and import the file again."
        )
    return {name: kept[name] for name in wanted}


def rows_of_depth(series: Series) -> list[Row]:
    """A run's rows, if they are of a network as deep as its configuration says."""
    taps, wanted = len(series.rows[0]["hidden_norms"]), series.config.depth + 1
    if taps != wanted:
        raise StoreError(
            f"{series.run.rows_file} is damaged: hidden_norms: expected {wanted} numbers, one a tap, got {taps}. "
            "Put the file back, or delete the run to train it again."
        )
    return series.rows


def to_entry(row: Row, config: RunConfig, *, key: str) -> dict[str, Any]:
    """One row in the study's words and units."""
    # A small test set has fewer samples than were asked for; older rows do not say how many.
    n = row.number("eval_samples") or config.eval_size
    hidden, gradients, frobenius = (
        row["hidden_norms"],
        shared(row["grad_norms"], n),
        shared(row["grad_norms_frobenius"], n),
    )
    if key == PENALTY:
        return {"epoch": row["epoch"], "h_L_norm": hidden[-1], "g_2_norm": gradients[2], "acc_eval": row["acc_eval"]}
    taps = (hidden, gradients, frobenius)
    gamma = row["gamma"]  # BP has no credit of DFA's to align; a mean without some block is not the study's number
    headline = None if config.rule == "bp" or None in gamma else sum(gamma) / len(gamma)
    scores = {"gamma_dfa": headline, "acc_eval": row["acc_eval"], "loss_eval": row["loss_eval"]}
    return {"epoch": row["epoch"], **dict(zip(NAMES[config.net == "vit"], taps, strict=True)), **scores}


def shared(sizes: list[float | None], n: float) -> list[float | None]:
    """Gradients of each sample's loss as those of the mean loss over n samples."""
    return [None if size is None else size / n for size in sizes]


def restored(logs: Mapping[str, Log]) -> dict[str, Any] | None:
    """The document that these logs were imported from; None where they do not all come from one."""
    kept = [kept for _, kept in logs.values()]
    if len({one.get("sha256") for one in kept}) > 1 or "head" not in kept[0]:
        return None
    return {key: logs[key][1]["entries"] if key in logs else value for key, value in kept[0]["head"].items()}


def composed(keys: list[str], logs: Mapping[str, Log]) -> dict[str, Any]:
    """A document made of runs: the settings a reader expects, and each run's whole configuration."""
    first = next(iter(logs.values()))[0]
    config = first.config
    plain = ("seed", "epochs", "batch_size", "optimizer", "lr", "weight_decay", "data", "net", "no_terminal_norm")
    settings = {name: getattr(config, name) for name in plain}
    settings["eval_samples"] = first.rows[0].get("eval_samples", config.eval_size)
    shape = {"depth": config.depth, "d_hidden": config.width, "num_classes": 100 if config.data == "cifar100" else 10}
    if keys == [PENALTY]:
        settings["lam"], shape = config.penalty, {}
    settings["faudit"] = {key: series.config.to_json() for key, (series, _) in logs.items()}
    return {"config": settings, **shape, **{key: logs[key][1]["entries"] if key in logs else None for key in keys}}


def strict(value: Any, level: int = 0, *, where: str) -> Any:
    """A document as strict JSON holds it: a number that overflowed becomes null."""
    if level > LEVELS:
        raise Field(level, where).wrong(f"at most {LEVELS} levels of nesting")
    if isinstance(value, dict):
        return {name: strict(inner, level + 1, where=where) for name, inner in value.items()}
    if isinstance(value, list):
        return [strict(inner, level + 1, where=where) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def import_files(paths: Iterable[Path], runs: Path) -> tuple[list[Run], list[str]]:
    """Import what can be imported; the second list says, a line a file, what cannot."""
    imported: list[Run] = []
    refused = []
    for path in paths:
        try:
            imported += import_file(path, runs)
        except FauditError as error:
            refused.append(str(error))
    return imported, refused


def import_file(path: Path, runs: Path) -> list[Run]:
    """Read one file of the study as runs marked imported, one a log; the same file again changes nothing."""
    data, document = contents(path)
    keys = [key for key in RULE_OF if document.at(key, None).value is not None]
    if not keys:
        raise document.wrong(f"a log that is not null under {', '.join(RULE_OF)}")
    found = {}
    for key in keys:  # everything is checked before anything is copied or written
        config = config_of(document, key, path=path)
        n = document.at("config", {}).at("eval_samples", config.eval_size).whole(low=1)
        rows = [to_row(entry, config, key=key, n=n) for entry in document.at(key).parts()]
        found[key] = Run(runs / f"imported-{config.run_id}"), config, rows
    kept = strict(document.value, where=str(path))
    head = {key: None if key in keys else value for key, value in kept.items()}
    file = {"file": path.name, "sha256": hashlib.sha256(data).hexdigest(), "head": head}
    origins = {key: {**file, "log": key, "entries": kept[key]} for key in keys}
    for key, (run, _, _) in found.items():
        refuse_another(run, origins[key])
    for key, (run, config, rows) in found.items():
        if run.status not in ("done", "failed"):
            write(run, config, rows, origin=origins[key])
    return [run for run, _, _ in found.values()]


def refuse_another(run: Run, origin: Mapping[str, Any]) -> None:
    """Refuse a directory that came from another file, or from another log of this one."""
    held = run.environment().get("imported", {}) if (run.path / "env.json").exists() else origin
    if any(held.get(name) != origin[name] for name in ("sha256", "log")):
        expected, got = ([one.get(name) for name in ("file", "log", "sha256")] for one in (origin, held))
        raise StoreError(
            f"{run.path} holds the import of another file: expected {expected}, got {got}. "
            "Delete that directory, or use another --runs directory."
        )


def write(run: Run, config: RunConfig, rows: list[Row], *, origin: Mapping[str, Any]) -> None:
    """Make the run's directory; what says that it ended comes last, so that a kill leaves a run that did not end."""
    last, steps = rows[-1], [growth(row["hidden_norms"]) for row in rows]
    known = [step for step in steps if step is not None]
    with run.locked():
        refuse_another(run, origin)
        run.begin(config, {"imported": origin})
        write_whole(run.rows_file, "".join(map(to_line, rows)).encode())
        if last["epoch"] < config.epochs or overflow(last):
            reason = f"diverged: the log in {origin['file']} ends at epoch {last['epoch']} of {config.epochs}"
            return run.fail({"reason": reason, "epoch": last["epoch"], "entry": None, "tap": None})
        scores = {name: last[name] for name in ("test_acc", "acc_eval", "loss_eval")}
        sizes = {"hidden_norm": last["hidden_norms"][-1], "grad_norm": last["grad_norms"][-1]}
        grown = {"growth": finite(steps[-1]), "growth_max": finite(max(known, default=None))}
        return run.finish({"epochs": last["epoch"], **scores, **sizes, **grown, "seconds": 0.0, "weights_sha256": None})


def contents(path: Path) -> tuple[bytes, Field]:
    """A file's bytes and its document; what cannot be a study's is refused before it is read."""
    try:
        if not path.is_file():
            raise DataError(f"cannot import {path}: expected a file, got none. Name the study's .json files.")
        if (size := path.stat().st_size) > LIMIT:
            raise Field(size, str(path)).wrong(f"at most {LIMIT} bytes (16 MB)")
        data = path.read_bytes()
        return data, Field(json.loads(data.decode("utf-8")), str(path))
    except OSError as error:
        raise DataError(f"cannot import {path}: {error.strerror}. Give yourself permission, or leave it out.") from None
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path} is not JSON: {error}. {ADVICE}") from None


def config_of(document: Field, key: str, *, path: Path) -> RunConfig:
    """Which run a log is of: as our own files say, or else by what the file holds and then by its name."""
    settings, log = document.at("config", {}), document.at(key).parts()
    epochs = [entry.at("epoch").whole() for entry in log]
    for i in range(1, len(log)):
        if epochs[i] <= epochs[i - 1]:
            raise log[i].at("epoch").wrong(f"more than the {epochs[i - 1]} before it")
    try:
        if settings.at("faudit", None).value is not None:
            own = settings.at("faudit").at(key)
            if own.at("rule").value != RULE_OF[key]:
                raise own.at("rule").wrong(repr(RULE_OF[key]))
            config = RunConfig.parse(own.value, where="config, faudit")
            if config.epochs < epochs[-1] or config.depth < 2:
                raise own.wrong(f"at least {epochs[-1]} epochs and a depth of at least 2")
            return config
        changes = {"epochs": max(1, epochs[-1]), "seed": told(settings, "seed", r"_s(\d+)", path=path)}
        if key == PENALTY:
            changes["penalty"] = told(settings, "lam", r"lam(\d+(?:\.\d+)?(?:e-?\d+)?)", path=path)
            return Plan().config("matched dfa λ=0.01").with_(**changes)
        texts = (path.name.lower(), path.resolve().parent.name.lower())
        marked = next((net for text in texts for mark, net in MARKS.items() if mark in text), None)
        net = "vit" if NAMES[True][0] in log[0].value else marked
        if net is None and key == "fa_log":  # the study has no such file of the plain ResMLP, but several others
            raise document.wrong("noln, snapshot_vit or snapshot_synth in the name of the file or its folder")
        config = Plan().config(f"{net or 'resmlp'} {RULE_OF[key]}")
        changes["depth"] = document.at("depth", len(log[0].at(NAMES[net == "vit"][0]).parts()) - 1).value
        return config.with_(**changes, width=document.at("d_hidden", config.width).value)
    except ConfigError as error:
        raise DataError(f"{path}, {key}: {'; '.join(str(error).splitlines())}. {ADVICE}") from None


def told(settings: Field, name: str, pattern: str, *, path: Path) -> Any:
    """A setting as the file's config has it, or else as the file's name does."""
    value, named = settings.at(name, None).value, re.search(pattern, path.stem)
    if value is None and named is None:
        raise settings.wrong(f"{name!r} there or in the file's name")
    return named[1] if value is None and named else value


def to_row(entry: Field, config: RunConfig, *, key: str, n: int) -> Row:
    """One entry in our words and units; a tap that the file does not have is null."""
    taps: list[list[float | None]] = [[None] * (config.depth + 1) for _ in range(3)]
    if key == PENALTY:
        taps[0][-1], taps[1][2] = entry.at("h_L_norm").number(), entry.at("g_2_norm").number() * n
    else:
        for i, name in enumerate(NAMES[config.net == "vit"]):
            sizes = entry.at(name).parts()
            if len(sizes) != config.depth + 1:
                raise entry.at(name).wrong(f"{config.depth + 1} numbers, one a tap")
            taps[i] = [size.number() * (n if i else 1) for size in sizes]
        entry.at("gamma_dfa").number(low=-math.inf)  # checked and left: it is of all blocks, a row has one of each
    named = dict(zip(("hidden_norms", "grad_norms", "grad_norms_frobenius"), taps, strict=True))
    gamma = {"gamma": [None] * config.depth, "gamma_undefined": [None] * config.depth}
    loss = None if key == PENALTY else entry.at("loss_eval").number()
    scores = {"acc_eval": entry.at("acc_eval").number(high=1.0), "loss_eval": loss, "test_acc": None}
    rest = {"eval_samples": n, **dict.fromkeys(["test_samples", "classes", "train_loss"])}
    timings = {"seconds": 0.0, "probe_seconds": 0.0}
    return Row({"epoch": entry.at("epoch").value, **named, **gamma, **scores, **rest, **timings})


@dataclass(frozen=True)
class Field:
    """A part of a document and its place there, so that whatever is wrong with it is said with where it is."""

    value: Any
    place: str

    def wrong(self, wanted: str) -> DataError:
        return DataError(f"{self.place}: expected {wanted}, got {reprlib.repr(self.value)}. {ADVICE}")

    def at(self, name: str, default: Any = ...) -> Field:
        """What an object has under a name; without a default, it must have it."""
        if not isinstance(self.value, dict) or (default is ... and name not in self.value):
            raise self.wrong(f"an object with {name!r}")
        return Field(self.value.get(name, default), f"{self.place}, {name}")

    def parts(self) -> list[Field]:
        if not isinstance(self.value, list) or not 1 <= len(self.value) <= MANY:
            raise self.wrong(f"a list of 1 to {MANY}")
        return [Field(value, f"{self.place}[{i}]") for i, value in enumerate(self.value)]

    def number(self, *, low: float = 0.0, high: float = math.inf) -> float:
        """A number in a range; null is one that overflowed."""
        is_number = isinstance(self.value, float) or (type(self.value) is int and abs(self.value) < 2**63)
        if self.value is not None and (not is_number or self.value < low or self.value > high):
            raise self.wrong(f"a number from {low:g} to {high:g}")
        return math.nan if self.value is None else float(self.value)

    def whole(self, *, low: int = 0) -> int:
        if type(self.value) is not int or not low <= self.value <= MANY:
            raise self.wrong(f"a whole number from {low} to {MANY}")
        return self.value
