"""Several processes on one ledger: one spend a key, and together never more than the budget."""

import os
import time
from collections import Counter

from forks import forked, joined
from ledger.books import REPORT, ask
from ledger.conftest import NOW

from flwr_kld.ledger import Budget, BudgetExhausted, Ledger
from flwr_kld.ledger.entry import AlreadyChecked, CheckUnfinished


def together(processes, work, log):
    """Run `work(i)` in so many processes at once; it returns a word for the log."""
    start, go = os.pipe()

    def wait_and_work(i):
        os.close(go)
        os.read(start, 1)  # returns for all when the last writer closes
        word = work(i)
        with log.open("a") as file:
            file.write(f"{word}\n")

    pids = [forked(lambda i=i: wait_and_work(i)) for i in range(processes)]
    os.close(start)
    time.sleep(0.05)
    os.close(go)
    assert set(joined(*pids)) == {0}
    return Counter(log.read_text().split())


def test_twenty_starts_of_one_check_spend_once(url, ledger, tmp_path):
    def start(_):
        try:
            reservation = Ledger(url).reserve("2026-01-05", ask(0.3, "a", "b"), now=NOW)
        except (AlreadyChecked, CheckUnfinished) as refused:
            return type(refused).__name__
        Ledger(url).settle(reservation, REPORT, now=NOW)
        return "ran"

    words = together(20, start, tmp_path / "log")
    assert words["ran"] == 1
    assert words["AlreadyChecked"] + words["CheckUnfinished"] == 19
    assert ledger.spent(now=NOW).epsilon == 0.3
    assert len(list(ledger.history())) == 1


def test_two_processes_do_not_overspend(url, ledger, tmp_path):
    def spend(i):
        own, won = Ledger(url), 0
        for j in range(15):
            try:
                reservation = own.reserve(f"{i}-{j}", ask(0.0625, "a"), now=NOW)
            except BudgetExhausted:
                continue
            own.settle(reservation, REPORT, now=NOW)
            won += 1
        return f"{won}"

    words = together(2, spend, tmp_path / "log")
    assert sum(int(word) * n for word, n in words.items()) == 16
    assert ledger.spent(now=NOW).left == 0
    assert len(list(ledger.history())) == 16


def test_eight_processes_make_one_ledger(url, tmp_path):
    """All find no schema and no budget, and number the same new clients."""

    def start(i):
        own = Ledger(url)
        own.set_budget(Budget(1.0, 0.0, 30), now=NOW)
        own.reserve(f"{i}", ask(0.125, *(f"client {j}" for j in range(40))), now=NOW)
        return "ran"

    assert together(8, start, tmp_path / "log") == {"ran": 8}
    ledger = Ledger(url)
    assert ledger.spent(now=NOW).epsilon == 1
    assert ledger.last_asked(["client 0", "client 39"]).tolist() == [8, 8]
