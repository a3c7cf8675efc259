"""Clients that poll a live page as browsers do: ``python -m faudit.bench.clients ADDRESS COUNT``.

Each one keeps its connection and asks once a second for what changed since its stamp. On SIGTERM the number of answers
is printed. Nothing heavy is imported, because the time of the clients counts as time of the server.
"""

from __future__ import annotations

import http.client
import signal
import sys
import time
from urllib.parse import urlsplit

EVERY = 1.0  # seconds between two questions of a client, as in the page


class Client:
    """One client with its connection and its stamp."""

    def __init__(self, place: str) -> None:
        self.connection = http.client.HTTPConnection(place, timeout=60)
        self.stamp = ""

    def ask(self) -> None:
        """Ask for what changed."""
        headers = {"If-None-Match": self.stamp} if self.stamp else {}
        self.connection.request("GET", "/data.json", headers=headers)
        answer = self.connection.getresponse()
        answer.read()
        self.stamp = answer.getheader("ETag") or self.stamp


def poll(address: str, count: int) -> int:
    """Poll until SIGTERM; the number of answers."""
    ended = []
    signal.signal(signal.SIGTERM, lambda *_: ended.append(True))
    clients = [Client(urlsplit(address).netloc) for _ in range(count)]
    answers = 0
    while not ended:
        for client in clients:
            if ended:
                break
            client.ask()
            answers += 1
            time.sleep(EVERY / count)
    return answers


if __name__ == "__main__":
    print(poll(sys.argv[1], int(sys.argv[2])))
