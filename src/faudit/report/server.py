"""The live page: a read-only server of two addresses, ``/`` and ``/data.json``, on this machine.

No address is turned into a path of a file, so nothing else can be read. The name in the Host header must be one of this
machine, so that a foreign web page cannot read the runs through the browser (DNS rebinding). All clients share one look
at the store every two seconds, and every answer tells when the next one is due. A client that has seen everything gets
an empty answer; any other one gets the rows that it lacks.
"""

from __future__ import annotations

import errno
import gzip
import ipaddress
import json
import secrets
import socket
import threading
import time
from collections.abc import Mapping
from email.utils import formatdate
from functools import lru_cache
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs

from faudit import __version__
from faudit.errors import ConfigError, FauditError
from faudit.report.collection import Collection
from faudit.report.page import html
from faudit.report.series import tail

EVERY = 2.0  # seconds between two looks at the store
NEXT = "Next-Look"  # the header with the seconds until the next look. Clients ask then: nothing is new before.
LONGEST = 30.0  # seconds that a client may take to send its request
LINE, LINES = 65_536, 100  # bytes of a line of a request, and lines of its head; more are refused
SAFE = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class Live:
    """A collection that several threads ask for changes."""

    def __init__(self, found: Collection) -> None:
        self.found = found
        self.start = secrets.token_hex(4)  # tells the stamps of this server from those of an earlier one
        self._lock = threading.Lock()
        self._looked = time.monotonic()
        self._page: tuple[str, bytes] = ("", b"")
        self._answers: dict[int | None, bytes] = {}  # what changed since a look, for the clients that know that look
        self._document = b""  # the part that all of them share
        self._answered = ""  # the stamp that they belong to

    def look(self) -> None:
        """Look at the store if it is due. The caller holds the lock."""
        if not self.due:
            self.found.look()
            self._looked = time.monotonic()  # after the look, so that a slow store is not looked at all the time

    @property
    def due(self) -> float:
        """Seconds until the next look; 0 if it is due."""
        return max(0.0, self._looked + EVERY - time.monotonic())

    @property
    def stamp(self) -> str:
        return f"{self.start}-{self.found.looks}"

    def page(self) -> bytes:
        """The page, made once for each state of the store."""
        with self._lock:
            self.look()
            if self._page[0] != self.stamp:
                self._page = self.stamp, gzip.compress(html(self.found, live=self.stamp).encode(), compresslevel=1)
            return self._page[1]

    def changes(self, since: str) -> tuple[str, bytes | None]:
        """The stamp, and what changed since an earlier stamp: None if nothing did."""
        with self._lock:
            self.look()
            if since == self.stamp:
                return self.stamp, None
            start, _, number = since.rpartition("-")
            known = int(number) if start == self.start and number.isdecimal() else None
            if self._answered != self.stamp:
                self._answers, self._answered = {}, self.stamp
                self._document = text(self.found.document)
            if known not in self._answers:
                self._answers[known] = b'{"document":%b,%b' % (self._document, text(self._news(known))[1:])
            return self.stamp, self._answers[known]

    def _news(self, known: int | None) -> dict[str, Any]:
        found = self.found
        fresh = {name for name, look in found.changed.items() if known is None or look > known}
        series = {name: columns for name, columns in found.series.items() if name in fresh}
        begun = {
            name: start for name in series if known is not None and (start := found.known(name, known)) is not None
        }
        return {
            "stamp": self.stamp,
            "whole": known is None,
            "order": list(found.pages),
            "runs": {name: document for name, document in found.runs.items() if name in fresh},
            "series": {name: columns for name, columns in series.items() if name not in begun},
            "more": {name: {"from": start, "series": tail(series[name], start)} for name, start in begun.items()},
            "gone": sorted(fresh - found.pages.keys()),
        }


def text(document: dict[str, Any]) -> bytes:
    """A document as JSON."""
    return json.dumps(document, allow_nan=False, separators=(",", ":")).encode()


