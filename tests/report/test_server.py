"""The live page: two addresses and nothing else, only for this machine, and cheap for clients that have seen all."""

from __future__ import annotations

import http.client
import json
import random
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from faudit.cli.main import main
from faudit.config import RunConfig
from faudit.report import server as module
from faudit.report.server import Server, is_loopback
from tests.support import fabricate, stores
from tests.support.stores import look

pytest.importorskip("vl_convert", reason="the page needs vl-convert-python")


@pytest.fixture
def store(tmp_path: Path) -> Path:
    (tmp_path / "secret.txt").write_text("secret")
    return stores.many(tmp_path / "runs", runs=2, epochs=2, seeds=1)


@pytest.fixture
def server(store: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setattr(module, "EVERY", 0.0)
    with Server(("127.0.0.1", 0), look(store)) as made:
        thread = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield made
        made.shutdown()
        thread.join()


def ask(server: Server, path: str, *, method: str = "GET", **headers: str) -> tuple[int, bytes, dict[str, str]]:
    connection = http.client.HTTPConnection("127.0.0.1", server.server_address[1], timeout=20)
    connection.request(method, path, headers={name.replace("_", "-"): value for name, value in headers.items()})
    answer = connection.getresponse()
    found = answer.status, answer.read(), dict(answer.getheaders())
    connection.close()
    return found


def news(server: Server, since: str = "") -> dict[str, Any]:
    status, body, _ = ask(server, f"/data.json?since={since}")
    assert status == 200
    found: dict[str, Any] = json.loads(body)
    return found


def test_a_new_row_is_the_only_news(server: Server, store: Path) -> None:
    first = news(server)
    assert first["whole"] and set(first["runs"]) == set(first["order"]) and len(first["order"]) == 2
    going = fabricate.write(RunConfig(rule="bp", lr=0.5, epochs=4), store, until=1)
    second = news(server, first["stamp"])
    assert list(second["runs"]) == list(second["series"]) == [going.name] and not second["whole"]
    assert ask(server, "/data.json", If_None_Match=f'"{second["stamp"]}"')[:2] == (304, b"")
    assert ask(server, f"/data.json?since={second['stamp']}")[0] == 304
    going.append(fabricate.row(going.config(), 2, random.Random(0)))
    third = news(server, second["stamp"])
    assert third["series"][going.name]["epoch"] == [0, 1, 2]
    for file in list(going.path.iterdir()):
        file.unlink()
    assert news(server, third["stamp"])["gone"] == [going.name]
    assert news(server, "another-1")["whole"], "the stamp of an earlier server"


@pytest.mark.parametrize(
    "path",
    ["/../secret.txt", "/..%2fsecret.txt", "/%2e%2e/secret.txt", "/runs", "/link", "//secret.txt", "/data.json/",
     "/data.json%00", "/./", "/index.html", "/\\..\\secret.txt", "/..;/secret.txt", "/%252e%252e/secret.txt",
     "http://other/", "*"],
)  # fmt: skip
def test_nothing_else_exists(server: Server, store: Path, path: str) -> None:
    (store / "link").symlink_to(store.parent / "secret.txt")
    status, body, _ = ask(server, path)
    assert status in (404, 421) and b"secret" not in body


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "BREW"])
def test_it_can_only_be_read(server: Server, method: str) -> None:
    assert ask(server, "/", method=method)[0] == 405


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "", "localhost.evil"])
def test_a_foreign_name_is_refused(server: Server, host: str) -> None:
    assert ask(server, "/data.json", Host=host)[0] == 421


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:1", "127.0.0.1:8421", "[::1]:8421"])
def test_names_of_this_machine_are_known(server: Server, host: str) -> None:
    assert ask(server, "/data.json", Host=host)[0] == 200


def test_the_page_is_live_and_its_answers_are_safe(server: Server) -> None:
    import gzip

    status, body, headers = ask(server, "/")
    page = gzip.decompress(body).decode()
    assert status == 200 and f'"live":"{server.live.stamp}"' in page
    assert headers["X-Content-Type-Options"] == "nosniff" and headers["X-Frame-Options"] == "DENY"
    assert ask(server, "/", method="HEAD")[:2] == (200, b"")


def test_a_store_that_vanishes_is_told_and_the_server_lives_on(server: Server, store: Path) -> None:
    store.rename(store.with_name("moved"))
    status, body, _ = ask(server, "/data.json")
    assert status == 503 and b"no run store" in body
    store.with_name("moved").rename(store)
    assert ask(server, "/data.json")[0] == 200


def test_many_clients_share_one_look_per_second(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = look(store)
    looks: list[float] = []
    real = found.look
    found.look = lambda: looks.append(time.monotonic()) or real()  # type: ignore[method-assign,func-returns-value]
    live = module.Live(found)
    with monkeypatch.context() as patch:
        patch.setattr(module, "EVERY", 0.0)
        stamp, _ = live.changes("")
    assert len(looks) == 1, "the store is looked at"
    for _ in range(200):
        assert live.changes(stamp)[1] is None
    assert len(looks) <= 2


@pytest.mark.parametrize(
    ("host", "own"),
    [("127.0.0.1", True), ("127.9.9.9", True), ("::1", True), ("localhost", True), ("0.0.0.0", False), ("::", False),
     ("192.168.0.7", False), ("example.org", False), ("", False)],
)  # fmt: skip
def test_addresses_of_this_machine(host: str, own: bool) -> None:
    assert is_loopback(host) is own


def test_a_port_in_use_and_other_addresses_are_one_clear_line(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        for words, told in (
            (["--port", port], f"expected a free port, got {port}, which is in use"),
            (["--port", "70000"], "expected a port from 0 to 65535"),
            (["--host", "0.0.0.0"], "Add --allow-others"),
            (["--host", "203.0.113.7", "--allow-others"], "expected an address of this machine"),
        ):
            assert main(["serve", "--runs", str(store), *words]) == 2
            said = capsys.readouterr()
            assert said.out == "" and said.err.count("\n") == 1 and told in said.err
    assert main(["serve", "--runs", str(store / "nothing")]) == 2
