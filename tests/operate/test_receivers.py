"""Receivers as an alerts file names them: secrets, deadlines, and texts that are no markup."""

from __future__ import annotations

import json
import logging
import socket
import sys

import pytest

from flwr_kld.operate.alerts import Alerts
from flwr_kld.operate.receivers import About, AppriseService, Command, Delivery, Notice

EVIL = "<!channel> *b* [x](https://evil.example) @here \r\nBcc: all@example.org"
NOTICE = Notice(About.DRIFT, "fleet", False, EVIL, (EVIL, "y" * 5000), "https://drift.example/")
OVER = Notice(About.DRIFT, "fleet", True, "over")

FILE = """
link = "https://drift.example.org"
dropouts = 0.25
[[to]]
name = "chat"
url_variable = "CHAT_URL"
[[to]]
name = "program"
command = ["PYTHON", "-c", "import sys; sys.exit(len(sys.stdin.read()) < 50)"]
about = ["silence"]
"""


@pytest.fixture
def chat(receiver):
    return receiver.url.replace("http://127.0.0.1", "json://localhost")


@pytest.fixture
def file(tmp_path, monkeypatch, receiver, chat):
    monkeypatch.setenv("CHAT_URL", chat)
    path = tmp_path / "alerts.toml"
    path.write_text(FILE.replace("PYTHON", sys.executable))
    return path


def test_a_file_names_everybody_and_each_gets_the_notice_in_its_form(file, receiver):
    alerts = Alerts.load(file)
    assert alerts.rules.dropouts == 0.25
    assert [one.name for one in alerts.recipients] == ["chat", "program"]
    assert alerts.recipients[1].about == {About.SILENCE}
    for one in alerts.recipients:
        assert one.receiver.take(NOTICE).delivered, one
    ((_, _, chat),) = receiver.requests
    assert json.loads(chat)["type"] == "warning"
    assert isinstance(alerts.recipients[1].receiver, Command)
    assert "T0K3N" not in repr(alerts)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (('name = "program"', 'name = "chat"'), "two recipients share a name"),
        (("dropouts = 0.25", "dropouts = 2"), "dropouts"),
        (("dropouts = 0.25", "drop = 2"), "drop"),
        (('link = "https', 'link = "javascript'), "link must be the address of a page"),
        (('"CHAT_URL"', '"UNSET_URL"'), "chat: set the environment variable UNSET_URL"),
        (('url_variable = "CHAT_URL"', ""), "chat: give one of url_variable, url and command"),
        (('url_variable = "CHAT_URL"', 'url = "ftp://x"'), "chat: Apprise cannot read the URL"),
        (('url_variable = "CHAT_URL"', "url = 5"), "url"),
        (("command =", "args ="), "args"),
        (("about =", "deadline = 0\nabout ="), "program: deadline"),
        (("[[to]]", "[[to"), "is not a valid TOML file"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused(file, change, words):
    file.write_text(file.read_text().replace(*change))
    with pytest.raises(ValueError, match=words):
        Alerts.load(file)


def test_apprise_tells_begin_and_end_in_texts_without_markup(chat, receiver):
    service = AppriseService(chat)
    assert service.take(NOTICE) == Delivery("apprise json", True, "accepted")
    assert service.take(OVER).delivered
    begin, end = (json.loads(body) for _, _, body in receiver.requests)
    assert (begin["type"], end["type"]) == ("warning", "success")
    for text in (begin["title"], begin["message"]):
        assert not set("<>[]@`*") & set(text)
    assert "\n" not in begin["title"]
    assert begin["message"].endswith("\nhttps://drift.example/")
    assert (end["title"], end["message"]) == ("flwr-kld: over", "over")


def test_what_apprise_says_of_a_failure_holds_no_secret(chat, receiver, caplog):
    receiver.statuses = [500]
    with caplog.at_level(logging.DEBUG):
        service = AppriseService(chat)
        delivery = service.take(NOTICE)
    assert not delivery.delivered
    assert "Apprise's own command" in delivery.detail
    said = [record for record in caplog.records if record.name.startswith("apprise")]
    assert not [one for one in said if one.levelno > logging.DEBUG or "T0K3N" in one.getMessage()]
    assert "T0K3N" not in repr(service) + repr(delivery)


def test_apprise_does_not_follow_a_redirect(chat, receiver):
    receiver.statuses, receiver.location = [307], receiver.url
    assert not AppriseService(chat).take(NOTICE).delivered
    assert len(receiver.requests) == 1


def test_a_service_that_says_nothing_has_its_deadline():
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        delivery = AppriseService(f"json://127.0.0.1:{port}/", deadline=0.2).take(NOTICE)
    assert (delivery.delivered, delivery.detail) == (False, "no answer within 0.2 s")


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("nonsense://x/T0K3N", "Apprise cannot read the URL, of scheme 'nonsense'"),
        ("json://hooks.example.org/T0K3N", "json:// is not encrypted"),
        ("mailto://user:T0K3N@mail.example.org", "mailto:// is not encrypted"),
        ("", "url must be a text"),
    ],
)
def test_a_url_that_cannot_serve_is_refused_without_its_secrets(url, words):
    with pytest.raises(ValueError, match=words) as error:
        AppriseService(url)
    assert "T0K3N" not in str(error.value)


def test_encrypted_services_may_be_anywhere():
    for url in (
        "jsons://hooks.example.org/x",
        "mailtos://user:pa55@mail.example.org?to=ops@example.org",
        "slack://T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ",
        "pagerduty://A1BRTD4JD@TIiajkdnlazkcOXrIdevi7F/kld/drift?action=map&dedup=drift",
    ):
        AppriseService(url)