class Server(ThreadingHTTPServer):
    """The server of one collection."""

    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 64

    def __init__(self, where: tuple[str, int], found: Collection) -> None:
        self.live = Live(found)
        host, port = where
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        try:
            super().__init__(where, Handler)
        except OSError as error:
            raise ConfigError(refusal(host, port, error)) from None
        self.names = {host.lower(), "localhost", "127.0.0.1", "::1"}
        self.any_name = not is_loopback(host)  # other machines call this one by names that we cannot know

    @property
    def address(self) -> str:
        host, port = self.server_address[:2]
        return f"http://{f'[{host!s}]' if ':' in str(host) else host!s}:{port}/"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing about a client that left before its answer; anything else is a bug and is raised as usual."""
        import sys

        if not isinstance(sys.exc_info()[1], ConnectionError | TimeoutError):
            super().handle_error(request, client_address)


def refusal(host: str, port: int, error: OSError) -> str:
    """Why the server cannot listen, in one line."""
    if error.errno == errno.EADDRINUSE:
        return (
            f"--port: expected a free port, got {port}, which is in use. Choose another one; --port 0 takes a free one."
        )
    if isinstance(error, socket.gaierror) or error.errno == errno.EADDRNOTAVAIL:
        return f"--host: expected an address of this machine, got {host!r}. Leave it out for 127.0.0.1."
    return f"cannot listen on {host} port {port}: {error.strerror or error}. Choose another --port."


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


@lru_cache(maxsize=1)  # the answers of one second have one date, and it takes as long to write as to read a request
def date(second: int) -> str:
    return formatdate(second, usegmt=True)


class Handler(BaseHTTPRequestHandler):
    """Answers GET and HEAD for ``/`` and ``/data.json``; every other address does not exist."""

    server: Server
    protocol_version = "HTTP/1.1"
    server_version = f"faudit/{__version__}"
    sys_version = ""
    timeout = LONGEST
    told: dict[str, str]  # the headers of the request

    def parse_request(self) -> bool:
        """Read the head of a request. The parser of ``http.server`` is one for mail, and slower than the answer."""
        self.command, self.close_connection, self.told = "", True, {}
        words = self.raw_requestline.decode("latin-1").rstrip("\r\n").split(" ")
        if len(words) != 3 or not words[0] or words[2] not in ("HTTP/1.0", "HTTP/1.1"):
            self._refuse(HTTPStatus.BAD_REQUEST, "This is not a request of HTTP/1.1.")
            return False
        self.command, self.path, self.request_version = words
        for _ in range(LINES):
            line = self.rfile.readline(LINE + 1)
            if line in (b"\r\n", b"\n"):
                asked = self.told.get("connection", "").lower()
                # A body is not read, so nothing behind it can pass for a request.
                has_body = "content-length" in self.told or "transfer-encoding" in self.told
                self.close_connection = words[2] == "HTTP/1.0" or "close" in asked or has_body
                return True
            name, colon, value = line.decode("latin-1").partition(":")
            name = name.lower()
            if not line.endswith(b"\n") or not colon or name != name.strip() or (name == "host" and name in self.told):
                break  # too long, cut short, no header, or a second name of the host
            self.told.setdefault(name, value.strip())
        self._refuse(HTTPStatus.BAD_REQUEST, "The head of the request is damaged or too long.")
        return False

    def do_GET(self) -> None:
        if not self._knows_host():
            return self._refuse(HTTPStatus.MISDIRECTED_REQUEST, "Use the address that faudit printed.")
        path, _, query = self.path.partition("?")
        if path not in ("/", "/data.json"):  # compared as it came: nothing is decoded, joined or opened
            return self._refuse(HTTPStatus.NOT_FOUND, "There is only / and /data.json here.")
        try:
            if path == "/":
                return self._send(self.server.live.page(), "text/html; charset=utf-8", {"Content-Encoding": "gzip"})
            since = self.told.get("if-none-match", "").strip('"') or (parse_qs(query).get("since") or [""])[0]
            stamp, news = self.server.live.changes(since)
        except FauditError as error:  # the store was moved or cannot be read
            return self._refuse(HTTPStatus.SERVICE_UNAVAILABLE, str(error))
        told = {"ETag": f'"{stamp}"', NEXT: f"{self.server.live.due:.3f}"}
        if news is None:
            return self._write(HTTPStatus.NOT_MODIFIED, told)
        return self._send(news, "application/json", told)

    do_HEAD = do_GET

    def _knows_host(self) -> bool:
        host = self.told.get("host", "").lower()
        name = host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]
        return self.server.any_name or name in self.server.names

    def _send(self, body: bytes, kind: str, headers: dict[str, str], status: HTTPStatus = HTTPStatus.OK) -> None:
        about = {"Content-Type": kind, "Content-Length": str(len(body)), **SAFE, **headers}
        self._write(status, about, b"" if self.command == "HEAD" else body)

    def _write(self, status: HTTPStatus, headers: Mapping[str, str], body: bytes = b"") -> None:
        """Send head and body as one message, which wakes the client once."""
        lines = {"Server": self.server_version, "Date": date(int(time.time())), **headers}
        head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
        self.wfile.write(f"HTTP/1.1 {status.value} {status.phrase}\r\n{head}\r\n".encode("latin-1") + body)

    def _refuse(self, status: HTTPStatus, text: str) -> None:
        self.close_connection = True
        self._send(f"{text}\n".encode(), "text/plain; charset=utf-8", {"Connection": "close"}, status)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("do_"):  # any other method
            return lambda: self._refuse(HTTPStatus.METHOD_NOT_ALLOWED, "This page can only be read.")
        raise AttributeError(name)

    def log_message(self, format: str, *args: Any) -> None:
        """Print nothing: the terminal may be that of a sweep."""
