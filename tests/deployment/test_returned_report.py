"""Is it this node? Three SuperNodes, one of them broken, ask about the report that came back."""

import json
import re
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from socketserver import BaseRequestHandler, ThreadingTCPServer
from threading import Thread

import pandas as pd
import pytest
from flower_deployment import BIN, LOOPBACK, Deployment, deployed
from flower_project import pyproject
from patience import HANGS
from sites import BROKEN, SITES, carried, private_numbers, reference, site

from flwr_kld.clients import AggregatorKey
from flwr_kld.report.node_comparison import to_return
from flwr_kld.report.report import Report
from flwr_kld.trust.envelopes import ANSWER, NUMBERS

CLIENT = """
from pathlib import Path

from flwr.clientapp import ClientApp

from flwr_kld import Reference
from flwr_kld.clients import aggregate_drift_checks, answer_drift_queries, node_records

AGGREGATOR = {key!r}
reference = Reference.load(Path(__file__).with_name("reference.json"))
app = ClientApp()
answer_drift_queries(app, node_records, reference.domain, aggregator=AGGREGATOR)
aggregate_drift_checks(app)
"""
SERVER = """
import json
import time

from flwr.serverapp import ServerApp

from flwr_kld.strategies import KLDrift, TrustedAggregator
from returning.client_app import AGGREGATOR, reference

app = ServerApp()


@app.main()
def main(grid, context):
    while len(list(grid.get_node_ids())) < 4:
        time.sleep(0.2)
    trust = TrustedAggregator(epsilon=3.0, aggregator=AGGREGATOR)
    monitor = KLDrift(reference, trust, threshold=0.05, timeout=90.0)
    report = monitor.check(grid)
    print("RETURNED", monitor.return_report(grid, report), json.dumps(report.to_dict()))
"""
_START = 1000
"""Bytes of a report that are in one piece, however a transport frames it."""


@contextmanager
def relayed(port: int) -> Iterator[tuple[int, list[bytearray], list[bytearray]]]:
    """A port that leads to another; and what passes there and back, by connection."""
    there, back = list[bytearray](), list[bytearray]()

    def copy(kept: list[bytearray], source: socket.socket, target: socket.socket) -> None:
        kept.append(passed := bytearray())
        with suppress(OSError):
            while data := source.recv(1 << 16):
                passed += data
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)

    class Handler(BaseRequestHandler):
        def handle(self) -> None:
            with socket.create_connection((LOOPBACK, port)) as other:
                answers = Thread(target=copy, args=(back, other, self.request))
                answers.start()
                copy(there, self.request, other)
                answers.join()

    class Server(ThreadingTCPServer):
        daemon_threads = True

    with Server((LOOPBACK, 0), Handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_address[1], there, back
        server.shutdown()


@pytest.fixture
def deployment(tmp_path: Path) -> Iterator[Deployment]:
    with deployed(tmp_path) as running:
        yield running


def asked(folder: Path, *out: str) -> subprocess.CompletedProcess[str]:
    """What a node's operator types on the node."""
    own = ["--data", folder / "rows.csv", "--reference", folder.parent / "reference.json"]
    command = [BIN / "flwr-kld", "report", *out, "--mine", folder / "reports", *own]
    return subprocess.run(command, capture_output=True, text=True, cwd=folder, timeout=HANGS)


def write_app(app: Path, key: AggregatorKey) -> None:
    package = app / "returning"
    package.mkdir(parents=True)
    (app / "pyproject.toml").write_text(
        pyproject("returning", "returning.server_app:app", "returning.client_app:app")
    )
    (package / "__init__.py").touch()
    (package / "client_app.py").write_text(CLIENT.format(key=key.public))
    (package / "server_app.py").write_text(SERVER)
    reference().save(package / "reference.json")
    reference().save(app.parent / "reference.json")


@pytest.mark.slow  # in process: cli/test_mine.py
def test_the_broken_site_learns_it_and_no_message_carries_why(
    deployment: Deployment, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    began, key = time.monotonic(), AggregatorKey.generate()
    write_app(tmp_path / "app", key)
    key.save(tmp_path / "aggregator.key")
    there, back = dict[int, list[bytearray]](), dict[int, list[bytearray]]()
    with ExitStack() as relays:
        for place in range(SITES + 1):
            folder = tmp_path / str(place)
            (folder / "reports").mkdir(parents=True)
            config = f'drift-reports="{folder / "reports"}" '
            if place < SITES:
                pd.DataFrame(site(place)).to_csv(folder / "rows.csv", index=False)
                config += f'drift-records="{folder / "rows.csv"}"'
            else:
                config += f'drift-role="aggregator" drift-key="{tmp_path / "aggregator.key"}"'
            port, there[place], back[place] = relays.enter_context(relayed(deployment.port))
            deployment.add_node(f"node{place}", config, superlink=port)
        printed = deployment.run(tmp_path / "app")
        (found,) = re.findall(r"RETURNED (\d+ \{.*\})", printed) or [printed[-3000:]]
        returned, _, text = found.partition(" ")
        report = Report.from_dict(json.loads(text))
        done = [asked(tmp_path / str(place)) for place in range(SITES)]
        page = asked(tmp_path / str(BROKEN), "mine.html")
        deployment.stop()
    assert returned == str(SITES)
    assert report.cohort.survivors == SITES
    assert [name for name, one in report.columns.items() if one.drifted] == ["height"]
    assert [one.returncode for one in (*done, page)] == [0, 1, 0, 1], done
    first = [" ".join(one.stdout.partition("Check of")[0].split()) for one in done]
    sentence = "Yes: height. 100 % of this node's records are below 145, "
    assert first[BROKEN].startswith(sentence)
    written = (tmp_path / str(BROKEN) / "mine.html").read_text()
    assert sentence.replace("'", "&#39;") in written
    for place in {*range(SITES)} - {BROKEN}:
        assert first[place].startswith("No: height ")
    assert not list((tmp_path / str(SITES) / "reports").iterdir())  # the aggregator's
    captured = 0
    for place in range(SITES + 1):
        sent, came = ([*map(bytes, one[place])] for one in (there, back))
        captured += sum(map(len, sent + came))
        if place < SITES:  # the search sees what went out, and what came
            assert any(ANSWER.encode() in one and NUMBERS.encode() in one for one in sent)
            start = to_return(report).to_json().encode()[:_START]
            assert any(start in one for one in came)
        for owner in range(SITES):
            assert not carried(private_numbers(site(owner), report), sent + came)
    with capsys.disabled():
        seconds = time.monotonic() - began
        print(f"\nis it this node, on {SITES} nodes: {seconds:.0f} s, {captured:,} bytes searched")
