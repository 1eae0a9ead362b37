"""Tasks of a study that is killed and goes on: each result is kept under its configuration.

A result depends on the task's configuration alone. Its randomness is seeded by the configuration's
key, so neither the order of tasks nor the number of workers nor an interruption changes anything.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from flwr_kld._extras import require

Configuration = Mapping[str, Any]
"""What a task's result depends on, and nothing else; as JSON has it."""
Arrays = dict[str, NDArray[Any]]
Work = Callable[[Any, Configuration], Arrays]
"""Takes what all tasks share, and a configuration."""
_CONFIGURATION = "configuration"
_RAY = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_worker_niceness": "0",
}
"""Workers are as nice as who started them; Ray's own would add 15."""
_STARTS = 4
"""Ray gives itself half a minute to start, which a busy machine may exceed."""
_CRASHES = 3
"""Times that a task whose worker died is done again."""


def key_of(configuration: Configuration) -> str:
    """Name a configuration: 32 hexadecimal digits."""
    return hashlib.sha256(_text(configuration).encode()).hexdigest()[:32]


def seed_of(configuration: Configuration, what: str) -> int:
    """Seed of one purpose in a task, the same wherever and whenever it runs."""
    return int(key_of({**configuration, "purpose": what})[:16], 16)


class Kept:
    """Results in a folder, one file a configuration."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Keep other runs out of the folder; the lock ends with the process, however it ends."""
        with (self._folder / "lock").open("w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise ValueError(
                    f"another study is writing to {self._folder}: wait for it, or choose another "
                    "folder with --out"
                ) from None
            yield

    def load(self, configuration: Configuration) -> Arrays | None:
        """Return a task's result; None if there is none that is whole, finite and its own."""
        try:
            with np.load(self._path(configuration), allow_pickle=False) as file:
                found = {name: file[name] for name in file.files}
        except (OSError, ValueError, EOFError, KeyError, zipfile.BadZipFile):
            return None
        if str(found.pop(_CONFIGURATION, "")) != _text(configuration) or not found:
            return None
        return found if _finite(found) else None

    def save(self, configuration: Configuration, result: Arrays) -> None:
        """Keep a result: the whole file or none of it."""
        if not _finite(result):
            raise ValueError(f"a result is not finite; the task was {_text(configuration)}")
        path = self._path(configuration)
        unfinished = path.with_suffix(".unfinished")
        with unfinished.open("wb") as file:
            np.savez(file, **{_CONFIGURATION: np.array(_text(configuration))}, **result)  # type: ignore[arg-type]
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(path)

    def _path(self, configuration: Configuration) -> Path:
        return self._folder / f"{key_of(configuration)}.npz"


def complete(
    work: Work,
    shared: Any,
    tasks: Sequence[Configuration],
    kept: Kept,
    *,
    workers: int,
    address: str | None = None,
    console: Console,
) -> None:
    """Do the tasks whose result is not kept yet, and keep each as it comes."""
    missing = [task for task in tasks if kept.load(task) is None]
    columns = (
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
        TextColumn("left:"), TimeRemainingColumn(elapsed_when_finished=False),
    )  # fmt: skip
    if not missing:
        return
    on_ray = workers or address
    done = _on_ray(work, shared, missing, workers, address) if on_ray else _here(
        work, shared, missing
    )  # fmt: skip
    with Progress(*columns, console=console, speed_estimate_period=600) as progress:
        bar = progress.add_task("tasks", total=len(tasks), completed=len(tasks) - len(missing))
        for task, result in done:
            kept.save(task, result)
            progress.advance(bar)


def _here(
    work: Work, shared: Any, tasks: Sequence[Configuration]
) -> Iterator[tuple[Configuration, Arrays]]:
    for task in tasks:
        yield task, work(shared, task)


def _on_ray(
    work: Work, shared: Any, tasks: Sequence[Configuration], workers: int, address: str | None
) -> Iterator[tuple[Configuration, Arrays]]:
    """Yield results as they come; a task whose worker died is done again."""
    ray = _started(workers, address)
    try:
        remote = ray.remote(num_cpus=1, max_retries=_CRASHES)(work)
        everywhere = ray.put(shared)
        waiting = {remote.remote(everywhere, task): task for task in tasks}
        while waiting:
            (ready,), _ = ray.wait(list(waiting), num_returns=1)
            yield waiting.pop(ready), ray.get(ready)
    finally:
        ray.shutdown()


def _started(workers: int, address: str | None) -> Any:
    """Join a cluster, or start one of so many workers; give it some tries."""
    for name, value in _RAY.items():
        os.environ.setdefault(name, value)
    ray = require("ray", extra="simulation")
    local = {"address": "local", "num_cpus": workers, "include_dashboard": False}
    for left in reversed(range(_STARTS)):
        try:
            ray.init(log_to_driver=False, **({"address": address} if address else local))
            return ray
        except Exception as error:  # Ray raises no narrower one
            ray.shutdown()
            if not left:
                raise ValueError(
                    f"Ray did not start in {_STARTS} tries: {error} If the machine is busy, "
                    "--workers 0 does without Ray"
                ) from error


def _text(configuration: Configuration) -> str:
    return json.dumps(configuration, sort_keys=True, allow_nan=False)


def _finite(result: Arrays) -> bool:
    return all(np.isfinite(values).all() for values in result.values())
