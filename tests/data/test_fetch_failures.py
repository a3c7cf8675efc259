"""Fetching: whatever goes wrong with the server, the address or the disk is one line, and nothing is left behind."""

from __future__ import annotations

import errno
import os
import threading
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from faudit.data import fetch
from faudit.errors import DataError
from tests.support.file_server import ARCHIVE, BODY, SINGLE, Server, answer, assert_refused, get


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
    assert_refused(tmp_path, "expected all of the file, got 0 bytes, then a closed connection")


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


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b"", "expected an answer, got Remote end closed connection without response"),
        (b"\x00 what\r\n\r\n", "expected an answer, got \x00 what"),
        (b"HTTP/1.1 302 Found\r\n\r\n", "expected HTTP 200, got 302 Found"),
        (f"HTTP/1.1 302 Found\r\nLocation: /{ARCHIVE}\r\n\r\n".encode(), "got Exceeded 30 redirects"),
        (b"HTTP/1.1 302 Found\r\nLocation: http://[bad/\r\n\r\n", "got Invalid IPv6 URL"),
        (b"HTTP/1.1 204 No Content\r\n\r\n", "expected HTTP 200, got 204 No Content"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\nabc", "expected all of the file, got 0 bytes, then invalid"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-5\r\nabc", "expected all of the file, got 0 bytes"),
    ],
)
def test_a_server_that_speaks_nonsense_is_one_line(server: Server, tmp_path: Path, raw: bytes, message: str) -> None:
    def speak(handler: BaseHTTPRequestHandler) -> None:
        handler.wfile.write(raw)
        handler.close_connection = True

    server.answers[f"/{ARCHIVE}"] = speak
    assert_refused(tmp_path, message)


def test_a_refused_connection_is_one_line(server: Server, tmp_path: Path) -> None:
    server.server.shutdown()
    server.server.server_close()
    assert_refused(tmp_path, "expected an answer, got Connection refused")


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("file:///etc/passwd", "No connection adapters were found for 'file:///etc/passwd'"),
        ("data:,abc", "No connection adapters were found for 'data:,abc'"),
        ("ftp://127.0.0.1/x", "No connection adapters were found for 'ftp://127.0.0.1/x'"),
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
