"""Read the paper's result files as runs that are marked as imported."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from faudit.config import RunConfig, known
from faudit.errors import ConfigError, DataError, FauditError, StoreError
from faudit.papers.document import ADVICE, Field, read_document, strict
from faudit.papers.faeval.files import MARKS, NAMES, PENALTY, PLAIN, RULE_OF, SHAPE, TEST_SETS
from faudit.papers.faeval.recipe import recipe
from faudit.store.counts import counted
from faudit.store.files import refusals, write_whole
from faudit.store.rows import Row, overflow, to_line
from faudit.store.run import ENDED, IMPORTED, Run
from faudit.store.summary import summary


def import_files(paths: Iterable[Path], runs: Path) -> tuple[list[Run], list[str]]:
    """Import the files. Returns the runs, and one error message for each file that was refused."""
    imported: list[Run] = []
    refused = []
    for path in counted(list(paths), lambda path: path.name):
        try:
            imported += import_file(path, runs)
        except FauditError as error:
            refused.append(str(error))
    return imported, refused


def import_file(path: Path, runs: Path) -> list[Run]:
    """Import one file, one run per log. Importing the same file again changes nothing."""
    data, document = read_document(path)
    keys = [key for key in RULE_OF if document.at(key, None).value is not None]
    if not keys:
        raise document.wrong(f"a log that is not null under {', '.join(RULE_OF)}")
    found = {}
    for key in keys:  # check everything before anything is written
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
        if run.status not in ENDED:
            write(run, config, rows, origin=origins[key])
    return [run for run, _, _ in found.values()]


def refuse_another(run: Run, origin: Mapping[str, Any]) -> None:
    """Raise if the directory holds an import of another file, or of another log of this file."""
    with refusals(run.path):
        held = run.environment().get(IMPORTED) if (run.path / "env.json").exists() else origin
    held = held if isinstance(held, Mapping) else {}
    if any(held.get(name) != origin[name] for name in ("sha256", "log")):
        expected, got = ([one.get(name) for name in ("file", "log", "sha256")] for one in (origin, held))
        raise StoreError(
            f"{run.path} holds the import of another file: expected {expected}, got {got}. "
            "Delete that directory, or use another --runs directory."
        )


def write(run: Run, config: RunConfig, rows: list[Row], *, origin: Mapping[str, Any]) -> None:
    """Write the run's directory. done.json or failed.json comes last, so a kill leaves an unfinished run."""
    last = rows[-1]
    with run.locked():
        refuse_another(run, origin)
        run.begin(config, {IMPORTED: origin})
        write_whole(run.rows_file, "".join(map(to_line, rows)).encode())
        if last["epoch"] < config.epochs or overflow(last):
            reason = f"diverged: the log in {origin['file']} ends at epoch {last['epoch']} of {config.epochs}"
            return run.fail({"reason": reason, "epoch": last["epoch"], "entry": None, "tap": None})
        return run.finish({**summary(rows), "weights_sha256": None})


