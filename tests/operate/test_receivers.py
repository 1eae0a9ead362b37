"""Notices as services take them: forms, secrets, deadlines, and texts that are no markup."""

from __future__ import annotations

import json
import smtplib
import socket
import sys
import threading
from contextlib import contextmanager

import pytest

from flwr_kld.operate.alerts import Alerts
from flwr_kld.operate.notices import About, Notice, pagerduty, slack, teams
from flwr_kld.operate.receivers import Mail

EVIL = "<!channel> *b* [x](https://evil.example) @here \r\nBcc: all@example.org"
NOTICE = Notice(About.DRIFT, "fleet", False, EVIL, (EVIL, "y" * 5000), "https://drift.example/")
OVER = Notice(About.DRIFT, "fleet", True, "over")


def texts(value: object, key: str = "") -> list[tuple[str, str]]:
    """All texts of a message, with the names of their fields."""
    if isinstance(value, dict):
        return [pair for name, part in value.items() for pair in texts(part, name)]
    if isinstance(value, list):
        return [pair for part in value for pair in texts(part, key)]
    return [(key, value)] if isinstance(value, str) else []


def test_slack_takes_plain_texts_alone():
    message = slack(NOTICE)
    assert "<" not in message["text"]
    types = [text for key, text in texts(message) if key == "type"]
    assert "mrkdwn" not in types
    assert all(len(text) <= 2000 for _, text in texts(message))
    assert message["blocks"][1]["elements"][0]["url"] == NOTICE.link
    assert slack(OVER)["text"] == "✓ over"


def test_teams_takes_runs_without_markup():
    (content,) = teams(NOTICE)["attachments"]
    assert {block["type"] for block in content["content"]["body"]} == {"RichTextBlock"}
    assert content["content"]["actions"][0]["url"] == NOTICE.link


def test_pagerduty_resolves_what_it_triggered():
    event = pagerduty("K3Y")
    assert [event(notice)["event_action"] for notice in (NOTICE, OVER)] == ["trigger", "resolve"]
    assert event(NOTICE)["dedup_key"] == event(OVER)["dedup_key"] == "flwr-kld/fleet/drift"
    assert event(NOTICE)["payload"]["severity"] == "error"
    assert len(event(NOTICE)["payload"]["summary"]) <= 1024


FILE = """
link = "https://drift.example.org"
dropouts = 0.25
quiet = { begin = "22:00", end = "07:00", zone = "Europe/Berlin" }
[[to]]
name = "chat"
kind = "slack"
url_variable = "CHAT_URL"
[[to]]
name = "program"
kind = "command"
argv = ["PYTHON", "-c", "import sys; sys.exit(len(sys.stdin.read()) < 50)"]
about = ["silence"]
[[to]]
name = "pager"
kind = "pagerduty"
secret_variable = "PAGER_KEY"
url = "PAGER_URL"
[[to]]
name = "hook"
kind = "webhook"
url_variable = "CHAT_URL"
secret_variable = "PAGER_KEY"
"""


@pytest.fixture
def file(tmp_path, monkeypatch, receiver):
    monkeypatch.setenv("CHAT_URL", receiver.url)
    monkeypatch.setenv("PAGER_KEY", "K3Y")
    path = tmp_path / "alerts.toml"
    path.write_text(FILE.replace("PYTHON", sys.executable).replace("PAGER_URL", receiver.url))
    return path


def test_a_file_names_everybody_and_each_gets_the_notice_in_its_form(file, receiver):
    alerts = Alerts.load(file)
    assert alerts.rules.dropouts == 0.25
    assert alerts.quiet.zone.key == "Europe/Berlin"
    assert [one.name for one in alerts.addressees] == ["chat", "program", "pager", "hook"]
    assert alerts.addressees[1].about == {About.SILENCE}
    for one in alerts.addressees:
        assert one.receiver.take(NOTICE).delivered, one
    bodies = [json.loads(body) for _, _, body in receiver.requests]
    assert [next(iter(body)) for body in bodies] == ["text", "routing_key", "about"]
    assert "X-Flwr-Kld-Signature-256" in receiver.requests[2][1]
    keys = {headers["Idempotency-Key"] for _, headers, _ in receiver.requests}
    assert keys == {"flwr-kld/fleet/drift/open"}
    assert "K3Y" not in repr(alerts.addressees[3])


