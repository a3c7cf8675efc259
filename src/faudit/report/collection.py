"""The runs of a store as the page shows them. A second look reads only what has changed since the first.

What a run shows depends on its own files and, through the check ``paired``, on those of its frozen control. The size
and time of these files decide whether it is read again. Of a run that has not ended, only new rows are read.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timezone
from functools import cached_property
from pathlib import Path
from typing import Any

from faudit import __version__
from faudit.audit.audit import ControlIndex
from faudit.audit.checks import CHECKS
from faudit.audit.page import thresholds
from faudit.audit.protocol import Protocol
from faudit.config import RunConfig
from faudit.errors import StoreError
from faudit.report.claims import claims_of
from faudit.report.looks import looks_of
from faudit.report.methods import Kept, differing, methods_of, shared_by, told_once
from faudit.report.runs import DAMAGED, Page, read
from faudit.report.series import DIGITS, Columns
from faudit.report.template import template
from faudit.store import controls
from faudit.store.counts import counted
from faudit.store.index import FILES, Overview, copies, copy_of, sign
from faudit.store.rows import ENTRIES
from faudit.store.run import ENDED, Run, Status, runs_in

FORMAT = 1  # version of the page's data
WHOLE = 10.0  # seconds; so often every file is looked at. Within a run that ended, files are replaced, not edited.
READ = (*FILES, "audit.json", controls.FILE)
REMEMBERED = 64  # looks; a client that was away for more of them gets every row of a run again
Marks = tuple[str, ...]
Lengths = deque[tuple[int, int]]  # (look, rows)


@dataclass
class Collection:
    """The selected runs of a store. ``look`` reads them; ``document`` is the page's data without the series."""

    store: Path
    protocol: Protocol
    where: Sequence[str] = ()  # the conditions of ``chosen``, as they were typed
    chosen: Callable[[Overview], bool] = lambda entry: True  # which runs the page shows
    pages: dict[str, Page] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)  # a message for each run that is damaged or a copy
    changed: dict[str, int] = field(default_factory=dict)  # run → the look at which it last changed
    lengths: dict[str, Lengths] = field(default_factory=dict)  # run → its rows after each look, since it was read whole
    looks: int = 0
    document: dict[str, Any] = field(default_factory=dict)
    _seen: dict[str, Marks] = field(default_factory=dict)
    _read: dict[str, tuple[Marks, Page]] = field(default_factory=dict)
    _configs: dict[str, tuple[str, RunConfig | None]] = field(default_factory=dict)
    _methods: Kept = field(default_factory=dict)
    _whole: float = 0.0  # when every file was last looked at
    _claims: tuple[object, list[dict[str, Any]]] = (None, [])

    def look(self) -> bool:
        """Read what has changed; returns whether anything has."""
        runs = {run.name: run for run in runs_in(self.store)}
        seen = self._marks(runs)
        if self.looks and seen == self._seen:
            return False
        self._seen, self.looks = seen, self.looks + 1
        configs = {name: self._config(run) for name, run in runs.items()}
        twice = copies({str(runs[name].path): config.run_id for name, config in configs.items() if config})
        known = {name: config for name, config in configs.items() if config and str(runs[name].path) not in twice}
        index = ControlIndex.of((runs[name], config) for name, config in known.items())
        shown = {name: run for name, run in runs.items() if str(run.path) not in twice}
        fresh = {name: self._page(shown[name], known.get(name), index) for name in counted(shown)}
        self._read = {name: kept for name, kept in self._read.items() if name in fresh}
        chosen = {name: page for name, page in fresh.items() if page.config is None or self.chosen(dict(page.overview))}
        for name in self.pages.keys() | chosen.keys():
            if self.pages.get(name) is not chosen.get(name):
                self.changed[name] = self.looks
                self._measure(name, chosen.get(name))
        self.pages = chosen
        found = [page.document["sentence"] for page in chosen.values() if page.config is None]
        self.problems = [*found, *(copy_of(path, other) for path, other in twice.items())]
        self.document = self._document(known)
        return True

    def _measure(self, name: str, page: Page | None) -> None:
        """Remember how many rows a changed run has. What was remembered before holds only if rows were appended."""
        before = self.pages.get(name)
        if page is None:
            self.lengths.pop(name, None)
            return
        kept = page.growing.kept if page.growing else 0
        if not kept or before is None or before.growing is None or len(before.growing.rows) != kept:
            self.lengths[name] = deque(maxlen=REMEMBERED)
        self.lengths[name].append((self.looks, len(page.series.get("epoch", ()))))

    def known(self, name: str, look: int) -> int | None:
        """How many of the rows of a run somebody has who knows an earlier look; None if they must be sent again."""
        return next((rows for when, rows in reversed(self.lengths[name]) if when <= look), None)

    def _marks(self, runs: Mapping[str, Run]) -> dict[str, Marks]:
        """The marks of each run. A run that has ended is known by its directory, unless a whole look is due."""
        now = time.monotonic()
        is_due = now - self._whole >= WHOLE
        if is_due:
            self._whole = now
        found = {}
        for name, run in runs.items():
            folder, before = sign(str(run.path)), self._seen.get(name, ())
            if is_due or not before or before[0] not in ENDED or before[1] != folder:
                before = marks(run, folder)
            found[name] = before
        return found

    def _config(self, run: Run) -> RunConfig | None:
        """The configuration of a run, parsed once; None if it cannot be read."""
        own = sign(f"{run.path}/config.json")
        if run.name not in self._configs or self._configs[run.name][0] != own:
            config = None
            with suppress(StoreError):
                config = run.config()
            self._configs[run.name] = own, config
        return self._configs[run.name][1]

    def _page(self, run: Run, config: RunConfig | None, index: ControlIndex) -> Page:
        beside = [] if config is None else index.candidates(config)
        own = (*self._seen[run.name], *(mark for control in beside for mark in self._seen[control.name]))
        if run.name not in self._read or self._read[run.name][0] != own:
            control = None if config is None else index.control(config)
            before = self._read[run.name][1] if run.name in self._read else None
            status = None if own[0] == DAMAGED else Status(own[0])
            page = read(run, self.protocol, control=control, config=config, status=status, before=before)
            self._read[run.name] = own, page
        return self._read[run.name][1]

    def _document(self, known: Mapping[str, RunConfig]) -> dict[str, Any]:
        whole = [page for page in self.pages.values() if page.config is not None]
        methods = methods_of(whole, self._methods)
        looks = looks_of(self.pages[method["runs"][0]] for method in methods)
        entries = {name: ENTRIES[name] for name in dict.fromkeys(name for page in whole for name in page.series)}
        return {
            "format": FORMAT,
            "store": str(self.store),
            "where": list(self.where),
            "made": datetime.now(timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
            "faudit": __version__,
            "digits": DIGITS,
            "protocol": {"name": self.protocol.name, "text": thresholds(self.protocol)},
            "checks": self._checks,
            "entries": {
                name: {"text": entry.text, "unit": entry.unit, "shape": entry.shape, "kind": entry.kind}
                for name, entry in entries.items()
            },
            "shared": told_once(shared_by([page.config for page in whole if page.config])),
            "differing": differing([page.document["config"] for page in whole]),
            "methods": [{**method, **look} for method, look in zip(methods, looks, strict=True)],
            "claims": self._judged(known),
            "template": template(methods, self.runs, self.protocol),
            "problems": self.problems,
        }

    @cached_property
    def _checks(self) -> dict[str, Any]:
        """The checks of the protocol. Their texts are read from source files, so they are read once."""
        return {
            check.name: {"text": CHECKS.summary(check.name), "reads": list(check.reads)}
            for check in (*self.protocol.checks, *self.protocol.labels)
        }

    def _judged(self, known: Mapping[str, RunConfig]) -> list[dict[str, Any]]:
        """The claims, computed anew if another run has ended."""
        ended = frozenset((name, self._seen[name]) for name in known if self._seen[name][0] in ENDED)
        if self._claims[0] != ended:
            self._claims = ended, claims_of(self.store, [known[name] for name, _ in ended])
        return self._claims[1]

    @property
    def hidden(self) -> int:
        """How many runs of the store are not shown."""
        return len(self._read.keys() - self.pages.keys())

    @property
    def runs(self) -> dict[str, dict[str, Any]]:
        """What the tables show of each run."""
        return {name: page.document for name, page in self.pages.items()}

    @property
    def series(self) -> dict[str, Columns]:
        """The rows of each run as columns."""
        return {name: page.series for name, page in self.pages.items() if page.document["verdict"] != DAMAGED}


def marks(run: Run, folder: str) -> Marks:
    """The status of a run, the marks of its directory, and the size and time of each file that the page reads."""
    try:
        status = run.status.value
    except StoreError:
        status = DAMAGED
    files = (*READ, run.checkpoint.name) if status in ENDED else READ  # the checkpoint of a running run changes often
    return (status, folder if status in ENDED else "", *(sign(f"{run.path}/{name}") for name in files))


def must_hold_runs(found: Collection) -> None:
    """Raise if a collection shows no run."""
    if found.pages:
        return
    if found.hidden:
        told = f"expected at least one, got none of {found.hidden}"
        raise StoreError(f"{found.store} has no run that matches --where {' '.join(found.where)}: {told}.")
    raise StoreError(f"{found.store} holds no runs: expected at least one to report. Make one with `faudit train`.")
