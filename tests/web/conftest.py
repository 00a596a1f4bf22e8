"""The page in a real browser: Debian's Chromium, driven by Playwright; skipped where either is missing."""

import socket
import threading
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import uvicorn

from bayesgram.web.api import build
from bayesgram.web.guard import AccessPolicy
from helpers.web_catalogue import (
    make_catalogue,
    make_many_releases,
    make_releases_with_sources,
    make_weak_releases,
)

CHROMIUM = Path("/usr/bin/chromium")
QUIET = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
]
PATIENCE = 60_000  # milliseconds: nothing here is about how fast a busy machine is
LOST = "Failed to load resource: net::ERR_FAILED"  # what a browser says of a server that is gone
# What Chromium notes when the server has too much to do, as on a loaded machine: the page asks again.
BUSY = "Failed to load resource: the server responded with a status of 503 (Service Unavailable)"


def serve(shown):
    """The page of a catalogue, at an address of its own."""
    listening = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(
        build(shown, AccessPolicy()),
        log_config=None,
        log_level="critical",
        lifespan="off",
        ws="none",
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{listening.getsockname()[1]}/"
    server.should_exit = True
    thread.join(10)
    listening.close()


@pytest.fixture(scope="module")
def address():
    yield from serve(make_catalogue())


@pytest.fixture(scope="module")
def weak_address():
    yield from serve(make_catalogue(made=make_weak_releases))


@pytest.fixture(scope="module")
def sources_address():
    yield from serve(make_catalogue(made=make_releases_with_sources))


@pytest.fixture(scope="module")
def many_address():
    yield from serve(make_catalogue(made=make_many_releases))


@pytest.fixture(scope="module")
def browser():
    playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
    if not CHROMIUM.exists():
        pytest.skip(f"there is no {CHROMIUM}")
    playwright.expect.set_options(timeout=PATIENCE)
    with playwright.sync_playwright() as started:
        running = started.chromium.launch(
            executable_path=CHROMIUM, args=[*QUIET, "--disable-sync", "--no-first-run"]
        )
        yield running
        running.close()


@pytest.fixture
def opened(browser, address):
    """Opens a part of the page; whatever it opened must have stayed on this machine and complained of nothing."""
    asked, complaints, contexts = [], [], []

    def open_part(part, *, width=1200, scheme="light", at=address):
        context = browser.new_context(viewport={"width": width, "height": 800}, color_scheme=scheme)
        contexts.append(context)
        context.set_default_timeout(PATIENCE)
        context.on("request", lambda request: asked.append(urlsplit(request.url).hostname))
        page = context.new_page()
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("dialog", lambda dialog: complaints.append(f"dialog {dialog.message}"))
        page.goto(f"{at}#{part}")
        return page

    yield open_part
    for context in contexts:
        context.close()
    assert set(asked) == {"127.0.0.1"}
    assert [told for told in complaints if told not in {LOST, BUSY}] == []
