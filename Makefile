# Only Python 3.11+ and pip are needed; everything else goes into .venv.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip install --quiet --disable-pip-version-check
STAMP  := $(VENV)/.installed
KENLM  := $(VENV)/.kenlm
SPARK  := $(VENV)/.spark
COVERED  := $(CURDIR)/build/coverage
MEASURED := $(BIN)/python -m coverage run -m pytest
CHECKED  := tests src

.PHONY: demo check test transformers mutants faults fuzz explore coverage lint format docs bench bench-peers compare-versions wheel lock clean help

help:            ## this list
	@grep -hE '^[a-z-]+: .*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/'

demo: $(STAMP)   ## the whole story on generated data, into ./demo
	$(BIN)/python -m bayesgram demo --force --output demo

check: $(STAMP)  ## linters, types, unit and property tests: the inner loop, about 90 seconds
	@$(MAKE) --no-print-directory lint
	$(BIN)/python -m pytest -n 2 --dist worksteal -q -m 'not slow' $(CHECKED) $(CHECK)

test: $(KENLM) $(SPARK) ## linters, types, then all tests; about 12 minutes on two cores
	@$(MAKE) --no-print-directory lint
	$(BIN)/python -m pytest -n 2 --dist worksteal -q

# Twice: all tests, where kernels are compiled anew as that is Python too; then, with kernels as Python, tests of what has
# kernels that are small enough for it. Every process writes a file, and the report puts them together.
AS_PYTHON := tests/text tests/private tests/io/test_delimited.py \
  tests/inference/test_pooling.py tests/paper/test_sensitivity.py tests/audit/test_text_evaluation.py \
  tests/synthetic/test_grammar.py
coverage: export COVERAGE_FILE = $(COVERED)/.coverage
coverage: $(KENLM) $(SPARK) ## which lines and branches tests run, part by part; about 12 minutes on two cores
	rm -rf $(COVERED) && mkdir -p $(COVERED)/kernels
	NUMBA_CACHE_DIR=$(COVERED)/kernels $(MEASURED) -n 2 --dist worksteal -q -m 'not unwatched'
	NUMBA_DISABLE_JIT=1 $(MEASURED) -n 2 --dist worksteal -q -m 'not compiled' $(AS_PYTHON)
	$(BIN)/python -m coverage combine --quiet $(COVERED)
	$(BIN)/python tools/coverage_report.py

mutants: $(SPARK) ## plant privacy bugs one by one in a copy: the tests must kill them all; some ten minutes
	$(BIN)/python tools/mutants.py

faults: $(STAMP) ## every read, write, flush … of the main commands fails once, and 1,000 runs are killed; half an hour
	PYTHONPATH=tests $(BIN)/python -m faults.run

transformers: $(STAMP) ## torch and transformers, an extra of some hundred megabytes; then the tests that need them
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[transformers]'
	$(BIN)/python -m pytest -q tests/lm/test_neural.py tests/test_dp_sgd.py

lint: $(STAMP)   ## ruff and mypy
	$(BIN)/python -m ruff check
	$(BIN)/python -m ruff format --check
	$(BIN)/python -m mypy

format: $(STAMP) ## rewrite the sources in the house format
	$(BIN)/python -m ruff check --fix
	$(BIN)/python -m ruff format

docs: $(STAMP)   ## this documentation as a website, into ./site
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[docs]'
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet
	@echo "open site/index.html; to search it as well, serve it: python3 -m http.server --directory site"

FUZZ_SECONDS ?= 300
fuzz: $(STAMP)   ## search for input that nobody thought of, FUZZ_SECONDS=300 long; what it finds is in ./fuzz-findings
	PYTHONPATH=tests $(BIN)/python -m fuzz --seconds $(FUZZ_SECONDS) --processes 2 $(FUZZ)

# Every property in which privacy rests on code, with random examples. What is drawn differs from run to run; a failure
# prints the line that repeats it, and .hypothesis keeps it for the next run.
EXPLORE_EXAMPLES ?= 2000
EXPLORED := tests/privacy tests/private tests/mechanisms tests/inference tests/public tests/text tests/io \
  tests/spark/test_tasks.py tests/test_kernels.py tests/test_partition_selection.py
explore: $(STAMP) ## property tests of what privacy rests on, EXPLORE_EXAMPLES=2000 random examples each; some fifteen minutes
	BAYESGRAM_EXPLORE=$(EXPLORE_EXAMPLES) $(BIN)/python -m pytest -n 2 --dist worksteal -q -m hypothesis $(EXPLORE) $(EXPLORED)

