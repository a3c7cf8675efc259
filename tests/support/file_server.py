"""A real HTTP server on this machine that hands out the files of datasets, badly if a test asks for it."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from faudit.data.fetch import fetch
from faudit.errors import DataError

BODY = b"0123456789" * 100_000
SINGLE = "cifar10"  # a dataset of one file
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


def get(name: str, data_dir: Path, url: str | None = None) -> list[Path]:
    return fetch(name, data_dir, url=url, progress=lambda *_: None)


def assert_refused(data_dir: Path, message: str, url: str | None = None) -> str:
    """Fetching the one-file dataset fails in one line and leaves no file behind."""
    before = sorted(data_dir.rglob("*"))
    with pytest.raises(DataError, match=message) as caught:
        get(SINGLE, data_dir, url)
    assert sorted(data_dir.rglob("*")) == before
    assert "\n" not in str(caught.value)
    return str(caught.value)
