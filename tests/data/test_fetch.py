"""Fetching: a file gets its name only when it is whole and official."""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from faudit.data import fetch, sources
from faudit.data.sources import SOURCES, File, Source
from faudit.errors import ConfigError
from tests.support.file_server import ARCHIVE, BODY, SINGLE, Server, answer, assert_refused, get, md5


def test_one_file_arrives_whole_with_its_progress(server: Server, tmp_path: Path) -> None:
    seen: list[tuple[str, int, int | None]] = []
    paths = fetch.fetch(SINGLE, tmp_path / "new", progress=lambda *step: seen.append(step))
    assert paths == [tmp_path / "new" / ARCHIVE]
    assert paths[0].read_bytes() == BODY
    assert os.listdir(tmp_path / "new") == [ARCHIVE]
    assert {(name, total) for name, _, total in seen} == {(ARCHIVE, len(BODY))}
    done = [step[1] for step in seen]
    assert done == sorted(done)
    assert len(done) > 2
    assert done[-1] == len(BODY)


def test_four_files_go_to_the_folder_of_their_dataset(server: Server, tmp_path: Path) -> None:
    paths = get("mnist", tmp_path)
    assert [path.parent for path in paths] == [tmp_path / "mnist"] * 4
    assert [path.read_bytes().decode() for path in paths] == [path.name for path in paths]
    assert sources.locate("mnist", tmp_path) == paths


def test_a_file_already_right_is_not_asked_for_again(server: Server, tmp_path: Path) -> None:
    first = get("mnist", tmp_path)
    server.asked.clear()
    first[2].unlink()
    assert get("mnist", tmp_path) == first
    assert server.asked == ["/t10k-images-idx3-ubyte.gz"]


def test_a_file_already_there_with_other_content_is_left_alone(server: Server, tmp_path: Path) -> None:
    (tmp_path / ARCHIVE).write_bytes(b"my own copy")
    assert_refused(tmp_path, f"already there .*expected md5 {md5(BODY)}, got {md5(b'my own copy')} .*Move it away")
    assert (tmp_path / ARCHIVE).read_bytes() == b"my own copy"
    assert server.asked == []


@pytest.mark.parametrize("url", ["mirror/else.tgz", "mirror/"])
def test_another_address_is_a_file_or_a_folder(server: Server, tmp_path: Path, url: str) -> None:
    server.give("mirror/else.tgz", BODY)
    server.give(f"mirror/{ARCHIVE}", BODY)
    assert get(SINGLE, tmp_path, server.url + url)[0].read_bytes() == BODY
    assert server.asked == ["/mirror/else.tgz" if url.endswith("tgz") else f"/mirror/{ARCHIVE}"]


@pytest.mark.parametrize("end", ["mirror", "mirror/"])
def test_another_address_of_many_files_is_a_folder(server: Server, tmp_path: Path, end: str) -> None:
    for file in SOURCES["mnist"].files:
        server.give(f"mirror/{file.name}", file.name.encode())
    get("mnist", tmp_path, server.url + end)
    assert server.asked == [f"/mirror/{file.name}" for file in SOURCES["mnist"].files]


def test_the_official_checksum_holds_for_another_address_too(server: Server, tmp_path: Path) -> None:
    server.give("else.tgz", b"something else")
    message = assert_refused(tmp_path, f"expected md5 {md5(BODY)}, got ", server.url + "else.tgz")
    assert f"{md5(b'something else')} over 14 bytes ({server.url}else.tgz)" in message


def test_without_a_length_the_checksum_alone_decides(server: Server, tmp_path: Path) -> None:
    server.answers[f"/{ARCHIVE}"] = lambda handler: answer(handler, BODY)
    assert get(SINGLE, tmp_path)[0].read_bytes() == BODY
    (tmp_path / ARCHIVE).unlink()
    server.answers[f"/{ARCHIVE}"] = lambda handler: answer(handler, BODY[:-1])
    assert_refused(tmp_path, "expected md5")


@pytest.mark.parametrize("label", ["gzip", "x-gzip", "deflate"])
def test_an_archive_that_the_server_labels_as_compressed_is_kept_as_it_is(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, label: str
) -> None:
    archive = gzip.compress(BODY)

    def labelled(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Encoding", label)
        handler.end_headers()
        handler.wfile.write(archive)

    server.answers[f"/{ARCHIVE}"] = labelled
    monkeypatch.setitem(SOURCES, SINGLE, Source((File(server.url + ARCHIVE, md5(archive), "folder"),), ("",)))
    assert get(SINGLE, tmp_path)[0].read_bytes() == archive


def test_a_redirect_to_http_is_followed(server: Server, tmp_path: Path) -> None:
    def redirect(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(302)
        handler.send_header("Location", server.url + "there")
        handler.end_headers()

    server.answers[f"/{ARCHIVE}"] = redirect
    server.give("there", BODY)
    assert get(SINGLE, tmp_path)[0].read_bytes() == BODY


def test_the_file_has_the_permissions_of_any_new_file(server: Server, tmp_path: Path) -> None:
    (tmp_path / "new").touch()
    assert get(SINGLE, tmp_path)[0].stat().st_mode == (tmp_path / "new").stat().st_mode


def test_the_folder_may_start_with_a_tilde(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert get(SINGLE, Path("~")) == [Path("~") / ARCHIVE]
    assert (tmp_path / "~" / ARCHIVE).read_bytes() == BODY


def test_nothing_but_progress_is_written_to_stderr(
    server: Server, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    get(SINGLE, tmp_path)
    assert capfd.readouterr() == ("", "")


def test_an_interrupt_leaves_nothing(server: Server, tmp_path: Path) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fetch.fetch(SINGLE, tmp_path, progress=interrupt)
    assert list(tmp_path.iterdir()) == []


def test_the_file_is_on_disk_before_it_gets_its_name(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    order: list[str] = []
    fsync, replace = os.fsync, os.replace

    def seen_fsync(number: int) -> None:
        order.append(f"fsync {os.fstat(number).st_size}")
        fsync(number)

    def seen_replace(part: Path, target: Path) -> None:
        order.append("replace")
        replace(part, target)

    monkeypatch.setattr(os, "fsync", seen_fsync)
    monkeypatch.setattr(os, "replace", seen_replace)
    paths = get("mnist", tmp_path)  # files so small that they would still be in a buffer
    assert order == [step for path in paths for step in (f"fsync {len(path.name)}", "replace")]


def test_digits_need_no_fetching_and_an_unknown_name_gets_the_nearest(tmp_path: Path) -> None:
    assert get("digits", tmp_path / "new") == []
    assert not (tmp_path / "new").exists()
    with pytest.raises(ConfigError, match="did you mean 'cifar10'"):
        get("cifar", tmp_path)


def test_importing_fetch_imports_neither_torch_nor_pooch() -> None:
    names = {"torch", "pooch", "requests", "urllib.request"}
    code = f"import sys, faudit.data.fetch; sys.exit(bool({names} & set(sys.modules)))"
    env = {**os.environ, "PYTHONPATH": str(Path(fetch.__file__).parents[2])}
    assert subprocess.run([sys.executable, "-c", code], timeout=60, check=False, env=env).returncode == 0


def test_the_help_of_the_command_line_does_not_import_pooch() -> None:
    command = [sys.executable, "-X", "importtime", "-m", "faudit", "--help"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert "faudit.cli" in done.stderr
    assert "pooch" not in done.stderr
