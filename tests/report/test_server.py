"""The live page: two addresses and nothing else, only for this machine, and cheap for clients that have seen all."""

from __future__ import annotations

import http.client
import json
import random
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from faudit.cli.main import main
from faudit.config import RunConfig
from faudit.report import server as module
from faudit.report.server import Server, is_loopback
from faudit.store.rows import Row
from tests.support import fabricate, stores
from tests.support.stores import look

pytest.importorskip("vl_convert", reason="the page needs vl-convert-python")


module_every = module.EVERY  # before a test sets another one


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
    assert third["series"] == {} and list(third["more"]) == [going.name]
    assert third["more"][going.name]["from"] == 2 and third["more"][going.name]["series"]["epoch"] == [2]
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


def applied(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """The state of a page after an answer, by another way than the page's: rows are joined, not columns."""
    if new["whole"]:
        return {name: new[name] for name in ("document", "runs", "series")}
    runs = {**old["runs"], **new["runs"]}
    series = {**old["series"], **new["series"]}
    for name, more in new["more"].items():
        before = series[name]
        assert before.keys() == more["series"].keys()
        series[name] = {
            entry: [*map(list.__add__, before[entry], found)]
            if isinstance(before[entry][0], list)
            else before[entry] + found
            for entry, found in more["series"].items()
        }
    for name in new["gone"]:
        del runs[name], series[name]
    return {"document": new["document"], "runs": {name: runs[name] for name in new["order"]}, "series": series}


def test_answers_on_top_of_each_other_are_the_whole_state(server: Server, store: Path) -> None:
    """Two clients, one of which asks rarely, have in the end what a new client gets."""
    noise, config = random.Random(0), RunConfig(rule="bp", lr=0.5, epochs=9)
    often = rarely = first = news(server)
    states = {"often": applied({}, first), "rarely": applied({}, first)}
    going = fabricate.write(config, store, until=1)
    lost = fabricate.write(config.with_(seed=1), store, until=2)
    sizes = []
    for epoch in range(2, 8):
        row = fabricate.row(config, epoch, noise)
        if epoch == 4:  # an entry that no row had before
            row["rho"] = [0.5] * fabricate.L
        if epoch == 5:  # a resumed run begins at an earlier row, in a new file
            going.keep_rows(2)
            row["epoch"] = 3
        if epoch == 6:
            row["epoch"] = 7
            for file in list(lost.path.iterdir()):
                file.unlink()
        going.append(Row(row) if epoch < 7 else fabricate.row(config, 9, noise))
        often = news(server, often["stamp"])
        states["often"] = applied(states["often"], often)
        sizes.append((len(often["series"].get(going.name, ())) > 0, often["more"].get(going.name, {}).get("from")))
        if epoch % 3 == 0:
            rarely = news(server, rarely["stamp"])
            states["rarely"] = applied(states["rarely"], rarely)
    assert sizes == [(True, None), (False, 3), (True, None), (True, None), (False, 4), (False, 5)]
    (going.path / "done.json").write_text(json.dumps({"epochs": 9}))
    whole = applied({}, news(server))
    assert len(whole["series"][going.name]["epoch"]) == 6 and whole["runs"][going.name]["status"] == "done"
    assert applied(states["often"], news(server, often["stamp"])) == whole
    assert applied(states["rarely"], news(server, rarely["stamp"])) == whole


def test_a_client_that_was_away_for_long_gets_every_row_again(
    server: Server, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("faudit.report.collection.REMEMBERED", 2)
    going = fabricate.write(RunConfig(rule="bp", lr=0.5, epochs=9), store, until=1)
    stamp = news(server)["stamp"]
    found = []
    for epoch in (2, 3):
        going.append(fabricate.row(going.config(), epoch, random.Random(0)))
        found.append(news(server, stamp))
    assert found[0]["more"][going.name]["from"] == 2 and found[1]["more"] == {}
    assert found[1]["series"][going.name]["epoch"] == [0, 1, 2, 3]


def test_an_answer_tells_when_the_next_look_is_due(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages ask then, so a row waits for one look and no longer: this keeps the three seconds of the manual."""
    assert module_every <= 2.0
    monkeypatch.setattr(module, "EVERY", module_every)
    server.live.changes("")
    for headers in (ask(server, "/data.json")[2], ask(server, f"/data.json?since={server.live.stamp}")[2]):
        assert 0.0 < float(headers["Next-Look"]) <= module_every


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"GET / HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost : localhost\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\n Host: evil\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\nnonsense\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\n" + b"X: y\r\n" * 200 + b"\r\n", 400),
        (b"GET / HTTP/1.1\r\nX: " + b"y" * 70_000 + b"\r\n\r\n", 400),
        (b"GET /" + b"y" * 70_000 + b" HTTP/1.1\r\n\r\n", 414),
        (b"GET /\r\n\r\n", 400),
        (b"GET / HTTP/9.9\r\n\r\n", 400),
        (b"GET / a HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
        (b"\xff\xfe\x00\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\n\r\n", 421),
        (b"GET // HTTP/1.1\r\nHost: localhost\r\n\r\n", 404),
        (b"GET /x HTTP/1.0\r\nHost: localhost\r\n\r\n", 404),
        (b"__class__ / HTTP/1.1\r\nHost: localhost\r\n\r\n", 405),
        (b"GET /data.json HTTP/1.1\nhost:LOCALHOST\nConnection: Close\n\n", 200),
        (b"GET /data.json HTTP/1.1\r\nHost: [::1]:1\r\nContent-Length: 9\r\n\r\nGET /data", 200),
    ],
)
def test_a_damaged_request_is_refused_and_nothing_behind_it_is_read(
    server: Server, request_: bytes, status: int
) -> None:
    """Each of these ends the connection after one answer."""
    with socket.create_connection(("127.0.0.1", server.server_address[1]), timeout=20) as one:
        one.sendall(request_)
        answer = b""
        with suppress(ConnectionResetError):  # by a server that has not read all of it
            while part := one.recv(65_536):
                answer += part
    assert answer.startswith(b"HTTP/1.1 %d " % status) and answer.count(b"HTTP/1.1 ") == 1


def test_a_connection_serves_many_requests(server: Server) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", server.server_address[1], timeout=20)
    stamp = ""
    for expected in (200, 304, 304):
        connection.request("GET", "/data.json", headers={"If-None-Match": stamp})
        answer = connection.getresponse()
        assert (answer.status, bool(answer.read())) == (expected, expected == 200)
        stamp = answer.headers["ETag"]
    connection.close()


def test_many_clients_share_one_look(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
