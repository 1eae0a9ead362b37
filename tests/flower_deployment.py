"""A SuperLink and its SuperNodes on loopback, with TLS and node authentication if wanted."""

import ipaddress
import json
import os
import re
import shutil
import signal
import ssl
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)
from cryptography.x509.oid import NameOID
from patience import HANGS

from flwr_kld.clients import AggregatorKey
from flwr_kld.secure_sums import Identity, Roster
from flwr_kld.simulations.local_superlink import reserved_port, stop_family

BIN = Path(sys.executable).parent
LOOPBACK = "127.0.0.1"


def wait_for(
    condition: Callable[[], object], seconds: float, what: str, pause: float = 0.05
) -> None:
    give_up = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > give_up:
            raise TimeoutError(f"{what}: not within {seconds} s")
        time.sleep(pause)


def _end(process: subprocess.Popen[bytes]) -> None:
    stop_family(process)
    _sweep(process)


def _sweep(process: subprocess.Popen[bytes]) -> None:
    """Kill what is left of a process's group: a SuperExec may outlive the node that started it."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


class Certificates:
    """A certificate authority of our own, and the SuperLink's certificate from it."""

    def __init__(self, folder: Path) -> None:
        self.authority, self.certificate, self.key = (
            folder / name for name in ("ca.crt", "superlink.crt", "superlink.key")
        )
        ca_key, link_key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
        ca_name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test authority")])
        link_name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "superlink")])
        ca = (
            self._from(ca_name, ca_name, ca_key)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_usage(key_cert_sign=True, crl_sign=True), critical=True)
            .sign(ca_key, hashes.SHA256())
        )
        address = x509.IPAddress(ipaddress.ip_address(LOOPBACK))
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key())
        link = (
            self._from(link_name, ca_name, link_key)
            .add_extension(x509.SubjectAlternativeName([address]), critical=False)
            .add_extension(issuer, critical=False)
            .sign(ca_key, hashes.SHA256())
        )
        self.authority.write_bytes(ca.public_bytes(Encoding.PEM))
        self.certificate.write_bytes(link.public_bytes(Encoding.PEM))
        self.key.write_bytes(
            link_key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        )
        self.key.chmod(0o600)

    @staticmethod
    def _from(
        subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey
    ) -> x509.CertificateBuilder:
        now = datetime.now(UTC)
        identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(issuer)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(minutes=5))
            .not_valid_after(now + timedelta(days=1))
            .add_extension(identifier, critical=False)
        )


def _usage(**allowed: bool) -> x509.KeyUsage:
    names = (
        "digital_signature", "content_commitment", "key_encipherment", "data_encipherment",
        "key_agreement", "key_cert_sign", "crl_sign", "encipher_only", "decipher_only",
    )  # fmt: skip
    return x509.KeyUsage(**(dict.fromkeys(names, False) | allowed))


def node_key(folder: Path, name: str) -> tuple[Path, Path]:
    """A SuperNode's authentication key: private and public, P-384 in OpenSSH's format."""
    private, public = folder / f"{name}.key", folder / f"{name}.pub"
    key = ec.generate_private_key(ec.SECP384R1())
    private.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()))
    private.chmod(0o600)
    public.write_bytes(key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH))
    return private, public


