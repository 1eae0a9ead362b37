# Everything sets itself up from a fresh clone: `make demo`, `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# uv installs in half a minute what takes pip two; it does not read pip's configuration, so where it
# finds no packages pip has the last word.
UV := $(BIN)/uv pip install --quiet --python $(BIN)/python
PIP := $(BIN)/pip install --quiet --disable-pip-version-check --root-user-action=ignore
# Tests and demo start many processes; without byte code each would compile Flower and Ray anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo study studies bench test coverage test-portable test-slow test-deployment test-databases fuzz fuzz-noise check docs release test-lowest test-flower clean

demo: $(VENV)/ready
	$(BIN)/flwr-kld demo --out out/demo

# The figures of PRIEST-KLD with correct mechanisms: hours on two cores, the table of docs/study.md first. The same
# command goes on where it was stopped. `make study DATA=writers.npz REPEATS=50 WORKERS=2`
DATA ?= digits
REPEATS ?= 50
WORKERS ?= $(shell nproc)
STUDIES = out/$(if $(QUICK),quick,study)
study: $(VENV)/ready
	$(BIN)/python simulations/studies/priest_kld/study.py --data $(DATA) --repeats $(REPEATS) --workers $(WORKERS) $(QUICK) --out $(STUDIES)/priest_kld

# The studies of all three papers, each in out/study/NAME: an hour more. Those that are done take seconds.
# `make studies QUICK=--quick` takes minutes, in out/quick.
PREDICTORS := risk select
studies: study
	$(BIN)/python simulations/studies/theorems.py $(QUICK) --out $(STUDIES)/theorems
	for name in $(PREDICTORS:%=predictor_%); do \
		$(BIN)/python simulations/studies/$$name.py --workers $(WORKERS) $(QUICK) --out $(STUDIES)/$$name || exit; \
	done
	test -e $(STUDIES)/integral/integral_ring.png || $(BIN)/python simulations/studies/integral.py $(QUICK) --out $(STUDIES)/integral

# Three files at a time, as some wait for processes, in the order of tests/conftest.py; what takes
# minutes is marked slow.
# `make test TESTS=tests/kernel` for one folder's.
test: $(VENV)/ready
	$(BIN)/pytest -n 3 --dist loadfile --no-loadscope-reorder $(TESTS)

# The same as other processors compute: NumPy without AVX-512 and without AVX2, OpenBLAS's kernels for the
# oldest and for most processors. `make test-portable TESTS=tests/table` for fewer tests.
PROCESSORS := 'NPY_DISABLE_CPU_FEATURES=X86_V4 AVX512_ICL AVX512_SPR' \
	'NPY_DISABLE_CPU_FEATURES=X86_V3 X86_V4 AVX512_ICL AVX512_SPR' \
	OPENBLAS_CORETYPE=Prescott OPENBLAS_CORETYPE=Haswell
test-portable: $(VENV)/ready
	for processor in $(PROCESSORS); do \
		echo "$$processor"; \
		env "$$processor" $(BIN)/pytest -n 3 --dist loadfile --no-loadscope-reorder $(TESTS) || exit; \
	done

# How much of each file tests run: `make coverage TESTS=tests/kernel` for one folder's.
coverage: $(VENV)/coverage
	$(BIN)/pytest -n 3 --dist loadfile --no-loadscope-reorder \
		--cov=flwr_kld --cov=strategies --cov=clients --cov-report=term:skip-covered $(TESTS)

$(VENV)/coverage: $(VENV)/ready
	$(UV) 'pytest-cov>=6' 2>>$(VENV)/uv.log || $(PIP) 'pytest-cov>=6'
	touch $@

# What `make test` leaves out: long Monte Carlo, every pattern of dropouts, real deployments.
test-slow: $(VENV)/ready
	tests/deployment/compose.sh $(BIN)/pytest -m slow

# SuperLinks with TLS and authenticated SuperNodes, nodes that are stopped and killed, and a SuperLink
# that is started anew between checks, a table behind SQL, and the services of deploy/compose.yaml, each
# killed once. Debian's PostgreSQL and Prometheus are installed if missing.
test-deployment: $(VENV)/ready
	tests/deployment/compose.sh $(BIN)/pytest -m slow tests/deployment

# Tests of the ledger and of node records on servers of their own, PostgreSQL and MariaDB; Debian's packages are
# installed if missing.
test-databases: $(VENV)/ready
	tests/ledger/postgres.sh tests/clients/mariadb.sh $(BIN)/pytest -m 'not slow or slow' tests/ledger tests/clients/test_any_record.py tests/examples/test_nightly.py

# Our own figures beside those of peers, which it installs: a table, out/bench, and docs/benchmarks.md. 15 minutes;
# the same command goes on where it was stopped. Peers have two environments of their own: they want other versions,
# and beside a package of Evidently's Ray does not start.
bench: $(VENV)/bench
	PYTHONPATH=tests OMP_NUM_THREADS=1 $(VENV)/peers/bin/python simulations/bench/run.py --out out/bench --page docs/benchmarks.md

$(VENV)/bench: $(VENV)/ready
	$(BIN)/uv venv --quiet --clear --python $(PYTHON) $(VENV)/peers
	$(BIN)/uv pip install --quiet --python $(VENV)/peers/bin/python --editable '.[dev,bench]'
	$(BIN)/uv venv --quiet --clear --python $(PYTHON) $(VENV)/nvflare
	$(BIN)/uv pip install --quiet --python $(VENV)/nvflare/bin/python nvflare==2.9.0 pandas
	touch $@

