"""Clients that poll a live page as browsers do: ``python -m faudit.bench.clients ADDRESS COUNT``.

Each one keeps its connection, asks for what changed since its stamp when the server looks again, and reads the whole
answer. On SIGTERM the number of answers is printed. A viewer at another machine costs this one nothing. So the clients
use bare sockets and import nothing heavy.
"""

from __future__ import annotations

import heapq
import signal
import socket
import sys
import time
from urllib.parse import urlsplit

SOONEST, AFTER = 0.2, 0.02  # seconds between two questions at least, and after the look that was told; as in the page
PATIENCE = 60.0  # seconds that an answer may take


class Client:
    """One client with its connection and its stamp."""

    def __init__(self, address: str) -> None:
        parts = urlsplit(address)
        self.host, self.place = parts.netloc, (parts.hostname or "", parts.port or 80)
        self.connection: socket.socket | None = None
        self.stamp = ""

    def ask(self) -> float:
        """Ask for what changed; returns the seconds until the next question.

        A server that was stopped for long has closed the connection: then connect again.
        """
        try:
            return self._answer()
        except (ConnectionError, TimeoutError):  # the clock of a client that was stopped too goes on
            self.close()
            return self._answer()

    def close(self) -> None:
        if self.connection is not None:
            self.connection.close()
        self.connection = None

    def _answer(self) -> float:
        if self.connection is None:
            self.connection = socket.create_connection(self.place, timeout=PATIENCE)
        known = f"If-None-Match: {self.stamp}\r\n" if self.stamp else ""
        self.connection.sendall(f"GET /data.json HTTP/1.1\r\nHost: {self.host}\r\n{known}\r\n".encode())
        answer = b""
        while b"\r\n\r\n" not in answer:
            answer += part_of(self.connection)
        head, _, body = answer.partition(b"\r\n\r\n")
        headers = dict(line.lower().split(": ", 1) for line in head.decode("latin-1").split("\r\n")[1:])
        missing = int(headers.get("content-length", 0)) - len(body)
        while missing > 0:
            missing -= len(part_of(self.connection))
        self.stamp = headers.get("etag", self.stamp)
        return max(SOONEST, float(headers.get("next-look", 2.0)) + AFTER)


def part_of(connection: socket.socket) -> bytes:
    """The next bytes of an answer."""
    part = connection.recv(65_536)
    if not part:
        raise ConnectionResetError("the server has closed the connection")
    return part


def poll(address: str, count: int) -> int:
    """Poll until SIGTERM; the number of answers."""
    ended = []
    signal.signal(signal.SIGTERM, lambda *_: ended.append(True))
    clients = [Client(address) for _ in range(count)]
    due = [(time.monotonic(), place) for place in range(count)]  # a heap: when each client asks next
    answers = 0
    while not ended:
        when, place = due[0]
        time.sleep(max(0.0, when - time.monotonic()))  # a signal does not cut it short: it is at most one look
        wait = clients[place].ask()
        heapq.heapreplace(due, (time.monotonic() + wait, place))
        answers += 1
    return answers


if __name__ == "__main__":
    print(poll(sys.argv[1], int(sys.argv[2])))