class Deployment:
    """Each a process of its own; `stop` ends them all.

    With `certificates`, everything speaks TLS and only registered SuperNodes are let in. The
    SuperLink keeps its state in a file: after `stop_superlink`, `start` brings it back as it was.
    """

    def __init__(self, home: Path, certificates: Certificates | None = None) -> None:
        self.home, self.certificates = home, certificates
        self._ports = ExitStack()
        self.port = self._ports.enter_context(reserved_port())
        self._superlink: subprocess.Popen[bytes] | None = None
        self._processes: list[subprocess.Popen[bytes]] = []
        quiet = ("TELEMETRY_ENABLED=0", "DISABLE_UPDATE_CHECK=1")
        self.environment = {
            **os.environ,
            **dict(f"FLWR_{q}".split("=") for q in quiet),
            "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
            "FLWR_SUPEREXEC_TASK_POLL_INTERVAL": "0.2",
            "FLWR_HOME": str(home),
            "PATH": f"{BIN}{os.pathsep}{os.environ.get('PATH', '')}",
        }
        trust = (
            "insecure = true"
            if certificates is None
            else f'root-certificates = "{certificates.authority}"'
        )
        (home / "config.toml").write_text(
            '[superlink]\ndefault = "real"\n[superlink.real]\n'
            f'address = "{LOOPBACK}:{self.port}"\n{trust}\n'
        )

    def start(self) -> None:
        """Start the SuperLink, or start it again, and wait until it answers."""
        security, scheme, context = ["--insecure"], "http", None
        if self.certificates is not None:
            security = [
                "--ssl-ca-certfile", str(self.certificates.authority),
                "--ssl-certfile", str(self.certificates.certificate),
                "--ssl-keyfile", str(self.certificates.key),
                "--enable-supernode-auth",
            ]  # fmt: skip
            scheme = "https"
            context = ssl.create_default_context(cafile=str(self.certificates.authority))
        self._superlink = self._spawn(
            "superlink", "flower-superlink", *security, "--port", str(self.port),
            "--database", str(self.home / "superlink.db"),
        )  # fmt: skip
        url = f"{scheme}://{LOOPBACK}:{self.port}/health"

        def answers() -> bool:
            with suppress(OSError), urllib.request.urlopen(url, timeout=1, context=context):
                return True
            return False

        try:
            wait_for(answers, HANGS, "the SuperLink answers")
        except TimeoutError:
            raise RuntimeError(self.log("superlink")) from None

    def add_two_aggregators(
        self, app: Path, clients: Iterable[str], more: Mapping[str, str] = {}
    ) -> Path:
        """Start clients, some with more node config, and aggregators that a copy of an app pins.

        Return the file of the clients' roster.
        """
        keys = [AggregatorKey.generate() for _ in range(2)]
        who = {name: Identity.generate() for name in clients}
        roster = self.home / "roster.json"
        roster.write_text(Roster({name: one.public for name, one in who.items()}).to_json())
        (server,) = shutil.copytree(app, self.home / "app").glob("*/server_app.py")
        server.with_name("pinned.py").write_text(
            f"AGGREGATORS = {tuple(key.public for key in keys)!r}\n"
        )
        for name, identity in who.items():
            file = self.home / f"{name}.identity"
            file.touch(0o600)
            file.write_bytes(identity.to_bytes())
            own = f'drift-identity="{file}" drift-roster="{roster}" {more.get(name, "")}'
            self.add_node(name, own.strip())
        for i, key in enumerate(keys):
            key.save(file := self.home / f"aggregator-{i}.key")
            self.add_node(
                f"aggregator-{i}",
                f'drift-role="aggregator" drift-key="{file}" drift-roster="{roster}" '
                f'drift-memory="{self.home / f"memory-{i}"}"',
            )
        return roster

    def add_node(
        self, name: str, config: str, key: Path | None = None, *, superlink: int | None = None
    ) -> subprocess.Popen[bytes]:
        """Start a SuperNode, which may reach the SuperLink by another port."""
        security = ["--insecure"]
        if self.certificates is not None:
            security = ["--root-certificates", str(self.certificates.authority)]
            security += ["--auth-supernode-private-key", str(key)] if key else []
        port = self._ports.enter_context(reserved_port())
        node = self._spawn(
            name, "flower-supernode", *security,
            "--superlink", f"{LOOPBACK}:{superlink or self.port}",
            "--port", str(port), "--node-config", config,
        )  # fmt: skip
        self._processes.append(node)
        return node

    def register(self, public_keys: Iterable[Path]) -> None:
        """Let the SuperNodes with these keys in."""
        registering = [
            subprocess.Popen(
                [BIN / "flwr", "supernode", "register", str(public), "real"],
                env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            )
            for public in public_keys
        ]  # fmt: skip
        for process in registering:
            said, _ = process.communicate(timeout=HANGS)
            if process.returncode or b"registered successfully" not in said:
                raise RuntimeError(said.decode())

    def nodes(self) -> list[dict[str, str]]:
        """What ``flwr supernode list`` says."""
        done = subprocess.run(
            [BIN / "flwr", "supernode", "list", "real", "--format", "json"],
            env=self.environment, capture_output=True, text=True, timeout=HANGS, check=True,
        )  # fmt: skip
        nodes: list[dict[str, str]] = json.loads(done.stdout)["nodes"]
        return nodes

    def run(self, app: Path, *options: str, timeout: float = HANGS) -> str:
        """``flwr run`` an app to its end and return what it printed."""
        process = self.start_run(app, *options)
        process.wait(timeout)
        return self.log("run")

    def start_run(self, app: Path, *options: str) -> subprocess.Popen[bytes]:
        """``flwr run`` an app; what it prints is ``log("run")``."""
        run = self._spawn("run", "flwr", "run", str(app), "real", "--stream", *options)
        self._processes.append(run)
        return run

    def log(self, name: str) -> str:
        """What a process has printed so far, without colours."""
        text = (self.home / f"{name}.log").read_text(errors="replace")
        return re.sub(r"\x1b\[\d+m", "", text)

    def stop_one(self, process: subprocess.Popen[bytes]) -> None:
        """End a process in good order: a SuperNode says goodbye."""
        self._processes.remove(process)
        _end(process)

    def kill_one(self, process: subprocess.Popen[bytes]) -> None:
        """End a process and its children as a power cut does.

        Flower lets a killed node in again only once its last heartbeat is a minute old.
        """
        self._processes.remove(process)
        _sweep(process)
        process.wait()

    def stop_superlink(self) -> None:
        """End the SuperLink, in good order, and nothing else."""
        if self._superlink is not None:
            _end(self._superlink)
            self._superlink = None

    def stop(self) -> None:
        """End all: runs and nodes first, then the SuperLink that they say goodbye to."""
        with ThreadPoolExecutor() as pool:
            list(pool.map(_end, self._processes))
        self._processes.clear()
        self.stop_superlink()
        self._ports.close()

    def _spawn(self, name: str, program: str, *arguments: str) -> subprocess.Popen[bytes]:
        with (self.home / f"{name}.log").open("wb") as log:
            return subprocess.Popen(
                [BIN / program, *arguments], env=self.environment, stdout=log, stderr=log,
                start_new_session=True,
            )  # fmt: skip


@contextmanager
def deployed(
    home: Path, certificates: Certificates | None = None, **environment: str
) -> Iterator[Deployment]:
    """A deployment whose SuperLink answers; all its processes end with it."""
    running = Deployment(home, certificates)
    running.environment |= environment
    try:
        running.start()
        yield running
    finally:
        running.stop()
