"""The services of a Compose file as processes on loopback: same commands, environment and checks.

Each service has a folder in place of its container's root; ports and names of services become
reserved ports of this machine. What is in the image is an environment that has the same wheel and
extras; other images are Debian's packages.
"""

import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import yaml
from flower_deployment import wait_for
from fresh_install import fresh_environment
from patience import HANGS
from recipes import ROOT

from flwr_kld.simulations.local_superlink import reserved_port

DEPLOY = ROOT / "deploy"
APP = "examples/two-aggregators"
LET_IN = "SuperNode ID: "
"""In a SuperNode's log once its SuperLink has let it in; one that comes too soon ends instead."""
PAUSE = 2.0
"""Seconds between two looks: each is a process, and takes time from what it waits for."""
_PORT = "8000|910[1-5]|9109|9090|8600|5432|3000"
_IMAGE = re.compile(r"([A-Z_]+)=(\S+)")


def interpolated(part: Any) -> Any:
    """What Compose makes of ``${NAME:-default}`` and ``$$`` where no name is set."""
    if isinstance(part, dict):
        return {name: interpolated(value) for name, value in part.items()}
    if isinstance(part, list):
        return [interpolated(value) for value in part]
    if isinstance(part, str):
        return re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", part).replace("$$", "$")
    return part


def services(file: Path = DEPLOY / "compose.yaml") -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = interpolated(yaml.safe_load(file.read_text()))["services"]
    return found


