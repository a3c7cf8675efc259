"""The live page in a browser: a new epoch appears by itself, and a failed run tells its reason."""

from __future__ import annotations

import random
import threading
from pathlib import Path
from typing import Any

import pytest

from faudit.config import RunConfig
from faudit.report.server import Server
from tests.support import fabricate, stores
from tests.support.stores import look

pytest.importorskip("vl_convert", reason="the page needs vl-convert-python")
SHOWS = """([name, column, text]) => [...document.querySelectorAll('#runs-table tbody tr')].some((row) =>
  row.children[0].innerText.trim() === name && row.children[column].innerText.trim() === text)"""
pytestmark = pytest.mark.slow  # a browser takes seconds to start


def test_a_new_epoch_is_on_the_page_within_three_seconds(opened: Any, tmp_path: Path) -> None:
    fabricate.write(RunConfig(rule="bp", epochs=2), tmp_path)
    going = fabricate.write(RunConfig(rule="dfa", epochs=9), tmp_path, until=1)
    with Server(("127.0.0.1", 0), look(tmp_path)) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            here = opened(server.address)
            column = here.heads("runs-table").index("epoch")
            here.page.wait_for_function(SHOWS, arg=[going.name, column, "1"])
            going.append(fabricate.row(going.config(), 2, random.Random(0)))
            here.page.wait_for_function(SHOWS, arg=[going.name, column, "2"], timeout=3000)
            shown = here.page.evaluate("(name) => series[name]", going.name)  # what came in two parts is whole
            assert shown == server.live.found.series[going.name] and shown["epoch"] == [0, 1, 2]
            lost = fabricate.write(RunConfig(rule="fa", epochs=2), tmp_path)
            stores.failed(lost, "diverged: it overflowed")
            here.page.wait_for_function(
                "document.querySelector('#runs-table').innerText.includes('it overflowed')", timeout=6000
            )
            assert not [text for text in here.said if "304" not in text]
            here.page.context.set_offline(True)  # as if the server had stopped
            here.page.wait_for_function("document.querySelector('#live').textContent.includes('has stopped')")
            assert all(address.startswith(server.address) for address in here.asked)
        finally:
            server.shutdown()
            thread.join()
