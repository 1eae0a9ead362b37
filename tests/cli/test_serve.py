"""``flwr-kld serve`` as a process: where it listens, what it refuses, and how it ends."""

from __future__ import annotations

import logging
import re
import signal
import subprocess
import sys

import pytest
import requests
from patience import HANGS

SECRET = "0123456789abcdef"


def test_it_serves_this_machine_until_it_is_stopped(url, tmp_path):
    secret = tmp_path / "token"
    secret.write_text(f"{SECRET}\n")
    code = "from flwr_kld.cli.app import main; main()"
    process = subprocess.Popen(
        [sys.executable, "-c", code, "serve", "--ledger", url, "--port", "0",
         "--token-file", secret],
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        line = process.stderr.readline()
        (address,) = re.findall(r"http://127\.0\.0\.1:\d+/", line)
        assert requests.get(address, timeout=HANGS).status_code == 401
        answer = requests.get(address, auth=("", SECRET), timeout=HANGS)
        assert answer.status_code == 200
        assert "default" in answer.text
        assert "server" not in answer.headers
        process.send_signal(signal.SIGTERM)
        assert process.wait(HANGS) == 0
        assert process.stderr.read() == "stopped\n"
    finally:
        process.kill()
        process.wait()


def test_a_token_file_that_is_no_text_is_named(cli, url, tmp_path):
    file = tmp_path / "token"
    file.write_bytes(b"\xff\xfe" + SECRET.encode("utf-16-le"))
    done = cli("serve", "--ledger", url, "--token-file", file)
    assert done.exit_code == 4
    assert str(file) in "".join(done.stderr.split())


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--address", "0.0.0.0"], "a token is required: give --token-file"),
        (["--address", "::"], "a token is required"),
        (["--certificate", __file__], "both --certificate and --key"),
        (["--certificate", __file__, "--key", "no.pem"], "no.pem"),
        (["--certificate", __file__, "--key", __file__], "are not a certificate chain"),
        (["--ledger", "sqlite:///none.db"], "there is no ledger none.db"),
        (["--token-file", "none"], "there is no file none"),
    ],
)
def test_what_cannot_be_served_safely_is_refused(cli, url, options, words):
    done = cli("serve", "--ledger", url, *options)
    assert done.exit_code == 4
    assert words in " ".join(done.stderr.split())


def test_what_is_refused_leaves_other_logs_of_its_process_open(cli, url):
    """Uvicorn's own settings close every handler that there is, and some close their streams."""
    closed = []

    class Own(logging.Handler):
        def close(self):
            closed.append(self)
            super().close()

    own = Own()
    assert cli("serve", "--ledger", url, "--certificate", __file__, "--key", __file__).exit_code
    assert not closed
    own.close()


def test_without_the_extra_it_is_refused_before_anybody_asks(cli, url, without):
    without("jinja2")
    done = cli("serve", "--ledger", url)
    assert done.exit_code == 4
    assert "pip install 'flwr-kld[plots]'" in " ".join(done.stderr.split())
