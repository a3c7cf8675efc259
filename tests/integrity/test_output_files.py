"""Every command that writes leaves links, devices and pipes as they are, and nothing half-written.

The devices here are made for the test. None of the system's own is ever named as an output.
"""

from __future__ import annotations

import csv
import io
import os
import socket
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from matplotlib.figure import Figure as Picture

from faudit.cli.main import main
from faudit.config import RunConfig
from faudit.figures.figure import Figure, Numbers
from faudit.figures.style import Style
from faudit.papers import PAPERS
from faudit.store.files import write_whole
from tests.support.fabricate import all_runs, write

PLAN = PAPERS["faeval"].plan("digits", epochs=3, seeds=(42,))
PLANNED = ["--data", "digits", "--epochs", "3", "--seeds", "42"]
TINY = ["--width", "8", "--depth", "2", "--batch-size", "256", "--epochs", "1"]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs for a figure, a table and the study's files."""
    path = tmp_path_factory.mktemp("figure") / "runs"
    all_runs(PLAN, path, ["resmlp bp", "resmlp dfa", "noln bp", "noln dfa"])
    return path


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A run to audit."""
    path = tmp_path_factory.mktemp("audit")
    assert main(["train", *TINY, "--runs", str(path)]) == 0
    return str(next(path.iterdir()))


@pytest.fixture(scope="module", autouse=True)
def drawn_once() -> Iterator[None]:
    """Keep pictures and their bytes: each takes a second, and the tests are about what becomes of the file."""
    draw, render = Style.drawn, Style.rendered
    pictures: dict[str, Picture] = {}
    files: dict[tuple[int, str], bytes] = {}

    def drawn(self: Style, figure: Figure, numbers: Numbers) -> Picture:
        name = repr((self, numbers))
        return pictures[name] if name in pictures else pictures.setdefault(name, draw(self, figure, numbers))

    def rendered(self: Style, picture: Picture, form: str) -> bytes:
        name = id(picture), form
        return files[name] if name in files else files.setdefault(name, render(self, picture, form))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Style, "drawn", drawn)
        patch.setattr(Style, "rendered", rendered)
        yield


COMMANDS: dict[str, tuple[str, list[str]]] = {  # what is written, and the command; OUT, RUNS and RUN are filled in
    "figure": ("picture.svg", ["figure", "snapshot-resmlp", "--runs", "RUNS", *PLANNED, "--out", "OUT"]),
    "export csv": ("rows.csv", ["export", "--format", "csv", "--runs", "RUNS", "--out", "OUT"]),
    "export parquet": ("rows.parquet", ["export", "--format", "parquet", "--runs", "RUNS", "--out", "OUT"]),
    "report": ("page.html", ["report", "--runs", "RUNS", "--out", "OUT"]),
    "audit": ("page.md", ["audit", "RUN", "--markdown", "OUT"]),
}


@pytest.fixture(params=list(COMMANDS))
def writes(request: pytest.FixtureRequest, runs: Path, trained: str, tmp_path: Path) -> tuple[Path, list[str]]:
    """A file to write, and the command that writes it."""
    if "parquet" in request.param:
        pytest.importorskip("pyarrow")
    name, words = COMMANDS[request.param]
    out = tmp_path / "out" / name
    out.parent.mkdir()
    return out, [{"OUT": str(out), "RUNS": str(runs), "RUN": trained}.get(word, word) for word in words]


def test_a_link_stays_and_its_target_is_written(writes: tuple[Path, list[str]]) -> None:
    out, words = writes
    target = out.parent.parent / "elsewhere"
    target.mkdir()
    (target / "file").write_text("old")
    for path in (target / "file", target / "new"):
        out.symlink_to(path)
        assert main(words) in (0, 1, 3)
        assert out.is_symlink() and path.stat().st_size > 50
        out.unlink()
    assert sorted(path.name for path in target.iterdir()) == ["file", "new"]


def device(path: Path) -> None:
    try:
        os.mknod(path, stat.S_IFCHR | 0o600, os.makedev(1, 3))  # where what is written goes nowhere
    except PermissionError:
        pytest.skip("only root may make a device")


def socket_file(path: Path) -> None:
    folder = os.open(path.parent, os.O_RDONLY)  # a socket's address has at most 107 bytes
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(f"/proc/self/fd/{folder}/{path.name}")
    finally:
        os.close(folder)


def link_to_device(path: Path) -> None:
    device(path.parent.parent / "device")
    path.symlink_to(path.parent.parent / "device")


def loop(path: Path) -> None:
    path.symlink_to(path)


SPECIAL: dict[str, Callable[[Path], None]] = {
    "a device": device,
    "a pipe": lambda path: os.mkfifo(path),
    "a socket": socket_file,
    "a directory": lambda path: path.mkdir(),
    "a link to a device": link_to_device,
    "a link to itself": loop,
}


@pytest.mark.parametrize("kind", list(SPECIAL))
def test_what_is_no_file_is_refused_and_stays(
    writes: tuple[Path, list[str]], capsys: pytest.CaptureFixture[str], kind: str
) -> None:
    out, words = writes
    SPECIAL[kind](out)
    before = os.lstat(out)
    assert main(words) == 2
    said = capsys.readouterr().err
    what = "Too many levels of symbolic links" if kind == "a link to itself" else kind.removeprefix("a link to ")
    assert said.count("\n") == 1 and what in said and str(out) in said
    after = os.lstat(out)
    assert (after.st_mode, after.st_ino, after.st_rdev) == (before.st_mode, before.st_ino, before.st_rdev)
    assert os.listdir(out.parent) == [out.name], "something was half-written"


@pytest.mark.parametrize("name", ["picture.json", "picture.svg"])
def test_a_figure_is_written_with_its_numbers_or_not_at_all(runs: Path, tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / name)
    words = ["figure", "snapshot-resmlp", "--runs", str(runs), *PLANNED, "--out", str(tmp_path / "picture.svg")]
    assert main(words) == 2 and os.listdir(tmp_path) == [name]


def test_a_minus_is_standard_output(runs: Path, trained: str, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    assert main(["export", "--format", "csv", "--runs", str(runs), "--out", "-"]) == 0
    out, err = capfdbinary.readouterr()
    lines = list(csv.DictReader(io.StringIO(out.decode())))
    assert {line["rule"] for line in lines} == {"bp", "dfa"} and err.decode() == f"{len(lines)} rows\n"
    assert main(["audit", trained, "--markdown", "-"]) in (1, 3)
    page = capfdbinary.readouterr().out.decode()
    assert page.startswith("# Audit") and "| check |" in page
    assert not os.path.lexists("-")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["figure", "snapshot-resmlp", "--runs", "RUNS", *PLANNED, "--out", "-"], "--out: expected a picture's file"),
        (["export", "--runs", "RUNS", *PLANNED, "--out", "-"], "--out: expected a directory"),
        (["reproduce", "all", "--runs", "RUNS", *PLANNED, "--jobs", "0", "--out", "-"], "--out: expected a directory"),
        (["demo", "--out", "-"], "--out: expected a directory"),
        (["bench", "protocol", "--out", "-"], "--out: expected a directory"),
        (["audit", "RUN", "--markdown", "-", "--json"], "--markdown - and --json: expected one of them"),
    ],
)  # fmt: skip
def test_a_minus_is_refused_where_several_files_are_written(
    runs: Path, trained: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch,
    words: list[str], told: str,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    assert main([{"RUNS": str(runs), "RUN": trained}.get(word, word) for word in words]) == 2
    said = capsys.readouterr()
    assert said.out == "" and told in said.err and said.err.count("\n") == 1 and not os.listdir(tmp_path)


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (["export", *PLANNED], "results/snapshot_evolution_v2/snapshot_evolution_s42.json"),
        (["reproduce", "faeval", "--jobs", "0", *PLANNED], "claims.md"),
        (["reproduce", "faeval", "--jobs", "0", *PLANNED], "made-from.json"),
    ],
)
def test_a_file_in_a_folder_of_results_follows_the_same_rules(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch,
    words: list[str], name: str,
) -> None:  # fmt: skip
    monkeypatch.setattr("faudit.papers.reproduce.figures_of", lambda *_: {})  # drawing takes seconds
    command = [*words, "--runs", str(runs), "--out", str(tmp_path / "out")]
    (tmp_path / "out" / name).parent.mkdir(parents=True)
    os.mkfifo(tmp_path / "out" / name)
    assert main(command) == 2
    said = capsys.readouterr().err
    assert "expected a file, got a pipe" in said and stat.S_ISFIFO(os.lstat(tmp_path / "out" / name).st_mode)
    (tmp_path / "out" / name).unlink()
    (tmp_path / "out" / name).symlink_to(tmp_path / "target")
    assert main(command) == 0
    assert (tmp_path / "out" / name).is_symlink() and (tmp_path / "target").stat().st_size > 20


def test_a_benchmark_that_would_append_to_a_pipe_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    os.mkfifo(tmp_path / "rows.jsonl")
    assert main(["bench", "protocol", "--out", str(tmp_path), "--seeds", "7", "--jobs", "1"]) == 2
    assert "expected a file, got a pipe" in capsys.readouterr().err and os.listdir(tmp_path) == ["rows.jsonl"]


def test_an_output_that_cannot_be_written_is_told_before_anything_is_measured(
    trained: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("faudit.audit.audit.audit", lambda *_: pytest.fail("measured"))
    assert main(["audit", trained, "--markdown", str(tmp_path / "nowhere" / "page.md")]) == 2
    assert "No such file or directory" in capsys.readouterr().err


def test_a_run_behind_links_is_trained_through_them(tmp_path: Path) -> None:
    """The files of a run follow the rules too: a store may be made of links to another disk."""
    run = write(RunConfig(epochs=1), tmp_path)
    (tmp_path / "disk").write_text("old")
    (run.path / "linked").symlink_to(tmp_path / "disk")
    write_whole(run.path / "linked", b"new")
    assert (run.path / "linked").is_symlink() and (tmp_path / "disk").read_text() == "new"
