"""One headless Chromium for all browser tests; they are skipped with a reason where there is none."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.support.paths import SHOTS

FLAGS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
]  # fmt: skip


@dataclass
class Opened:
    """A page in the browser, with what it said on its console and which addresses it asked for."""

    page: Any
    said: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)

    def shot(self, name: str, **how: Any) -> None:
        SHOTS.mkdir(parents=True, exist_ok=True)
        self.page.screenshot(path=SHOTS / f"{name}.png", **how)

    def cells(self, table: str, column: int) -> list[str]:
        """The text of one column of a table."""
        rows = self.page.locator(f"#{table} tbody tr")
        found: list[str] = rows.evaluate_all("(rows, k) => rows.map((row) => row.children[k].innerText.trim())", column)
        return found

    def heads(self, table: str) -> list[str]:
        found: list[str] = self.page.locator(f"#{table} thead th").evaluate_all(
            "(all) => all.map((one) => one.innerText.trim())"
        )
        return found


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api", reason="the browser tests need playwright")
    found = next(
        (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None
    )
    if found is None:
        pytest.skip("no chromium on this machine: scripts/browser tells how to install it")
    with playwright.sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=found, args=FLAGS)
        yield started
        started.close()


@pytest.fixture
def opened(browser: Any) -> Iterator[Any]:
    """A function that opens an address and returns what it opened, when the page is ready."""
    contexts = []

    def open_(address: str, *, width: int = 1280, height: int = 800, dark: bool = False) -> Opened:
        context = browser.new_context(
            viewport={"width": width, "height": height}, color_scheme="dark" if dark else "light", accept_downloads=True
        )
        contexts.append(context)
        found = Opened(context.new_page())
        found.page.on("console", lambda message: found.said.append(message.text))
        found.page.on("pageerror", lambda error: found.said.append(str(error)))
        found.page.on("request", lambda request: found.asked.append(request.url))
        found.page.goto(address)
        found.page.wait_for_selector("html[data-ready]", timeout=60_000)
        return found

    yield open_
    for context in contexts:
        context.close()
