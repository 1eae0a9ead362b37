"""What the live page must bear: requests that lie, ledgers that fail, names that are markup."""

import re
import shutil
import sqlite3
from base64 import b64encode
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import quote

import pytest
from ledger.books import tables
from serve.conftest import COST, EVIL, Visitor, door_of

from flwr_kld.common.errors import LedgerUnavailable
from flwr_kld.ledger import Budget, Charge, Ledger
from flwr_kld.ledger.read_only import LedgerView
from flwr_kld.ledger.schema import ledger_version
from flwr_kld.serve.door import Door

FLEET, EVILS = "/checks?population=fleet", f"/checks?population={quote(EVIL)}"
PAGES = (
    "/", FLEET, EVILS, "/checks?population=empty", "/check?number=3", "/check?number=4",
    "/description?number=10",
    f"/rounds?population=fleet&predictor={quote(EVIL)}", f"{FLEET}&before=3",
)  # fmt: skip
OURS = re.compile(
    r"|data:(,|image/svg\+xml;base64,.*)|\./|#\w*|(checks|check|description|rounds)\?.*"
    r"|style\.css|live\.js"
)
"""Addresses that a page may name."""
TOKEN = "0123456789abcdef-0123456789abcdef"


class Tags(HTMLParser):
    """What markup a page has."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))


@pytest.mark.parametrize("page", PAGES)
def test_no_text_of_the_ledger_is_markup_and_nothing_inline_runs(visitor, page):
    answer = visitor.get(page)
    assert answer.status == 200
    tags = Tags(answer.text).found
    assert [attrs for tag, attrs in tags if tag == "script"] == [{"src": "live.js", "defer": None}]
    assert "alert" not in "".join(tag for tag, _ in tags)
    for _, attrs in tags:
        assert not [name for name in attrs if name == "style" or name.startswith("on")]
        for name in ("href", "src", "srcset"):
            target = attrs.get(name) or ""
            assert OURS.fullmatch(target), target


def test_every_link_of_every_page_leads_somewhere(visitor):
    for page in PAGES:
        for tag, attrs in Tags(visitor.get(page).text).found:
            target = attrs.get("href") or "" if tag == "a" else ""
            if target and not target.startswith("#"):
                assert visitor.get("/" + target.removeprefix("./")).status == 200, target


def test_the_pages_say_what_the_ledger_says(visitor):
    overview = visitor.get("/").text
    assert overview.count("<h2>") == 3
    assert "0.9" in overview  # left of a budget
    fleet = visitor.get(FLEET).text
    marks = re.findall(r'<li><a class="([\w-]+)"', fleet)
    assert marks == ["no-drift", "inconclusive", "drift", "failed", "not-ended"]
    assert re.search(r"check night 1\s<td>0\.01</tr>", fleet)
    assert "age &lt;years&gt;" in fleet
    one = visitor.get("/check?number=3").text
    assert "ALARM: " in one
    assert "What the ledger charged" in one
    assert re.search(r"discrete-laplace<td>0\.01<td>0\.01<td>0\s", one)
    assert "everybody" in one
    assert "What is protected, from whom" in one
    assert "No check yet" in visitor.get("/checks?population=empty").text


def test_a_description_is_shown_from_beside_the_checks(visitor):
    assert "description?number=10" in visitor.get(EVILS).text
    shown = visitor.get("/description?number=10").text
    assert "minutes (min)" in shown
    assert "29 (18 to 31)" in shown
    assert "Each description protects" in shown
    assert "data:image/svg+xml" in shown


@pytest.mark.parametrize(
    "target",
    [
        "/../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "/style.css/../page.html.j2", "/static/x",
        "//evil.example/", "/checks/", "/docs", "/openapi.json", "/page.html.j2", "/drift.db",
        "/check?number=10000000", "/check?number=7", "/check", "/checks?population=none",
        "/rounds?population=fleet&predictor=none", "/plot.svg",
        "/description?number=3", "/description",
    ],
)  # fmt: skip
def test_what_is_not_there_is_not_there(visitor, target):
    answer = visitor.get(target)
    assert answer.status == 404
    assert b"root:" not in answer.body
    assert "location" not in answer.headers


@pytest.mark.parametrize(
    "query",
    [
        "", "population=fleet&population=fleet", "population=fleet&before=-1",
        "population=fleet&before=1e3", f"population=fleet&before={'9' * 40}",
        "population=fleet&before=%D9%A3", "population=fleet&before=",
    ],
)  # fmt: skip
def test_what_is_no_question_is_refused(visitor, query):
    answer = visitor.get(f"/checks?{query}")
    assert answer.status == 400
    assert "Traceback" not in answer.text


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "BREW"])
def test_nothing_but_reading_is_allowed(visitor, method):
    answer = visitor.get("/", method=method)
    assert answer.status == 405
    assert answer.headers["allow"] == "GET, HEAD"


@pytest.mark.parametrize("target", ["/", "/nowhere", "/checks", "/style.css", "/stamp"])
def test_every_answer_is_guarded(visitor, target):
    headers = visitor.get(target).headers
    policy = headers["content-security-policy"]
    assert policy.startswith("default-src 'none';")
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["cache-control"] == "no-store"
    assert "server" not in headers


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost", 200), ("127.0.0.1:8600", 200), ("[::1]:8600", 200), ("LOCALHOST:1", 200),
        ("evil.example", 421), ("localhost.evil.example:8600", 421), ("127.0.0.1.nip.io", 421),
        ("", 421), (None, 421), ("[::1", 421), ("user@evil.example", 421), ("10.0.0.7:8600", 421),
    ],
)  # fmt: skip
def test_without_a_token_only_this_machine_s_names_are_served(visitor, host, status):
    assert visitor.get("/", host=host).status == status


def basic(password: str, name: str = "anybody") -> str:
    return "Basic " + b64encode(f"{name}:{password}".encode()).decode()


@pytest.mark.parametrize(
    ("authorization", "status"),
    [
        (basic(TOKEN), 200), (basic(TOKEN, ""), 200), (basic(TOKEN).replace("Basic", "basic"), 200),
        (None, 401), ("", 401), (TOKEN, 401), (basic(""), 401),
        (basic(TOKEN[:-1]), 401), (basic(TOKEN + "x"), 401), (basic(TOKEN.upper()), 401),
        (f"Bearer {TOKEN}", 401), ("Basic ÿÿ", 401), ("Basic !!!!", 401), ("Bearer", 401),
        (f"Digest {TOKEN}", 401),
    ],
)  # fmt: skip
def test_a_token_is_demanded_and_no_other_will_do(full_ledger, authorization, status):
    visitor = Visitor(door_of(full_ledger, TOKEN))
    headers = {} if authorization is None else {"authorization": authorization}
    for target in ("/", "/style.css", "/nowhere"):
        answer = visitor.get(target, host="drift.example.org", **headers)
        assert (answer.status == 401) == (status == 401)
        assert (status == 401) == ("www-authenticate" in answer.headers)
        assert TOKEN not in answer.text


def test_a_token_in_the_address_is_none(full_ledger):
    assert Visitor(door_of(full_ledger, TOKEN)).get(f"/?token={TOKEN}").status == 401


def test_a_short_token_is_refused(full_ledger):
    with pytest.raises(ValueError, match="15"):
        Door(door_of(full_ledger), token="x" * 15)


# ------------------------------------------------------------------------------- the ledger


@pytest.fixture
def copied(full_ledger, tmp_path) -> Path:
    path = tmp_path / "drift.db"
    with sqlite3.connect(full_ledger.removeprefix("sqlite:///")) as source:
        source.execute("VACUUM INTO ?", [str(path)])
    return path


def test_a_ledger_that_goes_away_comes_back(copied):
    visitor = Visitor(door_of(f"sqlite:///{copied}"))
    hidden = copied.with_suffix(".away")
    shutil.move(copied, hidden)
    answer = visitor.get("/")
    assert answer.status == 503
    assert "cannot be read: unable to open database file" in answer.text
    assert not copied.exists()  # looking makes no ledger
    shutil.move(hidden, copied)
    assert visitor.get("/").status == 200


def test_a_ledger_of_another_version_is_not_guessed_at(copied):
    visitor = Visitor(door_of(f"sqlite:///{copied}"))
    with sqlite3.connect(copied) as connection:
        connection.execute(f"UPDATE {ledger_version.name} SET version_num = '2'")
    answer = visitor.get("/")
    assert answer.status == 503
    assert "use the version that made it" in answer.text
    with pytest.raises(LedgerUnavailable, match="version"):
        LedgerView(f"sqlite:///{copied}")


def test_what_is_no_ledger_is_refused(tmp_path):
    file = tmp_path / "drift.db"
    with pytest.raises(LedgerUnavailable, match="open"):
        LedgerView(f"sqlite:///{file}")
    assert not file.exists()
    with sqlite3.connect(file) as connection:
        connection.execute("CREATE TABLE diary (day TEXT)")
    with pytest.raises(LedgerUnavailable, match="ledger"):
        LedgerView(f"sqlite:///{file}")
    file.write_bytes(b"Dear diary, " * 1000)
    with pytest.raises(LedgerUnavailable, match="database"):
        LedgerView(f"sqlite:///{file}")


def test_a_writer_does_not_keep_readers_waiting_and_is_seen_when_done(copied):
    url = f"sqlite:///{copied}"
    Ledger(url)  # in write-ahead mode, as ledgers are
    visitor = Visitor(door_of(url))
    before, stamp = visitor.get("/").text, visitor.get("/stamp").body
    with sqlite3.connect(copied, isolation_level=None) as writer:
        writer.execute("BEGIN EXCLUSIVE")
        writer.execute("UPDATE checks SET population = 'moved'")
        assert visitor.get("/stamp").body == stamp
        assert "moved" not in visitor.get("/").text
        writer.execute("ROLLBACK")
    Ledger(url).set_budget(Budget(1.0, 1e-6, 30, "new one"))
    assert visitor.get("/stamp").body != stamp
    assert "new one" not in before
    assert "new one" in visitor.get("/").text
    Ledger(url).reserve("now", Charge(COST, ["a"]), population="new one")
    assert "Not ended" in visitor.get("/").text


def test_looking_writes_nothing(copied):
    with tables(LedgerView(f"sqlite:///{copied}")).reading() as connection:
        for statement in ("DELETE FROM checks", "CREATE TABLE x (y TEXT)"):
            with pytest.raises(Exception, match="readonly"):
                connection.exec_driver_sql(statement)
