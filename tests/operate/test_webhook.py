"""Webhooks against a receiver on this machine."""

import hashlib
import hmac
import itertools
import json
import socket
import threading
from contextlib import suppress

import pytest
from operate.conftest import PATH

from flwr_kld.operate.receivers import SIGNATURE_HEADER, About, Notice, Webhook

NOTICE = Notice(About.DRIFT, "default", False, "Drift")
KEY = "flwr-kld/default/drift/open"


def test_the_body_arrives_whole(receiver):
    delivery = Webhook(receiver.url).take(NOTICE)
    assert (delivery.delivered, delivery.detail, delivery.attempts) == (True, "status 200", 1)
    ((path, headers, body),) = receiver.requests
    assert path == PATH
    assert headers["Content-Type"] == "application/json"
    assert headers["Idempotency-Key"] == KEY
    assert SIGNATURE_HEADER not in headers
    assert json.loads(body) == NOTICE.to_dict()


def test_the_signature_is_of_the_body_under_the_secret(receiver, monkeypatch):
    monkeypatch.setenv("HOOK_SECRET", "s3cret")
    assert Webhook(receiver.url, secret_variable="HOOK_SECRET").take(NOTICE).delivered
    ((_, headers, body),) = receiver.requests
    mac = hmac.new(b"s3cret", body, hashlib.sha256).hexdigest()
    assert headers[SIGNATURE_HEADER] == f"sha256={mac}"


def test_busy_receivers_are_tried_again_with_the_same_key(receiver):
    receiver.statuses = [503, 429, 204]
    delivery = Webhook(receiver.url, pause=0.0).take(NOTICE)
    assert (delivery.delivered, delivery.detail, delivery.attempts) == (True, "status 204", 3)
    assert {headers["Idempotency-Key"] for _, headers, _ in receiver.requests} == {KEY}


def test_pauses_double_and_attempts_end(receiver, monkeypatch):
    pauses = []
    monkeypatch.setattr("flwr_kld.operate.receivers.time.sleep", pauses.append)
    receiver.statuses = [500]
    delivery = Webhook(receiver.url, attempts=4, pause=0.5).take(NOTICE)
    assert (delivery.delivered, delivery.detail, delivery.attempts) == (False, "status 500", 4)
    assert pauses == [0.5, 1.0, 2.0]
    assert len(receiver.requests) == 4


@pytest.mark.parametrize("status", [400, 401, 404, 410])
def test_a_refusal_is_final(receiver, status):
    receiver.statuses = [status]
    delivery = Webhook(receiver.url, pause=0.0).take(NOTICE)
    assert (delivery.delivered, delivery.attempts) == (False, 1)


def test_redirects_are_not_followed(receiver):
    receiver.statuses, receiver.location = [307], "http://127.0.0.1:1/elsewhere"
    delivery = Webhook(receiver.url, pause=0.0).take(NOTICE)
    assert (delivery.delivered, delivery.detail, delivery.attempts) == (False, "status 307", 1)


def test_nobody_there_is_said_without_the_secret_path():
    hook = Webhook("http://127.0.0.1:1/hooks/T0K3N", attempts=2, pause=0.0)
    delivery = hook.take(NOTICE)
    assert not delivery.delivered
    assert delivery.attempts == 2
    assert delivery.detail == "no answer (ConnectionError)"
    for text in (repr(hook), hook.name, repr(delivery)):
        assert "T0K3N" not in text


def test_https_is_the_rule():
    assert Webhook("https://hooks.example.org/x").name == "webhook https://hooks.example.org"
    for url in ("http://localhost:8080/x", "http://127.0.0.9/x", "http://[::1]:80/"):
        Webhook(url)
    for url in (
        "http://hooks.example.org/x", "http://localhost.example.org/", "http://10.0.0.1/",
        "ftp://localhost/", "hooks.example.org", "https:///x", "file:///etc/passwd",
    ):  # fmt: skip
        with pytest.raises(ValueError, match="starts with https://"):
            Webhook(url)


@pytest.mark.parametrize(
    "place",
    ["h:x", "h:99999", "h:-1", "h:0", "a..b", "exa mple.org", "*.example.org", "a" * 64 + ".org"],
)
def test_a_host_or_port_that_cannot_be_is_known_at_once(place):
    with pytest.raises(ValueError, match="is not a host") as error:
        Webhook(f"https://user:pa55@{place}{PATH}")
    assert repr(place) in str(error.value)
    assert "T0K3N" not in str(error.value)
    assert "pa55" not in str(error.value)


@pytest.fixture
def drip():
    """A receiver that sends a byte of its answer now and then, and no end of the first line."""
    over = threading.Event()
    listening = socket.create_server(("127.0.0.1", 0))

    def answer() -> None:
        connection, _ = listening.accept()
        with connection, suppress(OSError):
            for byte in itertools.chain(b"HTTP/1.1 200 ", itertools.repeat(ord("."), 1000)):
                if over.wait(0.01):
                    return
                connection.sendall(bytes([byte]))

    thread = threading.Thread(target=answer)
    thread.start()
    yield f"http://127.0.0.1:{listening.getsockname()[1]}/"
    over.set()
    thread.join()
    listening.close()


def test_a_receiver_that_drips_is_left_at_the_deadline(drip):
    delivery = Webhook(drip, deadline=0.3).take(NOTICE)
    assert (delivery.delivered, delivery.detail) == (False, "no answer within 0.3 s")
    assert delivery.attempts == 1


def test_no_attempt_begins_after_the_deadline(receiver):
    receiver.statuses = [503]
    delivery = Webhook(receiver.url, pause=3000.0, deadline=600.0).take(NOTICE)
    assert (delivery.delivered, delivery.detail, delivery.attempts) == (False, "status 503", 1)


def test_whatever_breaks_a_request_is_named_by_type(monkeypatch):
    def broken(*args: object, **options: object) -> None:
        raise RuntimeError("https://example.org/T0K3N")

    monkeypatch.setattr("flwr_kld.operate.receivers.requests.Session.post", broken)
    delivery = Webhook("https://example.org", attempts=1).take(NOTICE)
    assert delivery.detail == "no answer (RuntimeError)"


def test_settings_are_checked_at_once(monkeypatch):
    monkeypatch.delenv("HOOK_SECRET", raising=False)
    for value in (None, ""):
        if value is not None:
            monkeypatch.setenv("HOOK_SECRET", value)
        with pytest.raises(ValueError, match="set the environment variable HOOK_SECRET"):
            Webhook("https://example.org", secret_variable="HOOK_SECRET")
    nan, endless = float("nan"), float("inf")
    for wrong in (
        {"timeout": 0.0}, {"timeout": endless}, {"attempts": 0}, {"attempts": nan},
        {"pause": -1.0}, {"pause": nan}, {"deadline": 0.0}, {"deadline": nan},
        {"deadline": endless},
    ):  # fmt: skip
        with pytest.raises(ValueError, match=r"must be a (whole )?number"):
            Webhook("https://example.org", **wrong)


def test_a_secret_that_has_gone_sends_nothing_unsigned(receiver, monkeypatch):
    monkeypatch.setenv("HOOK_SECRET", "s3cret")
    hook = Webhook(receiver.url, secret_variable="HOOK_SECRET")
    monkeypatch.delenv("HOOK_SECRET")
    with pytest.raises(ValueError, match="set the environment variable HOOK_SECRET"):
        hook.take(NOTICE)
    assert receiver.requests == []


def test_what_stays_on_this_machine_passes_no_proxy(receiver, monkeypatch):
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")  # nobody answers there
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    assert Webhook(receiver.url).take(NOTICE).delivered
