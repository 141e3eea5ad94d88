# Everything a newcomer types. `make` alone lists the targets.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt
# torch is pinned and named first: any looser install may pull gigabytes of GPU libraries.
TORCH  := $(shell grep '^torch==' constraints.txt)

.DEFAULT_GOAL := help
.PHONY: help setup demo test check static bench extract-results bridge-results downstream-results lock golden clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(VENV)/.ready ## Create .venv with every pinned dependency; quick the second time

$(VENV)/.ready: pyproject.toml constraints.txt
	@echo "setting up $(VENV) (a few minutes the first time)"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(PIP) pip setuptools wheel
	@$(PIP) $(TORCH)
	@$(PIP) -e '.[dev]'
	@touch $@

demo: setup ## Build a real OOD corpus in ./artifacts, look at it, read it, learn from it (minutes)
	@GSX_STORE=$(or $(GSX_STORE),artifacts) $(BIN)/python examples/demo.py

test: setup static ## Everything CI runs: format, lint, types, import contracts, all tests
	$(BIN)/python -m pytest -n 2 --durations=8

check: setup static ## The same without the slow tests
	$(BIN)/python -m pytest -n 2 -m "not slow"

static:
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache > .lint-imports.log || (cat .lint-imports.log; exit 1)
	@tail -n 1 .lint-imports.log
	$(BIN)/codespell README.md CHANGELOG.md CONTRIBUTING.md docs gsx cli pipeline stages storage

bench: setup ## Measure gsx beside its peers; writes bench/results/*.json (about ten minutes)
	@$(PIP) -e '.[bench]'
	$(BIN)/python bench/startup.py
	$(BIN)/python bench/motif.py
	test -z "$$GSX_RAW_DATA" || $(BIN)/python bench/molecules.py
	test -z "$$GSX_RAW_DATA" || $(BIN)/python bench/workers.py
	test -z "$$GSX_RAW_DATA" || $(BIN)/python bench/zinc.py --replay
	$(BIN)/python bench/writer.py
	$(BIN)/python bench/loader.py
	$(BIN)/python bench/memory.py
	$(BIN)/python bench/splice.py
	$(BIN)/python bench/train.py
	$(BIN)/python bench/precision.py

extract-results: setup ## Measure the extractors; writes results/extract/*.json (an hour)
	$(BIN)/python results/extract.py

bridge-results: setup ## Measure bridge models; writes results/bridge/*.json (ten minutes)
	$(BIN)/python results/bridge.py

downstream-results: setup ## Train with and without spliced corpora; writes results/motif-*/*.json (hours)
	$(BIN)/python results/downstream.py

lock: ## Write constraints.txt anew from the newest versions that work together
	$(PYTHON) -m venv .lock && .lock/bin/pip install -q -U pip
	.lock/bin/pip install -q $(TORCH)
	.lock/bin/pip install -q $(TORCH) -e '.[dev,bench]'
	(head -n 1 constraints.txt; .lock/bin/pip freeze --exclude-editable | sed 's/+cpu//') > constraints.new
	mv constraints.new constraints.txt && rm -rf .lock

golden: setup ## Rewrite the golden artifacts of the tests; review the diff
	$(BIN)/python tests/make_golden.py

clean: ## Remove what make made, but no artifacts
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .lint-imports.log
