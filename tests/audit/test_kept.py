"""What an audit measured is kept: a second audit measures nothing, and what no longer holds is measured again."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from faudit.audit import measure
from faudit.audit.audit import audit
from faudit.audit.protocol import DEFAULT, PROTOCOLS
from faudit.cli.main import main
from faudit.config import RunConfig
from faudit.errors import StoreError
from faudit.probes import PROBES, Declaration, Probes
from faudit.store import audits
from faudit.store.run import Run
from faudit.train import fit

CONFIG = RunConfig(rule="dfa", epochs=6, width=16, depth=2, batch_size=128, eval_size=64)
OURS = PROTOCOLS[DEFAULT]


@pytest.fixture(scope="module")
def audited(tmp_path_factory: pytest.TempPathFactory) -> Path:
    store = tmp_path_factory.mktemp("kept")
    for config in (CONFIG, CONFIG.with_(rule="frozen-dfa"), CONFIG.with_(seed=7)):
        audit(fit(config, store), OURS, data_dir=None)
    return store


@pytest.fixture
def run(audited: Path, tmp_path: Path) -> Run:
    return Run(Path(shutil.copytree(audited, tmp_path / "store")) / CONFIG.run_id)


@pytest.fixture
def measurements(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The probes of each measurement from now on."""
    seen: list[list[str]] = []
    real = measure.measure

    def watched(run: Run, config: RunConfig, probes: list[str], *, data_dir: Path | None) -> audits.KeptAudit:
        seen.append(list(probes))
        return real(run, config, probes, data_dir=data_dir)

    monkeypatch.setattr(measure, "measure", watched)
    return seen


def full() -> list[str]:
    return [name for name in PROBES if PROBES.declared(name).tier == "full"]


def test_a_second_audit_measures_nothing_and_gives_the_same_verdict(run: Run, measurements: list[list[str]]) -> None:
    again = audit(run, OURS, data_dir=None)
    assert not measurements and not again.remarks
    (run.path / audits.FILE).unlink()
    afresh = audit(run, OURS, data_dir=None)
    assert measurements == [full()]
    assert again.verdict == afresh.verdict and again.case == afresh.case


