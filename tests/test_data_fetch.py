"""Fetching: a file gets its name only when it is whole and official, and whatever goes wrong is one line."""

from __future__ import annotations

import errno
import gzip
import hashlib
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import torch

from faudit.data import DATASETS, fetch
from faudit.data.fetch import SOURCES, File, Source
from faudit.errors import ConfigError, DataError

BODY = b"0123456789" * 100_000
SINGLE = "cifar10"
ARCHIVE = "cifar-10-python.tar.gz"
Answer = Callable[[BaseHTTPRequestHandler], None]


def answer(handler: BaseHTTPRequestHandler, body: bytes, *, status: int = 200, length: int | None = None) -> None:
    handler.send_response(status)
    if length is not None:
        handler.send_header("Content-Length", str(length))
    handler.end_headers()
    with suppress(ConnectionError):  # a client that has had enough
        handler.wfile.write(body)


class Server:
    """A real server on this machine: answers by path, and remembers what it was asked for."""

    def __init__(self) -> None:
        self.answers: dict[str, Answer] = {}
        self.asked: list[str] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.asked.append(self.path)
                missing: Answer = lambda handler: handler.send_error(404)  # noqa: E731 - one of many lambdas here
                outer.answers.get(self.path, missing)(self)

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/"
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()

    def give(self, name: str, body: bytes) -> None:
        self.answers[f"/{name}"] = lambda handler: answer(handler, body, length=len(body))


def md5(body: bytes) -> str:
    return hashlib.md5(body, usedforsecurity=False).hexdigest()


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """The server, with cifar10's only file and the four of mnist declared to live on it."""
    monkeypatch.setenv("no_proxy", "*")
    server = Server()
    monkeypatch.setitem(SOURCES, SINGLE, Source((File(server.url + ARCHIVE, md5(BODY), "cifar-10-batches-py"),), ("",)))
    names = [file.name for file in SOURCES["mnist"].files]
    files = tuple(File(server.url + name, md5(name.encode()), name.removesuffix(".gz")) for name in names)
    monkeypatch.setitem(SOURCES, "mnist", Source(files, SOURCES["mnist"].folders))
    for name in names:
        server.give(name, name.encode())
    server.give(ARCHIVE, BODY)
    yield server
    server.server.shutdown()
    server.server.server_close()


def get(name: str, data_dir: Path, url: str | None = None) -> list[Path]:
    return fetch.fetch(name, data_dir, url=url, progress=lambda *_: None)


def assert_refused(data_dir: Path, message: str, url: str | None = None) -> str:
    """Fetching the one-file dataset fails in one line and leaves no file behind."""
    before = sorted(data_dir.rglob("*"))
    with pytest.raises(DataError, match=message) as caught:
        get(SINGLE, data_dir, url)
    assert sorted(data_dir.rglob("*")) == before
    assert "\n" not in str(caught.value)
    return str(caught.value)


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
    assert fetch.locate("mnist", tmp_path) == paths


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


def test_a_cut_connection_says_how_many_of_how_many_bytes(server: Server, tmp_path: Path) -> None:
    server.answers[f"/{ARCHIVE}"] = lambda handler: answer(handler, BODY[:300_000], length=len(BODY))
    assert_refused(tmp_path, "expected 1000000 bytes, got 300000 bytes, then a closed connection")


def test_a_chunked_answer_cut_in_the_middle_is_an_error_too(server: Server, tmp_path: Path) -> None:
    def cut(handler: BaseHTTPRequestHandler) -> None:
        handler.protocol_version = "HTTP/1.1"
        handler.send_response(200)
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        handler.wfile.write(b"ffff\r\nabc")
        handler.close_connection = True

    server.answers[f"/{ARCHIVE}"] = cut
    assert_refused(tmp_path, "expected all of the file, got 0 bytes, then IncompleteRead")


def test_without_a_length_the_checksum_alone_decides(server: Server, tmp_path: Path) -> None:
    server.answers[f"/{ARCHIVE}"] = lambda handler: answer(handler, BODY)
    assert get(SINGLE, tmp_path)[0].read_bytes() == BODY
    (tmp_path / ARCHIVE).unlink()
    server.answers[f"/{ARCHIVE}"] = lambda handler: answer(handler, BODY[:-1])
    assert_refused(tmp_path, "expected md5")