def config_of(document: Field, key: str, *, path: Path) -> RunConfig:
    """The configuration of a log: from faudit's own block in the file, or else from the content and the file name."""
    settings, log, plan = document.at("config", {}), document.at(key).parts(), recipe().plan()
    epochs = [entry.at("epoch").whole() for entry in log]
    for i in range(1, len(log)):
        if epochs[i] <= epochs[i - 1]:
            raise log[i].at("epoch").wrong(f"more than the {epochs[i - 1]} before it")
    try:
        if settings.at("faudit", None).value is not None:
            own = settings.at("faudit").at(key)
            if own.at("rule").value != RULE_OF[key]:
                raise own.at("rule").wrong(repr(RULE_OF[key]))
            config = RunConfig.written(own.value, where="config, faudit")
            if config.epochs < epochs[-1] or config.settings.get("depth", 0) < 2:
                raise own.wrong(f"at least {epochs[-1]} epochs and a depth of at least 2")
            refuse_contradictions(document, config)
            return config
        changes = {"epochs": max(1, epochs[-1]), "seed": told(settings, "seed", r"_s(\d+)", path=path)}
        if key == PENALTY:
            changes["penalty"] = told(settings, "lam", r"lam(\d+(?:\.\d+)?(?:e-?\d+)?)", path=path)
            return plan.config("matched dfa λ=0.01").with_(**changes)
        texts = (path.name.lower(), path.resolve().parent.name.lower())
        marked = next((net for text in texts for mark, net in MARKS.items() if mark in text), None)
        net = "vit" if NAMES[True][0] in log[0].value else marked
        if net is None and key == "fa_log":  # the paper has FA files of other nets, but none of the plain ResMLP
            raise document.wrong("noln, snapshot_vit or snapshot_synth in the name of the file or its folder")
        config = plan.config(f"{net or 'resmlp'} {RULE_OF[key]}")
        changes["depth"] = document.at("depth", len(log[0].at(NAMES[net == "vit"][0]).parts()) - 1).value
        return config.with_(**changes, width=document.at("d_hidden", config.width).value)
    except ConfigError as error:
        raise DataError(f"{path}, {key}: {'; '.join(str(error).splitlines())}. {ADVICE}") from None


def refuse_contradictions(document: Field, config: RunConfig) -> None:
    """Raise if the head of a file contradicts faudit's own block in it."""
    settings = document.at("config")
    said = {name: settings.at(name, None) for name in PLAIN} | {"penalty": settings.at("lam", None)}
    said |= {setting: document.at(name, None) for name, setting in SHAPE.items()}
    # One head describes several logs, whose lengths may differ.
    lengths = [block.get("epochs") for block in settings.at("faudit").value.values() if isinstance(block, dict)]
    for name, field in said.items():
        expected = config.settings.get(name, known()[name].first.default)
        if field.value not in (None, expected) and not (name == "epochs" and field.value in lengths):
            raise field.wrong(f"{expected!r}, as in config, faudit")


def told(settings: Field, name: str, pattern: str, *, path: Path) -> Any:
    """A setting from the file's config, or else from its file name."""
    value, named = settings.at(name, None).value, re.search(pattern, path.stem)
    if value is None and named is None:
        raise settings.wrong(f"{name!r} there or in the file's name")
    return named[1] if value is None and named else value


def to_row(entry: Field, config: RunConfig, *, key: str, n: int) -> Row:
    """One entry as a row, with our names and units. A tap that the file does not have is null."""
    taps: list[list[float | None]] = [[None] * (config.depth + 1) for _ in range(3)]
    if key == PENALTY:
        taps[0][-1], taps[1][2] = entry.at("h_L_norm").number(), entry.at("g_2_norm").number() * n
    else:
        for i, name in enumerate(NAMES[config.net == "vit"]):
            sizes = entry.at(name).parts()
            if len(sizes) != config.depth + 1:
                raise entry.at(name).wrong(f"{config.depth + 1} numbers, one a tap")
            taps[i] = [size.number() * (n if i else 1) for size in sizes]
        entry.at("gamma_dfa").number(low=-math.inf)  # checked, not kept: a row has one Γ per block, not their mean
    named = dict(zip(("hidden_norms", "grad_norms", "grad_norms_frobenius"), taps, strict=True))
    gamma = {"gamma": [None] * config.depth, "gamma_undefined": [None] * config.depth, "fitted": None}
    loss = None if key == PENALTY else entry.at("loss_eval").number()
    scores = {"acc_eval": entry.at("acc_eval").number(high=1.0), "loss_eval": loss, "test_acc": None}
    samples, classes = TEST_SETS.get(config.data, (None, None))
    rest = {"eval_samples": n, "test_samples": samples, "classes": classes, "train_loss": None}
    timings = {"seconds": 0.0, "probe_seconds": 0.0}
    return Row({"epoch": entry.at("epoch").value, **named, **gamma, **scores, **rest, **timings})
