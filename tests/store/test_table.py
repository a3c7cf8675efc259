"""Every row of every run in one table, as CSV and as Parquet, with nothing lost and nothing made up."""

from __future__ import annotations

import csv
import json
import math
import sys
from pathlib import Path

import pytest

from faudit.cli.main import main
from faudit.config import RunConfig, key
from faudit.store.rows import to_line
from faudit.store.run import Run
from tests.support.fabricate import write


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Two finished runs, one of them with the costly probes and one entry that overflowed, and one that is not."""
    runs = tmp_path / "runs"
    write(RunConfig(rule="bp", epochs=2, keep_epochs=(1, 2)), runs)
    probed = write(RunConfig(rule="dfa", epochs=3, probe_epochs=(1,), no_residual=True), runs)
    text = probed.rows_file.read_text().splitlines(keepends=True)
    probed.rows_file.write_text("".join([*text[:-1], text[-1].replace('"loss_eval": 2.3', '"loss_eval": "inf"')]))
    write(RunConfig(rule="dfa", epochs=9), runs, until=1)
    return runs


def export(store: Path, form: str, capsys: pytest.CaptureFixture[str], *flags: str) -> tuple[Path, str]:
    out = store.parent / "tables" / f"rows.{form}"
    assert main(["export", "--runs", str(store), "--format", form, "--out", str(out), *flags]) == 0
    told, err = capsys.readouterr()
    assert told == f"{out}\n" and [path.name for path in out.parent.iterdir()] == [out.name]
    return out, err


def test_a_csv_has_a_line_for_every_row_and_a_column_for_every_place(
    store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, err = export(store, "csv", capsys)
    with open(out, newline="") as file:
        lines = list(csv.DictReader(file))
    assert len(lines) == 3 + 4 + 2 and "9 rows" in err
    assert set(map(key, RunConfig().settings)) - {"keep-epochs", "probe-epochs", "milestones"} <= set(lines[0])
    for path in store.iterdir():
        for row in Run(path).rows():
            (line,) = [one for one in lines if (one["run_id"], one["epoch"]) == (path.name, str(row["epoch"]))]
            assert [float(line[f"hidden_norms[{tap}]"]) for tap in range(5)] == row["hidden_norms"]
            assert line["test_acc"] == ("" if row["test_acc"] is None else str(row["test_acc"]))
            assert line["rho[3]"] == (str(row["rho"][3]) if "rho" in row else "")
            assert float(line["loss_eval"]) == row["loss_eval"]
    assert {one["keep-epochs[1]"] for one in lines if one["rule"] == "bp"} == {"2"}
    assert any(line["loss_eval"] == "inf" for line in lines)


def test_a_parquet_file_gives_the_rows_back(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    out, _ = export(store, "parquet", capsys, "--where", "rule=dfa")
    lines = parquet.read_table(out).to_pylist()
    assert len(lines) == 4 + 2
    for line in lines:
        (row,) = [row for row in Run(store / line["run_id"]).rows() if row["epoch"] == line["epoch"]]
        assert {name: line[name] for name in row} == row
        assert all(line[name] is None for name in ("rho", "rho_null_mean") if name not in row)
        assert line["no-residual"] is (line["epochs"] == 3) and line["status"] in ("done", "stopped")
    assert any(math.isinf(line["loss_eval"]) for line in lines)


def test_what_cannot_be_exported_is_said_in_a_line(
    store: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["export", "--runs", str(store), "--out", str(store.parent / "x")]
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    for flags, expected in [
        (["--format", "parquet"], "pip install 'faudit[parquet]'"),
        (["--format", "csv", "--where", "seed=5"], "holds no row of a selected run"),
        (["--format", "csv", "--where", "sead=5"], "did you mean 'seed'?"),
        (["--format", "xlsx"], "invalid choice"),
        (["--where", "seed=5"], "--where: expected with --format csv or parquet"),
        (["--format", "csv", "--out", "/proc/x/y.csv"], "cannot use"),
    ]:
        assert main([*words, *flags]) == 2
        err = capsys.readouterr().err
        assert expected in err and err.count("\n") == 1, err
    assert not (store.parent / "x").exists()


def test_lists_of_lists_and_entries_that_were_not_measured_keep_their_places(
    store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    (run,) = [Run(path) for path in store.iterdir() if Run(path).config().epochs == 2]
    nested = [[None] * 4, [[], [], [], []], [[0.25], None, [0.5], [1.0]]]
    kept = [row | {"gamma_quantiles": value} for row, value in zip(run.rows(), nested, strict=True)]
    run.rows_file.write_text("".join(map(to_line, kept)))
    lines = parquet.read_table(export(store, "parquet", capsys)[0]).to_pylist()
    assert [line["gamma_quantiles"] for line in lines if line["run_id"] == run.name] == nested
    assert {str(line["gamma_quantiles"]) for line in lines if line["run_id"] != run.name} == {"None"}
    (store.parent / "tables" / "rows.parquet").unlink()
    with open(export(store, "csv", capsys)[0], newline="") as file:
        found = [line for line in csv.DictReader(file) if line["run_id"] == run.name]
    heads = [f"gamma_quantiles[{block}][0]" for block in range(4)]
    assert [[line[head] for head in heads] for line in found] == [[""] * 4, [""] * 4, ["0.25", "", "0.5", "1.0"]]
    assert not any("gamma_quantiles[0][1]" in line for line in found)


def test_the_kinds_of_columns_are_the_declared_ones(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Also where no run has a value, or every number happens to be whole."""
    parquet = pytest.importorskip("pyarrow.parquet")
    (run,) = [Run(path) for path in store.iterdir() if Run(path).config().epochs == 2]
    run.rows_file.write_text("".join(to_line(row | {"loss_eval": 2, "rho_valid": [None] * 4}) for row in run.rows()))
    schema = parquet.read_schema(export(store, "parquet", capsys, "--where", "rule=bp")[0])
    kinds = {name: str(schema.field(name).type) for name in schema.names}
    assert kinds["loss_eval"] == kinds["lr"] == "double" and kinds["epoch"] == kinds["seed"] == "int64"
    assert kinds["no-residual"] == "bool" and kinds["rule"] == kinds["run_id"] == "string"
    for name, kind in {
        "rho_valid": "bool",
        "gamma_undefined": "int64",
        "gamma": "double",
        "probe-epochs": "int64",
    }.items():
        assert kinds[name] == f"list<element: {kind}>"


