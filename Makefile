# Two targets are all a newcomer needs: `make demo` and `make test`.
# Both set up what is missing in .venv first; setting up twice is a no-op.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
ANALYSIS := $(VENV)/.analysis
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps
TEST_JOBS ?= 2
MUTANTS ?= 60
# One thread per process: the tests run side by side, and results must not depend on thread counts anyway.
export OMP_NUM_THREADS ?= 1
# Tests start many processes, and each would compile every module anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test setup lint types contracts unit nightly docs reference lock clean help

help:  ## what the targets do
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

setup: $(INSTALLED)  ## install the pinned packages and worldfork itself into .venv

# The analysis alone, which is all that the demo needs: a third of the packages.
$(ANALYSIS): requirements/analysis.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "worldfork needs Python 3.11 or newer; '$(PYTHON)' is $$($(PYTHON) -V). Try: make PYTHON=python3.12"; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) --require-hashes -r requirements/analysis.txt
	$(PIP) --no-build-isolation -e .
	@touch $(ANALYSIS)

$(INSTALLED): requirements/dev.txt $(ANALYSIS)
	$(PIP) --require-hashes -r requirements/dev.txt
	@touch $(INSTALLED)

demo: $(ANALYSIS)  ## a study whose answer is known: forks, scores, a page to open, in seconds
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

docs: setup  ## the documentation as a site in site/ with the tables of every study, every warning an error
	EVIDENCE=1 $(BIN)/properdocs build --strict --quiet

reference: setup  ## the pages of docs/ that are made from the code
	$(BIN)/python docs/.site/reference.py

COMPILE := $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --no-emit-index-url --no-header \
	  --no-annotate --generate-hashes pyproject.toml

lock: setup  ## compile requirements/ anew from pyproject.toml
	$(BIN)/python -m pip install --quiet uv
	$(COMPILE) --extra dev -o requirements/dev.txt
	printf 'hatchling\neditables\n' | $(COMPILE) - -c requirements/dev.txt -o requirements/analysis.txt

clean:  ## remove what set-up and runs left behind
	rm -rf $(VENV) site .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find src tests examples benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +
