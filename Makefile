# Everything sets itself up from a fresh clone: `make demo`, `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test test-deployment test-postgres check clean

demo: $(VENV)/ready
	$(BIN)/python -m flwr_kld.simulations.demo --out out/demo

test: $(VENV)/ready
	$(BIN)/pytest

# SuperLinks with TLS and authenticated SuperNodes, nodes that are stopped and killed, and a SuperLink
# that is started anew between checks: 4 minutes.
test-deployment: $(VENV)/ready
	$(BIN)/pytest -m slow tests/deployment

# The ledger's tests on a PostgreSQL server of their own; Debian's package is installed if missing.
test-postgres: $(VENV)/ready
	tests/ledger/postgres.sh $(BIN)/pytest tests/ledger

check: $(VENV)/ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	rm -rf build/installed
	$(BIN)/pip install --quiet --no-deps --target build/installed .
	cd build && MYPYPATH=installed ../$(BIN)/mypy --config-file ../pyproject.toml -p flwr_kld

$(VENV)/ready: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[dev]'
	touch $@

clean:
	rm -rf $(VENV) build dist out *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
