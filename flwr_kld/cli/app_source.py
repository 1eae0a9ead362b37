"""An existing Flower app, as its pyproject.toml and its source say it is."""

from __future__ import annotations

import ast
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

BY_HAND = "; add the lines of docs/init.md by hand"
"""What is left where an app is not as `flwr-kld init --into` knows it."""


@dataclass(frozen=True)
class Component:
    """A ServerApp or ClientApp in its file."""

    file: Path  # Where it is
    name: str  # Of the variable that holds it

    @property
    def source(self) -> Source:
        """The file's code."""
        return Source.of(self.file)


@dataclass(frozen=True)
class Source:
    """Python code, with the ends of its lines."""

    file: Path  # Where it is
    text: str  # With newlines of Unix
    tree: ast.Module  # What it says
    crlf: bool  # Whether the file's lines end as on Windows

    @classmethod
    def of(cls, file: Path) -> Source:
        """Read a file."""
        try:
            raw = file.read_bytes().decode()
            text = raw.replace("\r\n", "\n")
            return cls(file, text, ast.parse(text), "\r\n" in raw)
        except FileNotFoundError:
            raise ValueError(f"pyproject.toml names {file}, which does not exist") from None
        except (SyntaxError, UnicodeDecodeError):
            raise ValueError(f"{file} is not readable as Python: correct it first") from None

    @property
    def names(self) -> set[str]:
        """Every name that the code uses, for whatever."""
        found = {node.id for node in ast.walk(self.tree) if isinstance(node, ast.Name)}
        found |= {node.arg for node in ast.walk(self.tree) if isinstance(node, ast.arg)}
        for node in ast.walk(self.tree):
            if isinstance(node, ast.alias):
                found.add((node.asname or node.name).partition(".")[0])
            elif isinstance(node, ast.FunctionDef | ast.ClassDef):
                found.add(node.name)
        return found


def read_project(app: Path) -> dict[str, Any]:
    """Read an app's pyproject.toml."""
    file = app / "pyproject.toml"
    if not file.is_file():
        raise ValueError(f"{app} is not a Flower app: it has no pyproject.toml")
    try:
        project = tomllib.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{file} is not a valid TOML file: {error}") from None
    flower = project.get("tool", {}).get("flwr", {}).get("app")
    if not isinstance(flower, dict) or not isinstance(flower.get("components"), dict):
        raise ValueError(
            f"{file} has no [tool.flwr.app.components]: it is not a Flower app; flwr-kld init "
            "SAMPLE --out NEW writes one"
        )
    return project


def run_config(project: dict[str, Any]) -> dict[str, Any]:
    """Return the run config that an app declares; names in dotted form, as Flower has them."""
    config = project["tool"]["flwr"]["app"].get("config", {})
    return dict(_flat(config, "")) if isinstance(config, dict) else {}


def _flat(config: dict[str, Any], before: str) -> list[tuple[str, Any]]:
    found: list[tuple[str, Any]] = []
    for name, value in config.items():
        own = f"{before}{name}"
        found += _flat(value, f"{own}.") if isinstance(value, dict) else [(own, value)]
    return found


def component(app: Path, project: dict[str, Any], kind: str) -> Component:
    """Return the app's ``serverapp`` or ``clientapp``."""
    told = project["tool"]["flwr"]["app"]["components"].get(kind)
    module, colon, name = str(told).partition(":")
    parts = module.split(".")
    if not colon or not all(part.isidentifier() for part in (*parts, name)):
        raise ValueError(
            f"{app / 'pyproject.toml'} has no {kind} = 'module:name' under "
            f"[tool.flwr.app.components]{BY_HAND}"
        )
    return Component(app.joinpath(*parts).with_suffix(".py"), name)