@pytest.mark.parametrize("form", ["csv", "parquet"])
@pytest.mark.parametrize("everywhere", [False, True], ids=["one row", "every row"])
@pytest.mark.parametrize(
    ("entry", "value", "expected"),
    [
        ("odd", "1", "unknown entry 'odd'"),
        ("rule", "3", "unknown entry 'rule'"),
        ("acc_eval", "[0.5]", "acc_eval: expected a number or null, got [0.5]"),
        ("gamma", "[true]", "gamma: expected a list of 4 numbers, got [True]"),
    ],
)
def test_a_damaged_run_is_named_and_left_out_also_where_it_agrees_with_itself(
    store: Path, capsys: pytest.CaptureFixture[str], form: str, entry: str, value: str, expected: str, everywhere: bool
) -> None:
    if form == "parquet":
        pytest.importorskip("pyarrow")
    run = write(RunConfig(rule="bp", epochs=3), store)
    lines = run.rows_file.read_text().splitlines()
    for place in range(4) if everywhere else [2]:
        row = json.loads(lines[place])
        row.pop(entry, None)
        lines[place] = json.dumps(row)[:-1] + f', "{entry}": {value}}}'
    run.rows_file.write_text("".join(f"{line}\n" for line in lines))
    out = store.parent / "rows"
    assert main(["export", "--runs", str(store), "--format", form, "--out", str(out)]) == 2
    said = capsys.readouterr()
    (line,) = [line for line in said.err.splitlines() if "damaged" in line]
    assert f"{run.rows_file}, line {1 if everywhere else 3} is damaged: {expected}" in line and "9 rows" in said.err


def test_a_damaged_run_is_named_and_the_others_exported(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (store / "odd").mkdir()
    (store / "odd" / "config.json").write_text("{")
    out = store.parent / "rows.csv"
    assert main(["export", "--runs", str(store), "--format", "csv", "--out", str(out)]) == 2
    assert "odd" in capsys.readouterr().err and len(out.read_text().splitlines()) == 10