# Fresh examples of every property, 25 times as many as in `make test`, fresh noise of every test that states
# how often it fails, and a lying server's messages, on all cores: some ten minutes each on two.
# `make fuzz EXAMPLES=50 RUNS=1000 LIES=5000000` asks more, `make fuzz FROM=400` goes on with lies where the
# last line of an earlier run says. `make fuzz-noise FILES=tests/report RUNS=60` asks it of other tests, and with
# OUT=out/noise.jsonl goes on where it was stopped.
EXAMPLES ?= 10
RUNS ?= 100
MINUTES ?= 60
LIES ?= 1000000
FROM ?= 0
fuzz: fuzz-noise
	FLWR_KLD_EXAMPLES=$(EXAMPLES) $(BIN)/pytest -n auto -m 'hypothesis and not slow'
	PYTHONPATH=tests $(BIN)/python tests/adversary/fuzz.py --lies $(LIES) --first $(FROM)

fuzz-noise: $(VENV)/ready
	PYTHONPATH=tests $(BIN)/python tests/fresh_noise.py --runs $(RUNS) --minutes $(MINUTES) $(if $(OUT),--out $(OUT)) $(FILES)

# sdist, wheel, SBOM and checksums, in dist/. They are built twice, and must be the same to the byte; their
# metadata is checked, the wheel alone runs a check, in the environment that the SBOM lists, and with its
# extras what a newcomer runs: the app for Flower's hub, the notebook, an app from a CSV file.
# The version is that of the tag that is checked out: RELEASING.md.
release: $(VENV)/ready
	rm -rf dist build
	PATH=$(CURDIR)/$(BIN):$$PATH && deploy/release/build.sh dist && umask 077 && deploy/release/build.sh build/again
	diff --recursive dist build/again
	$(BIN)/uv tool run --quiet twine check --strict dist/*.whl dist/*.tar.gz
	$(BIN)/uv venv --quiet --python $(PYTHON) build/release
	$(BIN)/uv pip install --quiet --python build/release/bin/python dist/*.whl
	build/release/bin/python -P tests/wheel_check.py
	FLWR_KLD_WHEEL=$$(ls $(CURDIR)/dist/*.whl) $(BIN)/pytest -m slow tests/examples/test_wheel_alone.py
	$(BIN)/uv tool run --quiet --from cyclonedx-bom cyclonedx-py environment --output-reproducible \
		--output-file dist/sbom.cdx.json build/release/bin/python
	sed -i 's|file://$(CURDIR)/dist/||' dist/sbom.cdx.json
	cd dist && sha256sum *.whl *.tar.gz sbom.cdx.json > SHA256SUMS

# The fast tests with the oldest versions that pyproject.toml accepts of what it lists, and with the
# newest; `make test-lowest PYTHON=python3.13 TESTS=tests/table` for another Python, or fewer tests.
TESTS ?= tests
test-lowest: $(VENV)/ready
	for versions in lowest-direct highest; do \
		environment=build/$$versions && \
		$(BIN)/uv venv --quiet --clear --python $(PYTHON) $$environment && \
		$(BIN)/uv pip install --quiet --python $$environment/bin/python --resolution $$versions --editable '.[dev]' && \
		$$environment/bin/pytest -n 3 --dist loadfile --no-loadscope-reorder $(TESTS) || exit; \
	done

# The fast tests with another Flower. It alone is exchanged: an index may not have what it asks for.
FLOWER ?= 1.42.0
test-flower: $(VENV)/ready
	$(BIN)/uv venv --quiet --clear --python $(PYTHON) build/flower
	$(BIN)/uv pip install --quiet --python build/flower/bin/python --editable '.[dev]'
	$(BIN)/uv pip install --quiet --python build/flower/bin/python --no-deps flwr==$(FLOWER)
	build/flower/bin/pytest -n 3 --dist loadfile --no-loadscope-reorder $(TESTS)

check: $(VENV)/ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	rm -rf build && mkdir build
	$(UV) --no-deps --target build/installed . 2>build/uv.log || $(PIP) --no-deps --target build/installed .
	cp -r simulations/studies build/installed/flwr_kld/simulations/
	cd build && MYPYPATH=installed ../$(BIN)/mypy --config-file ../pyproject.toml -p flwr_kld

# The site, in build/site. The API reference is read from the package as it installs: the four
# folders under one name.
docs: $(VENV)/docs
	rm -rf build/docs build/site && mkdir -p build/docs/flwr_kld
	ln -s $(CURDIR)/flwr_kld/* $(CURDIR)/strategies $(CURDIR)/clients $(CURDIR)/simulations build/docs/flwr_kld/
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build

$(VENV)/docs: $(VENV)/ready
	$(UV) --editable '.[docs]' 2>>$(VENV)/uv.log || $(PIP) --editable '.[docs]'
	touch $@

$(VENV)/ready: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(PIP) --quiet uv 2>$(VENV)/uv.log || true
	$(UV) --editable '.[dev]' 2>>$(VENV)/uv.log || $(PIP) --editable '.[dev]'
	touch $@

clean:
	rm -rf $(VENV) build dist out *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
