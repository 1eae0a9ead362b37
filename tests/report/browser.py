"""Chromium over its DevTools pipe: a page as a reader sees it, with nothing but the stdlib."""

from __future__ import annotations

import base64
import fcntl
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)

_PACKAGE = find_spec("axe_core_python")
AXE = Path(_PACKAGE.origin or "").with_name("axe.min.js") if _PACKAGE else Path("no axe-core")


class Page:
    """One tab."""

    def __init__(self, commands: int, answers: int) -> None:
        self._commands, self._answers = commands, answers
        self._unread = b""
        self._number = 0
        self._session: str | None = None
        self._origin = "data:"
        self.complaints: list[str] = []
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        attached = self.send("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Runtime", "Log", "Page", "Network"):
            self.send(f"{domain}.enable")

    def send(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Send a command and return its result; notes what the console says meanwhile."""
        self._number += 1
        command: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            command["sessionId"] = self._session
        os.write(self._commands, json.dumps(command).encode() + b"\0")
        while (answer := self._next()).get("id") != self._number:
            self._hear(answer)
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']}")
        return answer["result"]

    def open(self, place: Path | str, *, dark: bool, width: int) -> None:
        """Load a file, or an address of this machine, as such a screen shows it."""
        address = place.as_uri() if isinstance(place, Path) else place
        self._origin = "data:" if isinstance(place, Path) else "/".join(address.split("/")[:3])
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.send("Emulation.setEmulatedMedia", features=[scheme])
        self.send(
            "Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1,
            mobile=width < 600,
        )  # fmt: skip
        self.send("Emulation.setScrollbarsHidden", hidden=True)
        self.send("Page.navigate", url=address)
        loaded = "new Promise(r => document.readyState == 'complete' ? r() : onload = () => r())"
        self.send("Runtime.evaluate", expression=loaded, awaitPromise=True)

    def ask(self, expression: str) -> Any:
        """Evaluate JavaScript in the page."""
        answer = self.send("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def faults(self) -> list[str]:
        """Return what axe-core's rules find wrong with the page, for those who cannot see it."""
        if not self.ask("typeof axe == 'object'"):
            self.ask(AXE.read_text(encoding="utf-8") + ";0")
        answer = self.send(
            "Runtime.evaluate", expression="axe.run(document)", awaitPromise=True,
            returnByValue=True,
        )  # fmt: skip
        assert "exceptionDetails" not in answer, answer
        return [
            f"{fault['id']}: {node['html'][:200]}: {node.get('failureSummary', '')}"
            for fault in answer["result"]["value"]["violations"]
            for node in fault["nodes"]
        ]

    def picture(self) -> bytes:
        """Return the whole page as a PNG."""
        shot = self.send("Page.captureScreenshot", format="png", captureBeyondViewport=True)
        return base64.b64decode(shot["data"])

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._unread:
            got = os.read(self._answers, 1 << 20)
            assert got, "Chromium ended"
            self._unread += got
        message, _, self._unread = self._unread.partition(b"\0")
        return json.loads(message)

    def _hear(self, event: dict[str, Any]) -> None:
        method, said = event.get("method"), event.get("params", {})
        if method == "Runtime.exceptionThrown" or said.get("type") in ("error", "warning"):
            self.complaints.append(json.dumps(said))
        elif method == "Log.entryAdded" and said["entry"]["level"] in ("error", "warning"):
            self.complaints.append(said["entry"]["text"])
        elif method == "Network.requestWillBeSent" and not said["request"]["url"].startswith(
            ("data:", "file:", self._origin)
        ):
            self.complaints.append(f"asked the network for {said['request']['url']}")


@contextmanager
def browser(profile: Path) -> Iterator[Page]:
    """Start Chromium without a window; end it on leaving."""
    assert CHROMIUM is not None
    to_read, commands = os.pipe()
    answers, to_write = os.pipe()

    def hand_over() -> None:  # Chromium reads from 3 and writes to 4
        source, sink = (fcntl.fcntl(end, fcntl.F_DUPFD, 10) for end in (to_read, to_write))
        os.dup2(source, 3)
        os.dup2(sink, 4)

    process = subprocess.Popen(
        [
            CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run",
            "--remote-debugging-pipe", f"--user-data-dir={profile}",
        ],
        preexec_fn=hand_over, close_fds=False, stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    os.close(to_read)
    os.close(to_write)
    try:
        page = Page(commands, answers)
        yield page
        page.send("Browser.close")
    finally:
        os.close(commands)
        os.close(answers)
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
