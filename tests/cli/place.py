"""Where mistakes are made: a folder with an app, its ledger, a sample, a key and a roster."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flwr_kld.ledger import Ledger

Typed = Callable[["Place"], list[object]]
"""Makes a mistake; returns what is typed."""


@dataclass(frozen=True)
class Place:
    """The folder."""

    folder: Path

    @property
    def app(self) -> Path:
        return self.folder / "app"

    @property
    def ledger(self) -> str:
        return f"sqlite:///{self.folder / 'app' / 'drift.db'}"

    @property
    def project(self) -> Path:
        return self.app / "pyproject.toml"

    def change(self, file: str, old: str, new: str) -> None:
        text = (self.folder / file).read_text()
        assert old in text
        (self.folder / file).write_text(text.replace(old, new))

    def write(self, name: str, content: bytes | str) -> Path:
        file = self.folder / name
        file.write_bytes(content.encode() if isinstance(content, str) else content)
        return file

    def check(self, *options: object, ledger: str | None = None) -> list[object]:
        real = ["--run-config", 'drift-sample=""', "--key", "a"]
        return ["check", self.app, "prod", "--ledger", ledger or self.ledger, *real, *options]

    def doctor(self, *options: object) -> list[object]:
        return ["doctor", self.app, *options]

    def init(self, *options: object) -> list[object]:
        return ["init", self.folder / "sample.csv", "--out", self.folder / "new", *options]


def elsewhere(p: Place) -> str:
    """Put a copy of the ledger beside the app's own."""
    url = f"sqlite:///{p.folder / 'other.db'}"
    shutil.copy(p.app / "drift.db", p.folder / "other.db")
    return url


def without_budget(p: Place) -> str:
    """Give the app a ledger without budgets."""
    Ledger(f"sqlite:///{p.folder / 'bare.db'}")
    p.change("app/pyproject.toml", "app/drift.db", "bare.db")
    return f"sqlite:///{p.folder / 'bare.db'}"


def answered(cli: Any, flwr: Any, typed: list[object], words: str) -> None:
    """Type a command: it is refused in these words, and nothing is asked or spent."""
    done = cli(*typed)
    said = done.stdout + done.stderr
    assert done.exit_code == 4, said
    assert "Traceback" not in said
    assert re.search(words, said), said
    assert flwr.calls == []
    assert Ledger(flwr.ledger).spent().epsilon == 0