# Peers have environments of their own: their pins clash with ours and with each other's. One that won't install is
# left out, and the page says so.
bench: $(STAMP) bench-peers ## speed beside other tools, into docs/benchmarks.md; about an hour; TEXT=... adds real text
	$(BIN)/python benchmarks/speed.py page --docs docs $(if $(TEXT),--text $(TEXT))

compare-versions: $(STAMP) ## KL, speed and memory of the last version, or of REF=..., beside this one; some six minutes
	$(BIN)/python benchmarks/versions.py $(if $(REF),--ref $(REF)) $(COMPARE)

bench-peers: .venv-bench/ours .venv-bench/tables .venv-bench/opendp .venv-bench/pipelinedp

.venv-bench/ours:       PACKAGES = --editable .
.venv-bench/tables:     PACKAGES = -r benchmarks/peers.txt
.venv-bench/opendp:     PACKAGES = 'opendp[polars]' pyarrow
.venv-bench/pipelinedp: PACKAGES = pipeline-dp pyarrow
.venv-bench/%:
	$(PYTHON) -m venv $@
	$@/bin/python -m pip install --quiet --disable-pip-version-check $(PACKAGES) || rm -rf $@

# The environment is made anew only when pyproject.toml or the lock file changes. Packages come with
# checked hashes; Bayesgram itself is installed without dependencies, by the setuptools of the lock.
$(STAMP): pyproject.toml requirements.lock
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "$(PYTHON) is older than 3.11: install a newer one and say make PYTHON=python3.12 ..."; exit 2; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) || \
	  { rm -rf $(VENV); $(PYTHON) -m pip install --quiet --user virtualenv && $(PYTHON) -m virtualenv $(VENV); }
	$(PIP) --require-hashes --requirement requirements.lock
	$(PIP) --no-deps --no-build-isolation --editable .
	@touch $(STAMP)

# KenLM judges our language models. It is built from source once; where that fails, its tests are
# skipped, no more.
$(KENLM): $(STAMP) requirements/kenlm.lock
	@if ! command -v c++ >/dev/null; then \
	  echo "KenLM is not built: no C++ compiler; its tests are skipped."; touch $@; \
	elif $(PIP) --require-hashes --requirement requirements/kenlm.lock >$(VENV)/kenlm.log 2>&1; then touch $@; \
	else tail -n 5 $(VENV)/kenlm.log; touch $@; \
	  echo "KenLM could not be built (see $(VENV)/kenlm.log); its tests are skipped. To try again: rm $@"; fi

# Spark and a Java for it: a download of about 500 MB, once. Where that fails, its tests are skipped,
# no more. After KenLM: one pip at a time.
$(SPARK): $(STAMP) requirements/spark.lock | $(KENLM)
	@if $(PIP) --require-hashes --requirement requirements/spark.lock >$(VENV)/spark.log 2>&1; \
	then touch $@; else tail -n 5 $(VENV)/spark.log; touch $@; \
	  echo "Spark could not be installed (see $(VENV)/spark.log); its tests are skipped. To try again: rm $@"; fi

wheel: $(STAMP)  ## a wheel and an sdist, into ./dist; then the demo, the report and the page in an empty environment
	rm -rf dist build/empty
	$(BIN)/python -m build --no-isolation --outdir dist
	$(PYTHON) -m venv build/empty
	build/empty/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/run.lock
	build/empty/bin/python -m pip install --quiet --disable-pip-version-check --no-deps dist/*.whl
	build/empty/bin/python -m pip check
	BAYESGRAM_WHEEL=$(CURDIR)/build/empty/bin/bayesgram $(BIN)/python -m pytest -q tests/test_wheel.py

# For every Python and platform that we support, with hashes. What is in a lock file already stays as
# it is if LOCK is empty.
LOCK    := --upgrade
COMPILE := build/lock/bin/uv pip compile pyproject.toml --quiet --universal --python-version 3.11 \
  --generate-hashes --no-annotate --custom-compile-command 'make lock' $(LOCK)
lock:            ## the lock files anew, with the newest versions that fit
	rm -rf build/lock && $(PYTHON) -m venv build/lock
	build/lock/bin/python -m pip install --quiet --disable-pip-version-check uv
	mkdir -p requirements
	$(COMPILE) --extra dev -o requirements.lock
	$(COMPILE) --constraint requirements.lock -o requirements/run.lock
	$(COMPILE) --constraint requirements.lock --extra spark -o requirements/spark.lock
	echo 'kenlm>=0.2' | $(subst pyproject.toml,-,$(COMPILE)) --no-deps -o requirements/kenlm.lock

clean:           ## remove what make made
	rm -rf $(VENV) .venv-bench demo site build dist fuzz-findings .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find src tests -name __pycache__ -prune -exec rm -rf {} +