def test_a_second_audit_imports_no_torch(run: Run) -> None:
    code = "import sys; from faudit.cli.main import main; main(sys.argv[1:]); assert 'torch' not in sys.modules"
    words = [sys.executable, "-c", code, "audit", str(run.path)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and run.name in done.stdout, done.stderr


def test_rows_and_checkpoint_are_never_touched(run: Run) -> None:
    names = ("rows.jsonl", "last.safetensors", "config.json", "env.json", "done.json")
    before = {name: (run.path / name).read_bytes() for name in names}
    (run.path / audits.FILE).unlink()
    audit(run, OURS, data_dir=None)
    assert before == {name: (run.path / name).read_bytes() for name in names}


def test_a_probe_of_another_version_is_measured_again_and_no_other(
    run: Run, measurements: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Probes.declared

    def declared(self: Probes, name: str) -> Declaration:
        found = real(self, name)
        return replace(found, version=found.version + 1) if name == "rank" else found

    monkeypatch.setattr(Probes, "declared", declared)
    once, twice = (audit(run, OURS, data_dir=None) for _ in range(2))
    assert measurements == [["rank"]]
    assert once.remarks == (f"{run.name}: measured again, because these probes changed since the last audit: rank",)
    assert not twice.remarks and once.verdict == twice.verdict


def cut(run: Run) -> None:
    path = run.path / audits.FILE
    path.write_bytes(path.read_bytes()[:-30])


def edit(run: Run) -> None:
    path = run.path / audits.FILE
    document = json.loads(path.read_text())
    document["body"]["entries"]["rank"]["reference_rank"] = [9.0, 9.0, 9.0]
    path.write_text(json.dumps(document))


def take_another_runs(run: Run) -> None:
    shutil.copy(run.path.parent / CONFIG.with_(seed=7).run_id / audits.FILE, run.path / audits.FILE)


def from_other_weights(run: Run) -> None:
    """As if the checkpoint had been another file when it was measured."""
    document = json.loads((run.path / audits.FILE).read_text())
    document["body"]["ties"]["checkpoint_sha256"] = "0" * 64
    document["sha256"] = audits.checksum(document["body"])
    (run.path / audits.FILE).write_text(json.dumps(document))


def overwrite(run: Run, text: str) -> None:
    (run.path / audits.FILE).write_text(text)


SPOILT: dict[str, tuple[Callable[[Run], None], str]] = {
    "cut": (cut, "is damaged: expected JSON"),
    "edited": (edit, "is truncated, edited or from another version"),
    "of another run": (take_another_runs, "belongs to other weights or data"),
    "of other weights": (from_other_weights, "belongs to other weights or data"),
    "no object": (lambda run: overwrite(run, "[]"), "expected a JSON object"),
    "empty": (lambda run: overwrite(run, "{}"), "is truncated, edited"),
}


@pytest.mark.parametrize(("spoil", "told"), SPOILT.values(), ids=SPOILT)
def test_what_cannot_be_used_is_measured_again_and_said(
    run: Run, spoil: Callable[[Run], None], told: str, measurements: list[list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    before = audit(run, OURS, data_dir=None).verdict
    spoil(run)
    code = main(["audit", str(run.path)])
    said = capsys.readouterr()
    assert code in (0, 1, 3) and told in said.err and "It is measured again." in said.err
    assert said.err.count("\n") == 1 and measurements == [full()]
    after = audit(run, OURS, data_dir=None)
    assert after.verdict == before and not after.remarks and len(measurements) == 1, "kept once more"


def test_a_store_that_cannot_be_written_is_judged_all_the_same(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise StoreError("cannot use it: Read-only file system.")

    monkeypatch.setattr(audits, "write", refused)
    (run.path / audits.FILE).unlink()
    found = audit(run, OURS, data_dir=None)
    assert found.remarks == ("the measurements were not kept: cannot use it: Read-only file system.",)
    assert found.verdict.findings and not (run.path / audits.FILE).exists()


def test_a_log_without_weights_is_judged_by_what_an_earlier_audit_kept(run: Run, measurements: list[list[str]]) -> None:
    before = audit(run, OURS, data_dir=None)
    run.checkpoint.unlink()
    after = audit(run, OURS, data_dir=None)
    assert not measurements and not after.remarks
    assert after.verdict == before.verdict and after.case == before.case


def retie(run: Run, **ties: object) -> None:
    """Change the ties of a kept audit, with the checksum that belongs to them."""
    document = json.loads((run.path / audits.FILE).read_text())
    document["body"]["ties"].update(ties)
    document["sha256"] = audits.checksum(document["body"])
    (run.path / audits.FILE).write_text(json.dumps(document))


def drop_fingerprint(run: Run) -> None:
    """As if an older version had written the file."""
    document = json.loads((run.path / audits.FILE).read_text())
    del document["body"]["ties"]["weights_sha256"]
    document["sha256"] = audits.checksum(document["body"])
    (run.path / audits.FILE).write_text(json.dumps(document))


FOREIGN: dict[str, Callable[[Run], None]] = {
    "of other weights": lambda run: retie(run, weights_sha256="0" * 64),
    "of other data": lambda run: retie(run, data_sha256="0" * 64),
    "of another run": take_another_runs,
    "of no known weights": drop_fingerprint,
}


@pytest.mark.parametrize("spoil", FOREIGN.values(), ids=FOREIGN)
def test_without_weights_a_foreign_audit_is_not_believed(run: Run, spoil: Callable[[Run], None]) -> None:
    spoil(run)
    run.checkpoint.unlink()
    found = audit(run, OURS, data_dir=None)
    assert "belongs to other weights or data" in found.remarks[0] and "measured again" not in found.remarks[0]
    assert "is missing: what only the weights can tell" in found.remarks[1]
    assert found.verdict.verdict != "trustworthy" and found.case.last.get("gamma_null_draws") is None


def test_a_kept_audit_of_an_older_version_still_counts_beside_the_weights(
    run: Run, measurements: list[list[str]]
) -> None:
    drop_fingerprint(run)
    assert not audit(run, OURS, data_dir=None).remarks and not measurements