def test_a_population_s_name_cannot_add_a_header(file, receiver):
    hook = Alerts.load(file).addressees[3].receiver
    assert hook.take(Notice(About.DRIFT, "flötte\r\nX-Evil: 1", False, "t")).delivered
    ((_, headers, _),) = receiver.requests
    assert "X-Evil" not in headers
    assert headers["Idempotency-Key"] == "flwr-kld/fl?tte??X-Evil: 1/drift/open"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (('kind = "slack"', 'kind = "fax"'), "to.kind is out of range"),
        (('name = "pager"', 'name = "chat"'), "two recipients share a name"),
        (("dropouts = 0.25", "dropouts = 2"), "dropouts"),
        (("dropouts = 0.25", "drop = 2"), "drop"),
        (("Europe/Berlin", "Europe/Atlantis"), "no time zone 'Europe/Atlantis'"),
        (('link = "https', 'link = "javascript'), "link must be the address of a page"),
        (('"CHAT_URL"', '"UNSET_URL"'), "set the environment variable UNSET_URL"),
        (('url_variable = "CHAT_URL"', ""), "url_variable must name the environment variable"),
        (("[[to]]", "[[to"), "is not a valid TOML file"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused(file, change, words):
    file.write_text(file.read_text().replace(*change))
    with pytest.raises(ValueError, match=words.replace("'", ".")):
        Alerts.load(file)


@contextmanager
def mail_server(talk):
    """Listen on this machine, and talk to whoever comes, in a thread."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=lambda: talk(listening.accept()[0]))
        thread.start()
        yield listening.getsockname()[1]
        thread.join()


def test_a_mail_has_no_headers_of_others():
    sent = []

    def talk(connection):
        with connection, connection.makefile("rwb", buffering=0) as file:
            file.write(b"220 ready\r\n")
            in_data = False
            for line in file:
                sent.append(line)
                if in_data:
                    in_data = line != b".\r\n"
                    file.write(b"" if in_data else b"250 taken\r\n")
                elif line.lower().startswith(b"data"):
                    in_data = bool(file.write(b"354 go on\r\n"))
                else:
                    file.write(b"221 bye\r\n" if line.startswith(b"QUIT") else b"250 fine\r\n")

    with mail_server(talk) as port:
        mail = Mail("127.0.0.1", "kld@example.org", ("ops@example.org",), port)
        assert mail.take(NOTICE).delivered
    asked = [
        line.lower() for line in sent if line.lower().startswith(b"rcpt")
    ]  # cases differ by Python
    assert asked == [b"rcpt to:<ops@example.org>\r\n"]
    head = b"".join(sent).split(b"\r\n\r\n")[0]
    assert b"\r\nBcc:" not in head


def test_a_mail_server_that_says_nothing_has_its_deadline():
    gone = threading.Event()

    def talk(connection):
        with connection:
            gone.wait(60)

    with mail_server(talk) as port:
        mail = Mail("127.0.0.1", "kld@example.org", ("ops@example.org",), port, deadline=0.2)
        delivery = mail.take(NOTICE)
        gone.set()
    assert not delivery.delivered


def test_a_mail_server_elsewhere_must_encrypt(monkeypatch):
    class Plain:
        def __init__(self, *args, **options):
            pass

        def __enter__(self):
            return self

        def __exit__(self, *args):
            pass

        def starttls(self, context):
            raise smtplib.SMTPNotSupportedError("STARTTLS")

        def send_message(self, message):
            pytest.fail("sent in the clear")

    monkeypatch.setattr(smtplib, "SMTP", Plain)
    delivery = Mail("mail.example.org", "a@example.org", ("b@example.org",)).take(NOTICE)
    assert (delivery.delivered, delivery.detail) == (False, "SMTPNotSupportedError")
