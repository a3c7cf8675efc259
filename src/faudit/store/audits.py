"""What an audit measured on a run's checkpoint, kept in the run's directory as ``audit.json``.

The costly probes take seconds to minutes, so a second audit reads what the first one measured. The file holds the
entries of each probe with the probe's version, and facts from the rule and the data. It is tied to the run, to the
bytes of the checkpoint, to the fingerprint of the weights in ``done.json`` and to the data; entries that no longer
match are measured again. A log whose checkpoint was removed is tied by that fingerprint alone. Rows and checkpoint are
never changed. The verdict is not kept, because the judge computes it from these numbers every time.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from faudit.errors import StoreError
from faudit.store.files import contents, read_json, refusals, write_json
from faudit.store.rows import decoded, encoded
from faudit.store.run import Run

FORMAT = 1
FILE = "audit.json"


@dataclass(frozen=True)
class Facts:
    """Facts from the rule and the data of a run, which a verdict needs besides the rows."""

    trains_blocks: bool
    no_control: str | None  # the reason, if its rule can have no frozen control
    test_samples: int
    classes: int
    eval_samples: int
    no_credit: str | None = None  # the reason, if its rule has no signal at the taps


@dataclass(frozen=True)
class KeptAudit:
    """Measured entries by probe, the version of each probe, and the facts of the run."""

    entries: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    versions: Mapping[str, int] = field(default_factory=dict)
    known: Facts | None = None

    @property
    def facts(self) -> Facts:
        assert self.known is not None, "read only after a measurement"
        return self.known

    @property
    def row(self) -> dict[str, Any]:
        """The entries of all probes together."""
        samples = {"eval_samples": self.facts.eval_samples}  # older rows lack it
        return samples | {name: value for found in self.entries.values() for name, value in found.items()}

    def with_(self, fresh: KeptAudit, *, versions: Mapping[str, int]) -> KeptAudit:
        """A copy with new measurements in place of the old ones."""
        return KeptAudit({**self.entries, **fresh.entries}, {**self.versions, **versions}, fresh.known)

    def of(self, probes: Iterable[str]) -> KeptAudit:
        """The entries of some probes only."""
        return replace(self, entries={name: self.entries[name] for name in probes})


def read(run: Run) -> tuple[KeptAudit, str]:
    """The kept audit of a run, and the problem if the file cannot be used; both are empty if there is no file."""
    path = run.path / FILE
    if not path.exists():
        return KeptAudit(), ""
    try:
        document = read_json(path)
    except StoreError as error:
        return KeptAudit(), f"{error} It is measured again."
    body: Any = document.get("body")
    if document.get("format") != FORMAT or document.get("sha256") != checksum(body):
        return KeptAudit(), f"{path} is truncated, edited or from another version. It is measured again."
    if not belongs(body["ties"], ties(run)):
        return KeptAudit(), f"{path} belongs to other weights or data. It is measured again."
    entries = {name: {key: decoded(value) for key, value in kept.items()} for name, kept in body["entries"].items()}
    return KeptAudit(entries, body["versions"], Facts(**body["facts"])), ""


def write(run: Run, kept: KeptAudit) -> None:
    """Write the kept audit of a run."""
    entries = {name: {key: encoded(value) for key, value in found.items()} for name, found in kept.entries.items()}
    body = {"ties": ties(run), "versions": dict(kept.versions), "facts": asdict(kept.facts), "entries": entries}
    path = run.path / FILE
    if path.is_symlink():  # the file that it points to is not ours
        raise StoreError(f"cannot use {path}: expected a file, got a link. Remove it.")
    write_json(path, {"format": FORMAT, "sha256": checksum(body), "body": body})


def ties(run: Run) -> dict[str, Any]:
    """What the measurements belong to: the run, its weights and its data; the checkpoint's bytes if there is one."""
    found = {
        "run_id": run.config().run_id,
        "weights_sha256": (run.outcome() or {}).get("weights_sha256"),
        "data_sha256": run.environment().get("data_sha256"),
    }
    if run.checkpoint.exists():
        with refusals(run.checkpoint):
            found["checkpoint_sha256"] = hashlib.sha256(contents(run.checkpoint)).hexdigest()
    return found


def belongs(kept: Mapping[str, Any], own: Mapping[str, Any]) -> bool:
    """Whether the ties of a file are those of its run. Files of older versions have no fingerprint of the weights."""
    if "checkpoint_sha256" in own:
        return {"weights_sha256": own["weights_sha256"], **kept} == own
    return own["weights_sha256"] is not None and {**own, "checkpoint_sha256": kept.get("checkpoint_sha256")} == kept


def checksum(body: object) -> str:
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
