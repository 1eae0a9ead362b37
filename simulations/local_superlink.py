"""A SuperLink of one's own for a simulation: free port, own home, gone when the block ends."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from flwr_kld.common.extras import require

_CONNECTION = "simulation"
_START_TIMEOUT = 300.0  # an end to waiting for what hangs; a busy machine may need minutes
_QUIET = {
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    # Without a network the run-time installation of dependencies fails every run.
    "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
}
_USUAL = {"RAY_ADDRESS": "local"}
"""A Ray of its own, though another may run here, unless the environment names a cluster."""
_END_TIMEOUT = 15.0


@dataclass(frozen=True)
class LocalSuperLink:
    """A running SuperLink in simulation mode."""

    environment: dict[str, str]  # For ``flwr`` commands that talk to it
    log: Path  # What it and its runs print

    def run(
        self, app: Path, *, nodes: int, config: Mapping[str, object]
    ) -> subprocess.Popen[bytes]:
        """Start ``flwr run`` on an app and return at once."""
        command = [
            _script("flwr"), "run", str(app), _CONNECTION, "--stream",
            "--federation-config", f"num-supernodes={nodes} client-resources-num-cpus=1",
        ]  # fmt: skip
        if config:
            values = [f"{k}={_toml(v)}" for k, v in config.items()]
            command += ["--run-config", " ".join(values)]
        with self.log.open("ab") as log:
            return subprocess.Popen(command, env=self.environment, stdout=log, stderr=log)


@contextmanager
def local_superlink(log: Path) -> Iterator[LocalSuperLink]:
    """Start a SuperLink for simulations; on leaving, stop it and all that it started."""
    with TemporaryDirectory(prefix="flwr-kld-") as home, reserved_port() as port:
        (Path(home) / "config.toml").write_text(
            f'[superlink]\ndefault = "{_CONNECTION}"\n\n'
            f'[superlink.{_CONNECTION}]\naddress = "127.0.0.1:{port}"\ninsecure = true\n'
        )
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
        own = {**_QUIET, "FLWR_HOME": home, "PATH": path}
        environment = {**_USUAL, **os.environ, **own}
        command = [
            _script("flower-superlink"), "--insecure", "--simulation",
            "--isolation", "subprocess", "--host", "127.0.0.1", "--port", str(port),
            "--disable-runtime-dependency-installation",
        ]  # fmt: skip
        with log.open("wb") as output:
            process = subprocess.Popen(
                command, env=environment, stdout=output, stderr=output, start_new_session=True
            )
        try:
            _wait_until_up(process, port, log)
            yield LocalSuperLink(environment, log)
        finally:
            stop_family(process)


def _script(name: str) -> str:
    return str(Path(sys.executable).parent / name)


@contextmanager
def reserved_port() -> Iterator[int]:
    """Yield a TCP port on loopback that no other process is given while the block lasts.

    A server that sets ``SO_REUSEADDR``, as Flower's do, can listen on it: the socket that keeps
    the port is bound and does not listen. A port that was merely free a moment ago may be taken by
    another suite, or by one of Ray's many servers, before this one listens.
    """
    with socket.socket() as keeper:
        keeper.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        keeper.bind(("127.0.0.1", 0))
        yield int(keeper.getsockname()[1])


def _toml(value: object) -> str:
    return f'"{value}"' if isinstance(value, str | Path) else str(value).lower()


def _wait_until_up(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    give_up = time.monotonic() + _START_TIMEOUT
    while time.monotonic() < give_up and process.poll() is None:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=1):
                return
        except (urllib.error.URLError, TimeoutError, ConnectionError):
            time.sleep(0.1)
    raise RuntimeError(f"the local SuperLink did not start: see {log}")


def stop_family(process: subprocess.Popen[bytes]) -> None:
    """End a process and its descendants, Ray's included, whichever session they are in."""
    psutil = require("psutil", extra="simulation")
    family: list[Any] = []
    with suppress(psutil.NoSuchProcess):
        root = psutil.Process(process.pid)
        root.suspend()
        # What is stopped starts nothing. A list taken while they run misses what they start a
        # moment later: Ray's agents, when Ray is interrupted while it comes up.
        while new := [one for one in root.children(recursive=True) if one not in family]:
            for member in new:
                with suppress(psutil.NoSuchProcess):
                    member.suspend()
            family += new
    for member in family:
        with suppress(psutil.NoSuchProcess):
            member.kill()
    process.terminate()
    process.send_signal(signal.SIGCONT)
    give_up = time.monotonic() + _END_TIMEOUT
    while any(map(_runs, family)) and time.monotonic() < give_up:
        time.sleep(0.05)
    try:
        process.wait(_END_TIMEOUT)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _runs(process: Any) -> bool:
    """Whether a process runs; a container may never collect those that have ended."""
    psutil = require("psutil", extra="simulation")
    try:
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False
