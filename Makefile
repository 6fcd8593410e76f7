# Two targets are all a newcomer needs: `make demo` and `make test`.
# Both set up what is missing in .venv first; setting up twice is a no-op.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
TEST_JOBS ?= 2
MUTANTS ?= 60
# One thread per process: the tests run side by side, and results must not depend on thread counts anyway.
export OMP_NUM_THREADS ?= 1
# Tests start many processes, and each would compile every module anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test setup lint types contracts unit nightly docs lock clean help

help:  ## what the targets do
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

setup: $(INSTALLED)  ## install the pinned packages and worldfork itself into .venv

$(INSTALLED): requirements/dev.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "worldfork needs Python 3.11 or newer; '$(PYTHON)' is $$($(PYTHON) -V). Try: make PYTHON=python3.12"; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r requirements/dev.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $(INSTALLED)

demo: setup  ## run the main job at a size a laptop can take
	$(BIN)/worldfork demo

test: lint contracts  ## everything CI checks
	@$(MAKE) --no-print-directory -j 2 types unit

lint: setup
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: setup
	$(BIN)/mypy

contracts: setup
	$(BIN)/lint-imports

unit: setup
	$(BIN)/pytest -n $(TEST_JOBS) --dist worksteal

nightly: setup  ## the slow tests too, and whether the tests notice some one-line mistakes
	$(BIN)/pytest -n $(TEST_JOBS) --dist worksteal -m "nightly or not nightly"
	$(BIN)/python benchmarks/mutations.py --sample $(MUTANTS)

docs: setup  ## the documentation as a site in site/, every warning an error
	$(BIN)/properdocs build --strict --quiet

lock: setup  ## compile requirements/dev.txt anew from pyproject.toml
	$(BIN)/python -m pip install --quiet uv
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --no-emit-index-url --no-header \
	  --no-annotate --generate-hashes --extra dev pyproject.toml -o requirements/dev.txt

clean:  ## remove what set-up and runs left behind
	rm -rf $(VENV) site .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find src tests examples benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +
