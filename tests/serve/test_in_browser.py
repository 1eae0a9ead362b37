"""The live page as Chromium shows it: phones and wide screens, dark and light, as it changes."""

from __future__ import annotations

import shutil
import socket
import time
from collections.abc import Iterator
from threading import Thread
from urllib.parse import quote

import pytest
import uvicorn
from patience import HANGS
from report.browser import AXE, CHROMIUM, browser
from serve.conftest import EVIL, door_of

from flwr_kld.ledger import Budget, Ledger

pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on PATH"),
    pytest.mark.slow,  # a page takes Chromium a second
]
PAGES = {
    "populations": "", "fleet": "checks?population=fleet",
    "evil": f"checks?population={quote(EVIL)}", "check": "check?number=3",
    "described": "description?number=10",
    "predictor": f"rounds?population=fleet&predictor={quote(EVIL)}",
    "not there": "check?number=999",
}  # fmt: skip


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    with browser(tmp_path_factory.mktemp("profile")) as page:
        yield page


@pytest.fixture(scope="module")
def served(full_ledger, tmp_path_factory) -> Iterator[tuple[str, Ledger]]:
    """Where a copy of the ledger is served, and the copy."""
    path = tmp_path_factory.mktemp("served") / "drift.db"
    shutil.copy(full_ledger.removeprefix("sqlite:///"), path)
    url = f"sqlite:///{path}"
    settings = uvicorn.Config(door_of(url), log_level="warning", lifespan="off", ws="none")
    server = uvicorn.Server(settings)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/", Ledger(url)
        server.should_exit = True
        thread.join()


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [400, 1280])
@pytest.mark.parametrize("name", PAGES)
def test_pages_fit_and_nothing_complains(page, served, name, dark, width):
    page.complaints.clear()
    page.open(served[0] + PAGES[name], dark=dark, width=width)
    expected = "status of 404" if name == "not there" else "nothing"
    assert [words for words in page.complaints if expected not in words] == []
    assert page.ask("document.documentElement.scrollWidth") <= width
    assert page.ask("[...document.images].every(i => i.complete && i.naturalWidth > 0)")
    assert page.ask("getComputedStyle(document.body).backgroundColor") == (
        "rgb(15, 19, 26)" if dark else "rgb(243, 245, 248)"
    )


@pytest.mark.skipif(not AXE.is_file(), reason="axe-core is not installed")
@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("name", PAGES)
def test_accessibility_rules_are_kept(page, served, name, dark):
    page.open(served[0] + PAGES[name], dark=dark, width=400)
    page.ask("document.querySelectorAll('details').forEach(one => one.open = true)")
    assert page.faults() == []


def test_a_page_that_is_open_shows_what_is_new(page, served):
    address, ledger = served
    page.open(address, dark=False, width=1280)
    assert "newcomers" not in page.ask("document.body.innerText")
    ledger.set_budget(Budget(1.0, 1e-6, 30, "newcomers"))
    page.ask("look(); 0")
    end = time.monotonic() + HANGS
    while "newcomers" not in page.ask("document.body?.innerText ?? ''"):
        assert time.monotonic() < end
        time.sleep(0.05)
