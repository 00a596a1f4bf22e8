# Only Python 3.11+ and pip are needed; everything else goes into .venv.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed

.PHONY: demo test lint format clean help

help:            ## this list
	@grep -hE '^[a-z]+: .*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/'

demo: $(STAMP)   ## the whole story on generated data, into ./demo
	$(BIN)/python -m bayesgram demo --force --output demo

test: lint       ## linters, then all tests
	$(BIN)/python -m pytest -n 2 --dist worksteal -q

lint: $(STAMP)   ## ruff and mypy
	$(BIN)/python -m ruff check
	$(BIN)/python -m ruff format --check
	$(BIN)/python -m mypy

format: $(STAMP) ## rewrite the sources in the house format
	$(BIN)/python -m ruff check --fix
	$(BIN)/python -m ruff format

# The environment is made anew only when pyproject.toml changes.
$(STAMP): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "$(PYTHON) is older than 3.11: install a newer one and say make PYTHON=python3.12 ..."; exit 2; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) || \
	  { rm -rf $(VENV); $(PYTHON) -m pip install --quiet --user virtualenv && $(PYTHON) -m virtualenv $(VENV); }
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $(STAMP)

clean:           ## remove what make made
	rm -rf $(VENV) demo build .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find src tests -name __pycache__ -prune -exec rm -rf {} +
