"""A run is what it says it is: a file that was cut, edited or taken from another run is damage, in every reader."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from faudit.cli.main import main
from faudit.config import RunConfig
from faudit.errors import CheckpointError, DamagedError, StoreError
from faudit.store import checkpoint
from faudit.store.run import ENDED, Run
from faudit.train import fit, stream
from tests.support import fabricate

DFA = RunConfig(rule="dfa", epochs=6, width=16, depth=2, batch_size=128, eval_size=64, keep_epochs=(2,))
FROZEN = RunConfig(rule="frozen-dfa", epochs=6, width=16, depth=2, batch_size=128, eval_size=64)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    store = tmp_path_factory.mktemp("ties")
    for config in (DFA, FROZEN, DFA.with_(seed=7)):
        fit(config, store)
    return store


@pytest.fixture
def store(trained: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(trained, tmp_path / "store"))


def run_of(store: Path, config: RunConfig) -> Run:
    return Run(store / config.run_id)


def take(name: str, other: RunConfig) -> Callable[[Path], None]:
    """Copy a file of another run over this one's."""

    def change(store: Path) -> None:
        shutil.copy(run_of(store, other).path / name, run_of(store, DFA).path / name)

    return change


def take_weights(store: Path) -> None:
    """Write another seed's checkpoint whole and without ties, as an earlier version did: its weights alone tell."""
    tensors, header = checkpoint.load(run_of(store, DFA.with_(seed=7)).checkpoint)
    checkpoint.write(run_of(store, DFA).checkpoint, tensors, header["epoch"], ties={})


def edit_seed(store: Path) -> None:
    path = run_of(store, DFA).path / "config.json"
    document = json.loads(path.read_text())
    document["config"]["seed"] = 8
    path.write_text(json.dumps(document))


def cut_rows(store: Path) -> None:
    path = run_of(store, DFA).rows_file
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-2]))


def edit_a_row(store: Path) -> None:
    path = run_of(store, DFA).rows_file
    *before, last = path.read_text().splitlines()
    row = json.loads(last)
    row["hidden_norms"] = [1.0] * len(row["hidden_norms"])
    path.write_text("\n".join([*before, json.dumps(row)]) + "\n")


DAMAGE: dict[str, Callable[[Path], object]] = {
    "the frozen run's configuration": take("config.json", FROZEN),
    "an edited seed": edit_seed,
    "cut rows": cut_rows,
    "an edited row": edit_a_row,
    "another seed's rows": take("rows.jsonl", DFA.with_(seed=7)),
    "another seed's end": take("done.json", DFA.with_(seed=7)),
}
OF_WEIGHTS: dict[str, Callable[[Path], object]] = {
    "the frozen run's checkpoint": take("last.safetensors", FROZEN),
    "another seed's checkpoint": take("last.safetensors", DFA.with_(seed=7)),
    "another seed's checkpoint without ties": take_weights,
    "a kept checkpoint for the last one": lambda store: shutil.copy(
        run_of(store, DFA).kept(2), run_of(store, DFA).checkpoint
    ),
    "a cut checkpoint": lambda store: run_of(store, DFA).checkpoint.write_bytes(
        run_of(store, DFA).checkpoint.read_bytes()[:-9]
    ),
}


@pytest.mark.parametrize("change", [*DAMAGE.values(), *OF_WEIGHTS.values()], ids=[*DAMAGE, *OF_WEIGHTS])
def test_a_damaged_run_is_never_judged(
    store: Path, change: Callable[[Path], object], capsys: pytest.CaptureFixture[str]
) -> None:
    run = run_of(store, DFA)
    assert main(["audit", str(run.path), "--runs", str(store)]) in (0, 1, 3), "it is sound before"
    (run.path / "audit.json").unlink(missing_ok=True)
    capsys.readouterr()
    change(store)
    assert main(["audit", str(run.path), "--runs", str(store)]) == 2
    said = capsys.readouterr()
    assert said.out == "" and "is damaged: " in said.err and "--again" in said.err and len(said.err.splitlines()) == 1


