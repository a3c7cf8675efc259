"""Nothing that a user asks for, or that lies in a store, is passed over without a word."""

from __future__ import annotations

import json
import shutil
import warnings
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
from torch import nn

from faudit import FauditError, audit_model
from faudit.cli.main import main
from faudit.config import RunConfig
from faudit.errors import ModelError, StoreError
from faudit.papers import PAPERS
from faudit.store.run import Run
from faudit.train import fit, stream
from faudit.watch.weights import load_weights
from tests.support.fabricate import all_runs, write
from tests.support.idx_files import NAMES
from tests.support.idx_files import write as write_mnist
from tests.support.models import batch, mlp

PLAN = PAPERS["faeval"].plan("digits", epochs=3, seeds=(42,))
MNIST = ["--data", "mnist", "--width", "8", "--depth", "2", "--batch-size", "2", "--epochs", "1"]


def said(capsys: pytest.CaptureFixture[str], words: list[str]) -> tuple[int, str, str]:
    code = main(words)
    out, err = capsys.readouterr()
    return code, out, err


@pytest.fixture
def trained(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """The command of a finished MNIST run, without its data."""
    words = ["train", *MNIST, "--runs", str(tmp_path / "runs")]
    assert main([*words, "--data-dir", str(write_mnist(tmp_path / "data"))]) == 0
    capsys.readouterr()
    return words


def test_a_finished_run_is_held_against_the_data_that_is_given(
    trained: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert said(capsys, trained)[::2] == (0, "")
    assert said(capsys, [*trained, "--data-dir", str(tmp_path / "data")])[::2] == (0, "")
    copy = write_mnist(tmp_path / "copy", suffix="", zipped=False)  # the same contents in other files
    assert said(capsys, [*trained, "--data-dir", str(copy)])[::2] == (0, "")
    code, out, err = said(capsys, [*trained, "--data-dir", str(write_mnist(tmp_path / "other", seed=1))])
    assert (code, out) == (2, "") and "was trained on other mnist files" in err and err.count("\n") == 1


def test_data_that_cannot_be_read_is_told_of_beside_a_finished_run(
    trained: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "data" / f"{NAMES[0]}.gz").write_bytes(b"cut")
    for folder in (tmp_path / "data", tmp_path / "nowhere"):
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            code, out, err = said(capsys, [*trained, "--data-dir", str(folder)])
        assert code == 0 and out.startswith(str(tmp_path / "runs"))
        assert (
            err.startswith("faudit: warning: ")
            and f"is finished and needs no data, but {folder} cannot be read: " in err
        )
        assert err.count("\n") == 1


def test_a_sweep_holds_its_finished_runs_against_the_data_too(
    trained: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    study = tmp_path / "study.toml"
    study.write_text('data = "mnist"\nwidth = 8\ndepth = 2\nbatch-size = 2\nepochs = 1\n')
    words = ["sweep", str(study), "--runs", str(tmp_path / "runs"), "--data-dir"]
    assert said(capsys, [*words, str(tmp_path / "data")])[0] == 0
    code, _, err = said(capsys, [*words, str(write_mnist(tmp_path / "other", seed=1))])
    assert code == 2 and "was trained on other mnist files" in err and err.count("\n") == 1
    code, out, err = said(capsys, [*words, str(tmp_path / "nowhere")])
    assert code == 0 and "1 done" in out and "note: 1 runs on mnist are finished, whatever" in err


@pytest.mark.parametrize("flags", [["--seeds", "1"], ["--seeds", "42"], ["--data", "digits"], ["--epochs", "3"]])
@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_a_table_refuses_the_flags_of_the_study(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], flags: list[str], form: str
) -> None:
    write(RunConfig(epochs=1), tmp_path / "runs")
    words = ["export", "--format", form, "--runs", str(tmp_path / "runs"), "--out", str(tmp_path / "rows"), *flags]
    code, out, err = said(capsys, words)
    assert (code, out) == (2, "") and err.startswith(f"faudit: {flags[0]}: expected with a paper's files, got it with")
    assert not (tmp_path / "rows").exists()


def test_one_run_refuses_a_choice_among_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = write(RunConfig(epochs=1), tmp_path)
    code, out, err = said(capsys, ["show", str(run.path), "--where", "rule=dfa"])
    assert (code, out) == (2, "") and "--where selects runs of a store" in err


def test_a_kept_checkpoint_that_is_gone_is_told_of_on_resume(tmp_path: Path) -> None:
    config = RunConfig(epochs=4, width=8, depth=2, batch_size=256, keep_epochs=(1, 3))
    run = Run(tmp_path / config.run_id)
    steps = stream(config, run)
    while next(steps)["epoch"] < 3:  # the checkpoint then stands at epoch 2
        pass
    steps.close()  # type: ignore[attr-defined]  # a generator
    run.kept(1).rename(tmp_path / "away")
    with pytest.raises(StoreError) as caught:
        fit(config, tmp_path)
    assert str(caught.value).startswith(f"{run.kept(1)} is damaged: the checkpoint of keep-epochs is missing")
    (tmp_path / "away").rename(run.kept(1))
    assert fit(config, tmp_path).status == "done" and run.kept(3).exists()


@pytest.fixture
def doubled(tmp_path: Path) -> Path:
    """The runs of a figure, one of them there again as a copy and once more as a link."""
    runs = tmp_path / "runs"
    all_runs(PLAN, runs, ["resmlp bp", "resmlp dfa", "noln bp", "noln dfa"])
    run = runs / PLAN.config("resmlp dfa").run_id
    shutil.copytree(run, runs / "a-copy")
    (runs / "z-link").symlink_to(run)
    return runs


def test_a_copy_is_named_and_counts_once_in_tables(doubled: Path, capsys: pytest.CaptureFixture[str]) -> None:
    original = PLAN.config("resmlp dfa").run_id
    code, out, err = said(capsys, ["show", "--runs", str(doubled), "--json"])
    assert (
        code == 2 and len(json.loads(out)) == 4 and f"{doubled}/{original}" in {one["run"] for one in json.loads(out)}
    )
    copies = [f"{doubled}/{name} is a copy of {original}" for name in ("a-copy", "z-link")]
    assert err.count("\n") == 2 and all(told in err for told in copies)
    rows = doubled.parent / "rows.csv"
    code, _, err = said(capsys, ["export", "--format", "csv", "--runs", str(doubled), "--out", str(rows)])
    assert code == 2 and all(told in err for told in copies) and len(rows.read_text().splitlines()) == 1 + 4 * 4


def test_a_copy_is_named_and_counts_once_in_figures(doubled: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["figure", "snapshot-resmlp", "--runs", str(doubled), "--data", "digits", "--epochs", "3", "--seeds", "42"]
    code, _, err = said(capsys, [*words, "--out", str(doubled.parent / "picture.svg")])
    assert code == 0 and "a-copy is a copy of" in err and "z-link is a copy of" in err
    drawn = json.loads((doubled.parent / "picture.json").read_text())
    shutil.rmtree(doubled / "a-copy")
    (doubled / "z-link").unlink()
    assert main([*words, "--out", str(doubled.parent / "alone.svg")]) == 0
    assert drawn | {"remarks": []} == json.loads((doubled.parent / "alone.json").read_text()) | {"remarks": []}


def test_a_copy_is_named_and_judged_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = fit(RunConfig(epochs=1, width=8, depth=2, batch_size=256), tmp_path)
    shutil.copytree(run.path, tmp_path / "copy")
    for words in (["--utility"], [run.name, "copy", run.name]):
        code, out, err = said(capsys, ["audit", "--runs", str(tmp_path), "--json", *words])
        assert code in (1, 3) and [one["run"] for one in json.loads(out)["runs"]] == [str(run.path)]
        assert err == f"faudit: note: {tmp_path}/copy is a copy of {run.name} and is left out. Move the copy out " + (
            "of the store.\n"
        )


def test_an_import_is_no_copy_of_the_run_that_it_is_of(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = write(RunConfig(epochs=1), tmp_path)
    shutil.copytree(run.path, tmp_path / f"imported-{run.name}")
    code, out, _ = said(capsys, ["show", "--runs", str(tmp_path), "--json"])
    assert code == 0 and len(json.loads(out)) == 2


COMPLEX, SPARSE = torch.ones(8, 8, dtype=torch.complex64), torch.eye(8).to_sparse()


def refused(model: nn.Module) -> str:
    with pytest.raises(FauditError) as caught:
        audit_model(model, [batch()], taps=["0", "2"])
    return str(caught.value)


@pytest.mark.parametrize(("value", "kind"), [(COMPLEX, "complex"), (SPARSE, "sparse")])
def test_complex_and_sparse_weights_of_a_model_are_refused(value: torch.Tensor, kind: str) -> None:
    model = mlp()
    model.register_parameter("odd", nn.Parameter(value))
    assert f"the model's 'odd': expected dense real numbers, got a {kind} tensor" in refused(model)
    other = mlp()
    other.register_buffer("odd", value)
    assert f"got a {kind} tensor" in refused(other)


@pytest.mark.parametrize(("value", "told"), [(COMPLEX, "imaginary parts would be lost"), (SPARSE, "a sparse tensor")])
def test_complex_and_sparse_weights_of_a_file_are_refused(tmp_path: Path, value: torch.Tensor, told: str) -> None:
    model = mlp()
    before = {name: kept.clone() for name, kept in model.state_dict().items()}
    torch.save({**model.state_dict(), "2.weight": value}, tmp_path / "model.pt")
    with pytest.raises(ModelError, match=told):
        load_weights(model, tmp_path / "model.pt")
    assert all(torch.equal(model.state_dict()[name], kept) for name, kept in before.items())


@pytest.mark.parametrize("name", ["model.bin", "model", "pytorch_model.pt"])
def test_safetensors_are_known_by_what_is_inside(tmp_path: Path, name: str) -> None:
    source, model = mlp(seed=1), mlp(seed=2)
    safetensors.torch.save_file(source.state_dict(), tmp_path / name)
    load_weights(model, tmp_path / name)
    assert torch.equal(source.state_dict()["0.weight"], model.state_dict()["0.weight"])


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has CUDA")
@pytest.mark.parametrize("device", ["cuda", "cuda:1"])
def test_a_dry_run_says_no_where_there_is_no_cuda(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], device: str
) -> None:
    (tmp_path / "study.toml").write_text(f'device = "{device}"\nepochs = 1\n')
    code, out, err = said(
        capsys, ["sweep", str(tmp_path / "study.toml"), "--dry-run", "--runs", str(tmp_path / "runs")]
    )
    assert (code, out) == (2, "") and f"device: expected one that this machine has, got '{device}'" in err


def exported(tmp_path: Path) -> dict[str, Any]:
    """A file of the study, written from runs."""
    all_runs(PLAN, tmp_path / "runs", ["resmlp bp", "resmlp dfa"])
    flags = ["--runs", str(tmp_path / "runs"), "--data", "digits", "--epochs", "3", "--seeds", "42"]
    assert main(["export", *flags, "--out", str(tmp_path)]) == 0
    document: dict[str, Any] = json.loads((tmp_path / "results" / SNAPSHOT).read_text())
    return document


SNAPSHOT = "snapshot_evolution_v2/snapshot_evolution_s42.json"


@pytest.mark.parametrize(
    ("place", "name", "value"),
    [
        ("config", "seed", 43),
        ("config", "lr", 0.1),
        ("config", "batch_size", 7),
        ("config", "data", "cifar10"),
        ("config", "net", "vit"),
        ("config", "epochs", 5),
        ("config", "no_terminal_norm", True),
        ("config", "lam", 0.5),
        ("", "depth", 3),
        ("", "d_hidden", 9),
    ],
)
def test_an_import_whose_settings_contradict_its_own_block_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], place: str, name: str, value: Any
) -> None:
    document = exported(tmp_path)
    file = tmp_path / "snapshot_evolution_s42.json"
    file.write_text(json.dumps(document))
    words = ["import", str(file), "--runs", str(tmp_path / "imported")]
    (document[place] if place else document)[name] = value
    file.write_text(json.dumps(document))
    capsys.readouterr()
    code, out, err = said(capsys, words)
    assert (code, out) == (2, "") and err.count("\n") == 1 and "as in config, faudit" in err and name in err
    assert not (tmp_path / "imported").exists()


def test_an_import_that_agrees_with_itself_is_read(tmp_path: Path) -> None:
    document = exported(tmp_path)
    document["config"]["faudit"]["dfa_log"]["epochs"] = 9  # one head stands for two logs of different lengths
    file = tmp_path / "snapshot_evolution_s42.json"
    file.write_text(json.dumps(document))
    assert main(["import", str(file), "--runs", str(tmp_path / "imported")]) == 0
    assert len(list((tmp_path / "imported").iterdir())) == 2


def test_a_run_that_lost_its_configuration_is_named_and_not_passed_over(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = write(RunConfig(epochs=1), tmp_path)
    (run.path / "config.json").unlink()
    assert main(["show", "--json", "--runs", str(tmp_path)]) == 2
    said = capsys.readouterr()
    assert said.out.strip() == "[]" and f"{run.path}/config.json" in said.err and said.err.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["export"], 0),
        (["figure", "snapshot-resmlp", "--partial"], 0),
        (["reproduce", "claims", "--jobs", "0"], 0),
        (["audit", "--utility"], 3),
        (["audit", "LOST"], 2),
        (["show", "LOST"], 2),
    ],
)
@pytest.mark.parametrize("ended", [True, False], ids=["ended", "stopped"])
def test_every_command_names_a_run_that_lost_its_configuration(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], code: int, ended: bool
) -> None:
    all_runs(PLAN, tmp_path / "runs", ["resmlp bp", "resmlp dfa", "noln bp", "noln dfa"])
    lost = tmp_path / "runs" / PLAN.config("noln dfa").run_id
    (lost / "config.json").unlink()
    if not ended:
        (lost / "done.json").unlink()
    words = [lost.name if word == "LOST" else word for word in words]
    if words[0] not in ("audit", "show"):
        words += ["--data", "digits", "--epochs", "3", "--seeds", "42", "--out", str(tmp_path / "out.svg")]
    got, _, err = said(capsys, [*words, "--runs", str(tmp_path / "runs")])
    assert got == code and f"{lost}/config.json" in err and "unknown run" not in err
