"""What an import loads: as little as its name needs, in an interpreter of its own."""

import importlib
import json
import pkgutil
import subprocess
import sys
from importlib.metadata import version
from types import ModuleType

import pytest

import flwr_kld
from flwr_kld import clients, ledger, report, strategies, trust, views

LAZY = (flwr_kld, clients, ledger, report, strategies, trust, views)
DATABASE = {"sqlalchemy"}
BLOCKED = 'import sys; sys.modules["flwr"] = None; '


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def loaded_by(code: str) -> set[str]:
    return set(json.loads(run(f"{code}\nimport json, sys; print(json.dumps(list(sys.modules)))")))


def ours(modules: set[str]) -> set[str]:
    return {name for name in modules if name.split(".")[0] == "flwr_kld"}


def test_the_package_alone_loads_nothing_else():
    extras = {"flwr_kld.common", "flwr_kld.common.extras", "flwr_kld.common.report_views"}
    assert ours(loaded_by("import flwr_kld")) == {"flwr_kld"} | extras


def test_a_server_without_a_ledger_loads_no_database():
    assert not DATABASE & loaded_by("from flwr_kld.strategies import *")
    assert loaded_by("from flwr_kld.ledger import Ledger") >= DATABASE


def test_a_drift_check_loads_no_predictor_and_no_integral():
    loaded = ours(loaded_by("from flwr_kld.strategies import KLDrift, Trusted, WithDriftChecks"))
    assert not [name for name in loaded if name.startswith("flwr_kld.predictors")]


def test_a_client_loads_what_it_answers_with():
    loaded = loaded_by("from flwr_kld.clients import answer_drift_queries, node_records")
    assert (
        not (
            DATABASE
            | {"scipy", "pyarrow", "narwhals", "flwr_kld.table.sniff", "flwr_kld.trust.trust_model"}
        )
        & loaded
    )
    assert len(ours(loaded)) <= 72


def test_the_science_does_without_flower():
    code = BLOCKED + "import flwr_kld\n"
    run(code + "from flwr_kld import Table, Reference, Report, Trusted")
    said = run(code + "try: flwr_kld.KLDrift\nexcept ImportError as error: print(error)")
    assert "KLDrift" in said
    assert "pip install flwr" in said


def test_the_version_is_the_installed_one():
    assert flwr_kld.__version__ == version("flwr-kld")


@pytest.mark.parametrize("package", LAZY, ids=lambda package: package.__name__)
def test_no_module_of_a_package_hides_a_name_that_it_offers(package):
    for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
        importlib.import_module(module.name)
    assert set(package.__all__) <= set(dir(package))
    for name in dir(package):
        assert not isinstance(getattr(package, name), ModuleType)


def test_a_name_that_is_not_there_is_an_attribute_error():
    with pytest.raises(AttributeError, match=r"flwr_kld.*Tabel"):
        _ = flwr_kld.Tabel
