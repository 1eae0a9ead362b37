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
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.progress import track
from threadpoolctl import threadpool_limits

Configuration = Mapping[str, Any]
"""What a task's result depends on, and nothing else; as JSON has it."""
Arrays = dict[str, NDArray[Any]]
Work = Callable[[Any, Configuration], Arrays]
"""Takes what all tasks share, and a configuration."""
_CONFIGURATION = "configuration"


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
    work: Work, shared: Any, tasks: Sequence[Configuration], kept: Kept, *, workers: int
) -> None:
    """Do the tasks whose result is not kept yet, and keep each as it comes."""
    missing = [task for task in tasks if kept.load(task) is None]
    if not workers:
        for task in missing:
            kept.save(task, work(shared, task))
        return
    with processes(workers) as pool:
        jobs = {pool.submit(work, shared, task): task for task in missing}
        try:
            for job in track(as_completed(jobs), description="tasks", total=len(jobs)):
                kept.save(jobs[job], job.result())
        finally:
            pool.shutdown(cancel_futures=True)


def processes(workers: int) -> ProcessPoolExecutor:
    """Return so many processes, which share the cores: none has threads of its own."""
    return ProcessPoolExecutor(
        workers, get_context("spawn"), initializer=threadpool_limits, initargs=(1,)
    )


def _text(configuration: Configuration) -> str:
    return json.dumps(configuration, sort_keys=True, allow_nan=False)


def _finite(result: Arrays) -> bool:
    return all(np.isfinite(values).all() for values in result.values())