class Processes:
    """A federation of `deploy/compose.yaml`, in a folder."""

    def __init__(self, home: Path) -> None:
        self.home, self.services = home, services()
        image = (DEPLOY / "Containerfile").read_text()
        (extras,) = re.findall(r"flwr_kld-\*\.whl\)\[([\w,]+)\]", image)
        self.programs = fresh_environment(home, extras)
        self._of_image = dict(_IMAGE.findall(image))
        self.deploy = shutil.copytree(DEPLOY, home / "deploy")
        shutil.copytree(ROOT / APP, home / APP)
        self._until_the_end = ExitStack()
        ports = set(re.findall(rf"\b({_PORT})\b", (DEPLOY / "compose.yaml").read_text()))
        self.ports = {p: self._until_the_end.enter_context(reserved_port()) for p in sorted(ports)}
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._began: dict[str, int] = {}  # Where the log of the latest start begins
        self.ledger = Path(tempfile.mkdtemp(prefix="flwr-kld-compose."))  # its user may enter
        self._until_the_end.callback(shutil.rmtree, self.ledger, ignore_errors=True)

    @property
    def path(self) -> str:
        """Where programs are looked for."""
        return f"{self.programs}{os.pathsep}{os.environ['PATH']}"

    def lay(self) -> None:
        """Make each service's root: volumes are links, files of configuration are translated."""
        for name, service in self.services.items():
            for volume in service.get("volumes", []):
                source, target = volume.split(":")[:2]
                self._mount(name, source, self.root(name) / target.lstrip("/"))
            (self.root(name) / "var/lib/flower").mkdir(parents=True, exist_ok=True)

    def root(self, name: str) -> Path:
        return self.home / "roots" / name

    def _mount(self, name: str, source: str, target: Path) -> None:
        target.parent.mkdir(parents=True, exist_ok=True)
        path = self.deploy / source
        if not source.startswith("."):
            path = self.ledger if source == "ledger" else self.home / "volumes" / source
            path.mkdir(parents=True, exist_ok=True)
        if path.is_file():
            target.write_text(self.here(name, path.read_text()))
        else:
            target.symlink_to(path)

    def here(self, name: str, text: str) -> str:
        """Replace a container's paths, names and ports by those of this machine."""

        def place(match: re.Match[str]) -> str:
            port = self.ports.get(match[2], match[2])
            return f"127.0.0.1:{port}" if match[1] else str(port)

        text = re.sub(rf"\b((?:{'|'.join(self.services)}):)?\b({_PORT})\b", place, text)
        absolute = r"(?<![\w./:])/(?=(?:srv|etc|var/lib)/|prometheus\b)"
        return re.sub(absolute, f"{self.root(name)}/", text)

    def given_environment(self, name: str) -> dict[str, str]:
        """That of the image, then the service's files, then its own."""
        given = dict(self._of_image)
        for file in self.services[name].get("env_file", []):
            given |= dict(_IMAGE.findall((self.deploy / file).read_text()))
        return given | self.services[name].get("environment", {})

    def environment(self, name: str) -> dict[str, str]:
        """The same with this machine's paths and ports, beside the caller's own."""
        here = {key: self.here(name, given) for key, given in self.given_environment(name).items()}
        return {**os.environ, **here, "PATH": self.path}

    def command(self, name: str) -> list[str]:
        if name == "postgres":
            data, port = str(self.ledger / "data"), str(self.ports["5432"])
            server = [self._postgres("postgres"), "-D", data, "-p", port, "-k", str(self.ledger)]
            return [*self._as_postgres(), *server]
        given = [self.here(name, part) for part in self.services[name]["command"]]
        return ["prometheus", *given] if name == "prometheus" else given

    @staticmethod
    def _postgres(program: str) -> str:
        """A program of Debian's newest PostgreSQL."""
        return str(max(Path("/usr/lib/postgresql").glob(f"*/bin/{program}")))

    @staticmethod
    def _as_postgres() -> list[str]:
        """PostgreSQL does not run as root."""
        root = os.geteuid() == 0
        return ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"] * root

    def _first_start_of_postgres(self) -> None:
        """What the image's entry point does."""
        given = self.environment("postgres")
        password = self.ledger / "password"
        password.write_text(given["POSTGRES_PASSWORD"])
        if self._as_postgres():
            shutil.chown(self.ledger, "postgres")
            shutil.chown(password, "postgres")
        subprocess.run(
            [*self._as_postgres(), self._postgres("initdb"), "-D", self.ledger / "data", "-A",
             "scram-sha-256", "-U", given["POSTGRES_USER"], "--pwfile", password],
            check=True, capture_output=True, cwd="/",
        )  # fmt: skip
        self.start("postgres")
        wait_for(lambda: self.healthy("postgres"), HANGS, "PostgreSQL answers", PAUSE)
        subprocess.run(
            ["createdb", "-h", "127.0.0.1", "-p", str(self.ports["5432"]), "-U",
             given["POSTGRES_USER"], given["POSTGRES_DB"]],
            check=True, env={**given, "PGPASSWORD": given["POSTGRES_PASSWORD"]},
        )  # fmt: skip

    def start(self, name: str) -> None:
        with (self.home / f"{name}.log").open("ab") as log:
            self._began[name] = log.tell()
            self._running[name] = subprocess.Popen(
                self.command(name), env=self.environment(name), stdout=log, stderr=log,
                start_new_session=True, cwd="/" if name == "postgres" else self.root(name),
            )  # fmt: skip

    def healthy(self, name: str) -> bool:
        """What the service's own check says."""
        test = [self.here(name, part) for part in self.services[name]["healthcheck"]["test"][1:]]
        done = subprocess.run(test, env=self.environment(name), capture_output=True, timeout=HANGS)
        return done.returncode == 0

    def up(self, name: str) -> None:
        """Start a service, and again whenever it ends, until it does its work."""
        is_node = self.services[name].get("command", [""])[0] == "flower-supernode"

        def works() -> bool:
            running = self._running.get(name)
            if running is None or running.poll() is not None:
                self.start(name)
            return self.healthy(name) and (not is_node or LET_IN in self.log(name))

        wait_for(works, HANGS, f"{name} is healthy", PAUSE)

    def up_all(self) -> None:
        """All that can run here, in the order of the file."""
        self.lay()
        self._first_start_of_postgres()
        self.up("superlink")
        self.start("register")
        if self._running.pop("register").wait(HANGS):
            raise RuntimeError(self.log("register"))
        others = [name for name in self.services if name not in ("postgres", "register", "grafana")]
        for name in others[1:]:
            self.start(name)
        for name in others[1:]:
            self.up(name)

    def kill(self, name: str) -> None:
        """End a service as a power cut does."""
        process = self._running.pop(name)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def run(self, name: str, *command: str) -> subprocess.CompletedProcess[str]:
        """Run a command beside a service, as ``docker compose exec`` does."""
        here = [self.here(name, part) for part in command]
        return subprocess.run(
            here, env=self.environment(name), cwd=self.root(name), capture_output=True, text=True,
            timeout=HANGS,
        )  # fmt: skip

    def log(self, name: str) -> str:
        """What a service has printed since its latest start."""
        with (self.home / f"{name}.log").open("rb") as log:
            log.seek(self._began[name])
            return log.read().decode(errors="replace")

    def stop(self) -> None:
        for signal_ in (signal.SIGTERM, signal.SIGKILL):
            for process in reversed(self._running.values()):
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal_)
            give_up = time.monotonic() + 20
            for process in self._running.values():
                with suppress(subprocess.TimeoutExpired):
                    process.wait(max(give_up - time.monotonic(), 0.1))
        self._until_the_end.close()
