"""The download tests share one server."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from faudit.data.sources import SOURCES, File, Source
from tests.support.file_server import ARCHIVE, BODY, SINGLE, Server, md5


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