def test_a_server_that_never_ends_is_cut_off(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch, "MAX_DOWNLOAD", 500_000)
    assert_refused(tmp_path, "expected at most 500000 bytes, got more")


def test_a_server_that_falls_silent_is_left(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch, "TIMEOUT", 0.2)
    woken = threading.Event()

    def stay_silent(_: BaseHTTPRequestHandler) -> None:
        woken.wait(10)

    def fall_silent(handler: BaseHTTPRequestHandler) -> None:
        answer(handler, b"abc", length=10)
        woken.wait(10)

    server.answers[f"/{ARCHIVE}"] = stay_silent
    assert_refused(tmp_path, "expected an answer, got timed out")
    server.answers[f"/{ARCHIVE}"] = fall_silent
    assert_refused(tmp_path, "expected 10 bytes, got 0 bytes, then timed out")
    woken.set()


def test_a_missing_file_is_an_http_error(server: Server, tmp_path: Path) -> None:
    assert_refused(
        tmp_path, r"expected HTTP 200, got 404 Not Found \(http://.*nothing-here\)", server.url + "nothing-here"
    )


def test_a_refused_connection_is_one_line(server: Server, tmp_path: Path) -> None:
    server.server.shutdown()
    server.server.server_close()
    assert_refused(tmp_path, "expected an answer, got Connection refused")


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("file:///etc/passwd", "got 302 .*'file:///etc/passwd' is not allowed"),
        ("data:,abc", "got 302 .*is not allowed"),
        ("ftp://127.0.0.1/x", "got unknown url type: ftp"),
    ],
)
def test_a_redirect_leads_nowhere_but_to_http(server: Server, tmp_path: Path, target: str, message: str) -> None:
    def redirect(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(302)
        handler.send_header("Location", target)
        handler.end_headers()

    server.answers[f"/{ARCHIVE}"] = redirect
    assert_refused(tmp_path, message)
    assert server.asked == [f"/{ARCHIVE}"]


def test_a_redirect_to_http_is_followed(server: Server, tmp_path: Path) -> None:
    def redirect(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(302)
        handler.send_header("Location", server.url + "there")
        handler.end_headers()

    server.answers[f"/{ARCHIVE}"] = redirect
    server.give("there", BODY)
    assert get(SINGLE, tmp_path)[0].read_bytes() == BODY


@pytest.mark.parametrize(
    "url", ["file:///etc/passwd", "ftp://host/x", "host/x", "", "http://", "http://a b/", "http://ä/", "http://h/\nx"]
)
def test_only_http_addresses_are_taken(server: Server, tmp_path: Path, url: str) -> None:
    assert_refused(tmp_path, r"expected http://… or https://…, got ", url)


@pytest.mark.parametrize("url", ["http://:80/x", "http://host:port/x", "http://[bad/x", f"http://{'a' * 70}.test/x"])
def test_an_address_without_sense_is_one_line(server: Server, tmp_path: Path, url: str) -> None:
    assert_refused(tmp_path, "cannot fetch: expected an answer, got ", url)


def test_a_folder_that_cannot_be_made_is_one_line(server: Server, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(
        DataError, match=r"the disk refuses cifar-10-python.tar.gz: .*got (Not a directory|File exists)"
    ):
        get(SINGLE, tmp_path / "file" / "below")
    assert server.asked == []


def test_no_permission_is_one_line(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", refuse)
        assert_refused(tmp_path, "got Permission denied .*Check the folder and its permissions")
    monkeypatch.setattr(fetch, "open", refuse, raising=False)
    assert_refused(tmp_path, "got Permission denied .*Check the folder and its permissions")


class FullDisk:
    """A file that takes one write."""

    def __init__(self, path: Path, mode: str) -> None:
        self.file = open(path, mode)  # noqa: SIM115 - closed by __exit__
        self.writes = 0

    def __enter__(self) -> FullDisk:
        return self

    def __exit__(self, *_: object) -> None:
        self.file.close()

    def write(self, chunk: bytes) -> None:
        self.writes += 1
        if self.writes > 1:
            raise OSError(errno.ENOSPC, "No space left on device")
        self.file.write(chunk)


def test_a_full_disk_is_one_line_and_leaves_nothing(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetch, "open", FullDisk, raising=False)
    assert_refused(tmp_path, "got No space left on device .*Make room there")


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


def test_every_dataset_that_does_not_ship_has_a_source_with_checksums() -> None:
    assert set(SOURCES) == set(DATASETS) - {"digits", "teacher"}
    files = [file for source in SOURCES.values() for file in source.files]
    assert len({file.md5 for file in files}) == len(files) == 10
    assert all(len(bytes.fromhex(file.md5)) == 16 for file in files)
    assert SOURCES["cifar100"].files[0].url == "https://www.cs.toronto.edu/~kriz/cifar-100-python.tar.gz"
    assert SOURCES["mnist"].files[3].url.endswith("amazonaws.com/mnist/t10k-labels-idx1-ubyte.gz")


def test_importing_fetch_does_not_import_torch() -> None:
    code = "import sys, faudit.data.fetch; sys.exit('torch' in sys.modules or 'urllib.request' in sys.modules)"
    env = {**os.environ, "PYTHONPATH": str(Path(fetch.__file__).parents[2])}
    assert subprocess.run([sys.executable, "-c", code], timeout=60, check=False, env=env).returncode == 0


def test_check_says_what_the_digits_are() -> None:
    first, balance, fingerprint, files = fetch.check("digits", None)
    assert first == "digits: 1,437 training and 360 test samples of shape [1, 8, 8] in 10 classes"
    assert balance == "samples per class: 139 to 146 for training, 35 to 37 for test"
    assert fingerprint == f"fingerprint: sha256 {DATASETS['digits'](None).fingerprint()}"
    assert files == "files: ship with faudit"


def tiny_mnist(folder: Path) -> list[Path]:
    """Four IDX files with one image of every class."""
    folder.mkdir()
    paths = [folder / file.name for file in SOURCES["mnist"].files]
    for images, labels in (paths[:2], paths[2:]):
        images.write_bytes(gzip.compress(bytes.fromhex("00000803 0000000a 0000001c 0000001c") + bytes(7840)))
        labels.write_bytes(gzip.compress(bytes.fromhex("00000801 0000000a") + bytes(range(10))))
    return paths


def test_check_compares_the_files_with_the_official_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = tiny_mnist(tmp_path / "mnist")
    lines = fetch.check("mnist", tmp_path)
    assert lines[0] == "mnist: 10 training and 10 test samples of shape [1, 28, 28] in 10 classes"
    assert lines[1] == "samples per class: 1 for training, 1 for test"
    assert len(lines) == 7
    assert all("differs from the official files: results are comparable only with" in line for line in lines[3:])
    assert f"{paths[0]}: expected md5 f68b3c2dcbeaaa9fbdd348bbdeb94873, got {md5(paths[0].read_bytes())}" in lines[3]

    official = tuple(
        File(file.url, md5(path.read_bytes()), file.unpacked)
        for file, path in zip(SOURCES["mnist"].files, paths, strict=True)
    )
    monkeypatch.setitem(SOURCES, "mnist", Source(official, SOURCES["mnist"].folders))
    assert fetch.check("mnist", tmp_path)[3:] == ["files: match the official checksums"]

    unpacked = tmp_path / "mnist" / "t10k-labels-idx1-ubyte"
    unpacked.write_bytes(gzip.decompress(paths[3].read_bytes()))
    assert fetch.check("mnist", tmp_path)[3:] == [
        f"files: {unpacked} is unpacked: it has no archive checksum to compare with the official one"
    ]


def test_check_of_an_unpacked_folder_behind_a_link_says_that_it_has_no_checksum(
    tmp_path: Path,
) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "cifar-10-batches-py").symlink_to(tmp_path / "elsewhere")
    assert "is unpacked: it has no archive checksum" in fetch.origin("cifar10", tmp_path)[0]
    assert "is unpacked: it has no archive checksum" in fetch.origin("cifar10", tmp_path / "cifar-10-batches-py")[0]


def test_check_counts_a_class_without_samples() -> None:
    assert fetch.balance(torch.tensor([0, 0, 1]), 3) == "0 to 2"
    assert fetch.balance(torch.tensor([0, 1, 2]), 3) == "1"