@pytest.mark.parametrize("change", DAMAGE.values(), ids=DAMAGE)
def test_a_damaged_run_is_neither_shown_as_done_nor_exported_nor_called_finished(
    store: Path, change: Callable[[Path], object], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    change(store)
    name = DFA.run_id
    for words in (["show", "--json"], ["export", "--format", "csv", "--out", str(tmp_path / "rows.csv")]):
        assert main([*words, "--runs", str(store)]) == 2
        said = capsys.readouterr()
        assert name not in said.out and "is damaged: " in said.err and name in said.err
    assert name not in (tmp_path / "rows.csv").read_text()
    with pytest.raises(DamagedError):
        fit(DFA, store)


@pytest.mark.parametrize("change", [*DAMAGE.values(), *OF_WEIGHTS.values()], ids=[*DAMAGE, *OF_WEIGHTS])
def test_the_one_way_out_works_and_loses_nothing(
    store: Path, trained: Path, change: Callable[[Path], object], capsys: pytest.CaptureFixture[str]
) -> None:
    change(store)
    run = run_of(store, DFA)
    damaged = {path.name: path.read_bytes() for path in run.path.iterdir() if path.name != "lock"}
    flags = "--rule dfa --epochs 6 --width 16 --depth 2 --batch-size 128 --eval-size 64 --keep-epochs 2"
    words = [*flags.split(), "--again"]
    assert main(["train", *words, "--runs", str(store)]) == 0
    assert {path.name: path.read_bytes() for path in (run.path / "aside-1").iterdir()} == damaged
    calm = run_of(trained, DFA)
    assert run.checkpoint.read_bytes() == calm.checkpoint.read_bytes() and run.ties() == calm.ties()
    assert main(["audit", str(run.path), "--runs", str(store)]) in (0, 1, 3)


def test_a_run_does_not_resume_from_another_seeds_checkpoint(store: Path, tmp_path: Path) -> None:
    run = Run(tmp_path / "half" / DFA.run_id)
    rows = stream(DFA, run)
    next(rows), next(rows), next(rows)
    rows.close()  # type: ignore[attr-defined]  # stream is a generator
    shutil.copy(run_of(store, DFA.with_(seed=7)).kept(2), run.checkpoint)
    with pytest.raises(CheckpointError, match=r"it belongs to resmlp-dfa-digits-s7-"):
        fit(DFA, tmp_path / "half")
    assert run.status == "stopped"


def test_a_kept_checkpoint_is_the_runs_own_and_of_its_epoch(store: Path) -> None:
    run, other = run_of(store, DFA), run_of(store, DFA.with_(seed=7))
    assert checkpoint.load_of(run, epoch=2)[1]["epoch"] == 2
    shutil.copy(other.kept(2), run.kept(2))
    with pytest.raises(CheckpointError, match="it belongs to"):
        checkpoint.load_of(run, epoch=2)
    shutil.copy(run.checkpoint, run.kept(2))
    with pytest.raises(CheckpointError, match="it is at epoch 6, expected 2"):
        checkpoint.load_of(run, epoch=2)


def test_a_run_of_an_earlier_version_is_read_and_what_ties_it_has_are_checked(store: Path) -> None:
    """It names the run in config.json alone, and ends with the epoch that it came to."""
    run = run_of(store, DFA)
    outcome = run.outcome() or {}
    plain = {name: value for name, value in outcome.items() if name not in ("run_id", "rows")}
    (run.path / "done.json").write_text(json.dumps(plain))
    assert len(run.rows()) == 7 and checkpoint.load_of(run)[1]["epoch"] == 6
    cut_rows(store)
    with pytest.raises(DamagedError, match="its rows are not those that the run ended with"):
        run.rows()
    take("last.safetensors", FROZEN)(store)
    with pytest.raises(CheckpointError):
        checkpoint.load_of(run)


def test_another_directory_name_is_no_damage_unless_it_is_another_runs_id(store: Path) -> None:
    moved = run_of(store, DFA).path.rename(store / "my best run")
    assert Run(moved).config() == DFA
    with pytest.raises(DamagedError, match="is in the directory of"):
        Run(moved.rename(store / DFA.with_(seed=99).run_id)).config()


@pytest.mark.parametrize("name", ["done.json", "failed.json"])
def test_a_link_to_nothing_is_a_damaged_file_and_not_a_missing_one(tmp_path: Path, name: str) -> None:
    run = fabricate.write(RunConfig(rule="dfa", epochs=2), tmp_path)
    (run.path / "done.json").unlink(missing_ok=True)
    (run.path / name).symlink_to(tmp_path / "gone")
    assert run.status in ENDED
    with pytest.raises(StoreError, match=name) as caught:
        run.outcome()
    assert "\n" not in str(caught.value)
