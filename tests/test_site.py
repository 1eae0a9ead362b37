"""Every page of the built site as Chromium shows it: phones and wide screens, dark and light."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from recipes import ROOT
from report.browser import AXE, CHROMIUM, browser

pytestmark = [
    pytest.mark.slow,  # minutes
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on PATH"),
    pytest.mark.skipif(not AXE.is_file(), reason="axe-core is not installed"),
]

SITE = ROOT / "build" / "site"
SCREENS = [(dark, width) for dark in (False, True) for width in (1280, 400)]


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *words: object) -> None:
        """Say nothing of every request."""


@contextmanager
def served(folder: Path) -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=folder)) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


def test_pages_fit_are_accessible_and_ask_nobody_else(tmp_path):
    subprocess.run(["make", "docs"], cwd=ROOT, check=True, capture_output=True)
    pages = sorted(file.relative_to(SITE).as_posix() for file in SITE.rglob("*.html"))
    assert "index.html" in pages
    assert "proofs/predictors/index.html" in pages
    found = {}
    with served(SITE) as address, browser(tmp_path) as page:
        for name in pages:
            for dark, width in SCREENS:
                page.complaints.clear()
                page.open(f"{address}{name}", dark=dark, width=width)
                wide = page.ask("document.documentElement.scrollWidth") > width
                if faults := [*page.complaints, *page.faults(), *["is too wide"] * wide]:
                    found[name, dark, width] = faults
    assert found == {}
