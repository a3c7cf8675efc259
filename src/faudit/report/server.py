"""The live page: a read-only server of two addresses, ``/`` and ``/data.json``, on this machine.

No address is turned into a path of a file, so nothing else can be read. The name in the Host header must be one of this
machine, so that a foreign web page cannot read the runs through the browser (DNS rebinding). All clients share one look
at the store per second; a client that has seen everything gets an empty answer.
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
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs

from faudit import __version__
from faudit.errors import ConfigError, FauditError
from faudit.report.collection import Collection
from faudit.report.page import html

EVERY = 1.0  # seconds between two looks at the store
LONGEST = 30.0  # seconds that a client may take to send its request
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
        self._answered = ""  # the stamp that they belong to

    def look(self) -> None:
        """Look at the store if the last look is older than a second. The caller holds the lock."""
        if time.monotonic() - self._looked >= EVERY:
            self.found.look()
            self._looked = time.monotonic()  # after the look, so that a slow store is not looked at all the time

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
            if known not in self._answers:
                news = json.dumps(self._news(known), allow_nan=False, separators=(",", ":"))
                self._answers[known] = news.encode()
            return self.stamp, self._answers[known]

    def _news(self, known: int | None) -> dict[str, Any]:
        found = self.found
        fresh = {name for name, look in found.changed.items() if known is None or look > known}
        return {
            "stamp": self.stamp,
            "whole": known is None,
            "document": found.document,
            "order": list(found.pages),
            "runs": {name: document for name, document in found.runs.items() if name in fresh},
            "series": {name: columns for name, columns in found.series.items() if name in fresh},
            "gone": sorted(fresh - found.pages.keys()),
        }


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


class Handler(BaseHTTPRequestHandler):
    """Answers GET and HEAD for ``/`` and ``/data.json``; every other address does not exist."""

    server: Server
    protocol_version = "HTTP/1.1"
    server_version = f"faudit/{__version__}"
    sys_version = ""
    timeout = LONGEST

    def do_GET(self) -> None:
        if not self._knows_host():
            return self._refuse(HTTPStatus.MISDIRECTED_REQUEST, "Use the address that faudit printed.")
        path, _, query = self.path.partition("?")
        if path not in ("/", "/data.json"):  # compared as it came: nothing is decoded, joined or opened
            return self._refuse(HTTPStatus.NOT_FOUND, "There is only / and /data.json here.")
        try:
            if path == "/":
                return self._send(self.server.live.page(), "text/html; charset=utf-8", {"Content-Encoding": "gzip"})
            since = (self.headers.get("If-None-Match") or "").strip('"') or (parse_qs(query).get("since") or [""])[0]
            stamp, news = self.server.live.changes(since)
        except FauditError as error:  # the store was moved or cannot be read
            return self._refuse(HTTPStatus.SERVICE_UNAVAILABLE, str(error))
        if news is None:
            self.send_response(HTTPStatus.NOT_MODIFIED)
            self.send_header("ETag", f'"{stamp}"')
            self.end_headers()
            return None
        return self._send(news, "application/json", {"ETag": f'"{stamp}"'})

    do_HEAD = do_GET

    def _knows_host(self) -> bool:
        host = (self.headers.get("Host") or "").strip().lower()
        name = host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]
        return self.server.any_name or name in self.server.names

    def _send(self, body: bytes, kind: str, headers: dict[str, str], status: HTTPStatus = HTTPStatus.OK) -> None:
        self.send_response(status)
        for name, value in {"Content-Type": kind, "Content-Length": str(len(body)), **SAFE, **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _refuse(self, status: HTTPStatus, text: str) -> None:
        self.close_connection = True
        self._send(f"{text}\n".encode(), "text/plain; charset=utf-8", {"Connection": "close"}, status)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("do_"):  # any other method
            return lambda: self._refuse(HTTPStatus.METHOD_NOT_ALLOWED, "This page can only be read.")
        raise AttributeError(name)

    def log_message(self, format: str, *args: Any) -> None:
        """Print nothing: the terminal may be that of a sweep."""
