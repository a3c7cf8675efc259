"""The cost of the live page is measured on epochs of one run, with a real server and clients that really ask."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from faudit.bench import serve
from faudit.bench.clients import Client
from faudit.errors import ConfigError, StoreError

pytestmark = pytest.mark.slow  # it starts a server and trains for seconds


def test_epochs_are_timed_with_and_without_clients(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("vl_convert", reason="the page needs vl-convert-python")
    monkeypatch.setattr(serve, "SEEDS", range(1))
    monkeypatch.setattr(serve, "SPAN", 0.5)
    monkeypatch.setattr(serve, "TRAINED", serve.TRAINED.with_(data="digits", net="resmlp", width=8, depth=2))
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # as in a shell's background job; its children inherit it
    try:
        result = serve.serve_speed(threads=1, repeats=2)
    finally:
        signal.signal(signal.SIGINT, before)
    alone, served = result["seconds"]["alone"], result["seconds"]["served"]
    assert len(alone) == len(served) == 2 and min(alone + served) > 0
    assert result["slower"]["of_medians"] == pytest.approx(sum(served) / sum(alone) - 1, abs=1e-2)
    waits = result["waited"]
    assert all(0 <= waits[kind] < 2 for kind in ("alone", "served"))
    assert waits["more"] == pytest.approx(waits["served"] - waits["alone"], abs=2e-4), "two pairs: medians are means"
    assert result["slower"]["interval"] == waits["interval"] == [None, None]
    assert all("too few pairs" in line for line in serve.lines(result)[1:3])
    assert result["answers"] >= serve.CLIENTS and "20 clients, 1 threads, 2 pairs" in serve.lines(result)[0]
    with pytest.raises(ConfigError, match="at least 1 repeats, got 0"):
        serve.serve_speed(threads=1, repeats=0)


def test_an_interval_is_told_in_hundredths_of_a_percent() -> None:
    assert serve.sure([0.0012, 0.0345]) == "95 % interval +0.12% to +3.45%"


def test_a_client_whose_connection_was_closed_connects_again() -> None:
    """The server is stopped between two measurements; it closes connections that were idle for long."""
    asked: list[int] = []

    class Closing(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            asked.append(self.client_address[1])
            self.send_response(200)
            self.send_header("ETag", f'"{len(asked)}"')
            self.send_header("Content-Length", "0")
            self.send_header("Next-Look", str(0.5 * (len(asked) - 1)))
            self.end_headers()
            self.close_connection = True  # without telling: the client finds out at its next question

        def log_message(self, *_: object) -> None: ...

    with HTTPServer(("127.0.0.1", 0), Closing) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        client = Client(f"http://127.0.0.1:{server.server_port}/")
        waits = [client.ask() for _ in range(3)]
        client.close()
        server.shutdown()
        thread.join()
    assert client.stamp == '"3"' and len(set(asked)) == 3
    assert waits == pytest.approx([0.2, 0.52, 1.02]), "the look that the server told, but not at once"


def test_a_client_that_was_stopped_while_it_waited_asks_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("faudit.bench.clients.PATIENCE", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        client = Client(f"http://127.0.0.1:{listening.getsockname()[1]}/")

        def answer_the_second() -> None:
            with listening.accept()[0], listening.accept()[0] as second:
                second.recv(65_536)
                second.sendall(b"HTTP/1.1 304 Not Modified\r\nNext-Look: 0.9\r\n\r\n")

        thread = threading.Thread(target=answer_the_second)
        thread.start()
        assert client.ask() == pytest.approx(0.92)
        client.close()
        thread.join()


def test_a_client_reads_the_whole_answer() -> None:
    """An answer that comes in parts is read to its end, so that the next one begins where it should."""
    body = b"x" * 300_000
    head = f'HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\nETag: "1"\r\nNext-Look: 1.5\r\n\r\n'.encode()
    with socket.create_server(("127.0.0.1", 0)) as listening:
        client = Client(f"http://127.0.0.1:{listening.getsockname()[1]}/")

        def answer() -> None:
            with listening.accept()[0] as one:
                for _ in range(2):
                    one.recv(65_536)
                    for start in range(0, len(head + body), 50_001):
                        one.sendall((head + body)[start : start + 50_001])

        thread = threading.Thread(target=answer)
        thread.start()
        assert [client.ask(), client.ask()] == pytest.approx([1.52, 1.52]) and client.stamp == '"1"'
        client.close()
        thread.join()


def test_clients_that_got_no_answers_are_no_measurement(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("vl_convert", reason="the page needs vl-convert-python")
    monkeypatch.setattr(serve, "SEEDS", range(1))
    monkeypatch.setattr(serve, "SPAN", 0.1)
    monkeypatch.setattr(serve, "TRAINED", serve.TRAINED.with_(data="digits", net="resmlp", width=8, depth=2))
    monkeypatch.setattr(serve, "CLIENTS", 100_000)
    with pytest.raises(StoreError, match="expected at least 100000 answers"):
        serve.serve_speed(threads=1, repeats=1)


@pytest.mark.skipif(not Path("/proc/self/schedstat").exists(), reason="only Linux counts the waiting")
def test_waiting_for_a_core_is_counted() -> None:
    """Two busy threads on one core: each waits half of the time."""
    before, cores = serve.waited(), os.sched_getaffinity(0)
    script = "import time, sys\nend = time.time() + 0.6\nwhile time.time() < end: pass"
    try:
        os.sched_setaffinity(0, {min(cores)})
        with subprocess.Popen([sys.executable, "-c", script]) as other:
            end = time.perf_counter() + 0.6
            while time.perf_counter() < end:
                pass
            other.wait()
    finally:
        os.sched_setaffinity(0, cores)
    assert serve.waited() - before > 0.1
