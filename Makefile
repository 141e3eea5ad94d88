# Everything a newcomer types. `make` alone lists the targets.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt
# torch is pinned and named first: any looser install may pull gigabytes of GPU libraries.
TORCH  := $(shell grep '^torch==' constraints.txt)

.DEFAULT_GOAL := help
.PHONY: help setup demo corpora test check stress static bench extract-results bridge-results downstream-results benchmark-results featx-results tuned-results field lock docs golden clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(VENV)/.ready ## Create .venv with every pinned dependency; quick the second time

$(VENV)/.ready: pyproject.toml constraints.txt gsx/_loops.h gsx/_ragged.c $(wildcard stages/*/_*.c stages/*/*/_*.c)
	@echo "setting up $(VENV) (a few minutes the first time)"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(PIP) pip setuptools wheel
	@$(PIP) $(TORCH)
	@$(PIP) -e '.[dev]'
	@touch $@

demo: setup ## Build a real OOD corpus in ./artifacts, look at it, read it, learn from it (minutes)
	@GSX_STORE=$(or $(GSX_STORE),artifacts) $(BIN)/python examples/demo.py

# Batches: `make -j2 corpora DATASETS="motif-size motif-base" GENERATE="--workers 2"`. A dataset has a link
# to the manifest of its corpus, so make starts nothing while code and options are the same; where they
# are not, or the corpus is gone, `gsx generate` looks for its key and makes what is missing.
DATASETS ?= motif-size motif-base
GENERATE ?=
STORE    := $(or $(GSX_STORE),artifacts)
ifneq ($(filter corpora,$(MAKECMDGOALS)),)
OPTIONS  := $(firstword $(shell printf '%s' '$(GENERATE)' | cksum))
LINKS    := $(DATASETS:%=$(STORE)/.corpora/%-$(OPTIONS))
MISSING  := $(shell for link in $(LINKS); do test -e $$link || { rm -f $$link; echo $$link; }; done)
CODE     := $(shell find cli gsx pipeline stages storage -name '*.py' -o -name '*.[ch]')
MAKEFLAGS += --check-symlink-times
endif

corpora: $(LINKS) ## Generate the corpora of DATASETS, only what is missing; -j makes several at once
	@echo "$(words $(DATASETS)) corpora are in $(STORE)$(if $(MISSING),,; nothing was missing)"

$(STORE)/.corpora/%-$(OPTIONS): $(CODE) | $(VENV)/.ready
	@mkdir -p $(@D)
	@$(BIN)/gsx generate $* $(GENERATE) --store $(STORE) --json > $@.json
	@$(BIN)/python -c 'import json, sys; print(json.load(open(sys.argv[1]))["path"])' $@.json > $@.path
	@ln -sfn "$$(realpath "$$(cat $@.path)")/manifest.json" $@ && rm $@.json $@.path
	@echo "$*: $$(dirname "$$(readlink $@)")"

test: setup static ## Everything CI runs: format, lint, types, import contracts, all tests
	$(BIN)/python -m pytest -n 2 --dist worksteal --durations=8

check: setup static ## The same without the slow tests
	$(BIN)/python -m pytest -n 2 --dist worksteal -m "not slow and not stress"

stress: setup ## Kill workers, schedulers and clients dozens of times (a quarter of an hour)
	$(BIN)/python -m pytest -m stress

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
	test -z "$$GSX_RAW_DATA" || $(BIN)/python bench/zinc.py
	$(BIN)/python bench/writer.py
	$(BIN)/python bench/share.py
	$(BIN)/python bench/loader.py
	$(BIN)/python bench/memory.py
	$(BIN)/python bench/splice.py
	$(BIN)/python bench/featx.py
	$(BIN)/python bench/augment.py
	$(BIN)/python bench/train.py
	$(BIN)/python bench/learners.py
	$(BIN)/python bench/precision.py

extract-results: setup ## Measure the extractors; writes results/extract/*.json (an hour)
	$(BIN)/python results/extract.py

bridge-results: setup ## Measure bridge models; writes results/bridge/*.json (ten minutes)
	$(BIN)/python results/bridge.py

downstream-results: setup ## Train with and without spliced corpora; writes results/motif-*/*.json (hours)
	$(BIN)/python results/downstream.py

benchmark-results: setup ## The same on NCI1, DD, HIV and texts; writes results/<dataset>/*.json (hours)
	$(BIN)/python results/benchmarks.py

featx-results: setup ## Train with and without moved features; writes results/*-color/*.json and others (hours)
	$(BIN)/python results/featx.py

tuned-results: setup ## Tune the extension on nci1-size by OOD validation (half an hour; goes on where it stopped)
	$(BIN)/gsx tune nci1-size --space results/tuned/nci1-size.toml --epochs 12 --seeds 3 --trials 7 --json > results/tuned/nci1-size.json

field: setup ## Every method the paper compares with, on six datasets; writes results/field (hours)
	$(BIN)/python results/field.py
	$(BIN)/python -m gsx table results/field

lock: ## Write constraints.txt anew from the newest versions that work together
	$(PYTHON) -m venv .lock && .lock/bin/pip install -q -U pip
	.lock/bin/pip install -q $(TORCH)
	.lock/bin/pip install -q $(TORCH) -e '.[dev,bench]'
	(head -n 1 constraints.txt; .lock/bin/pip freeze --exclude-editable | sed 's/+cpu//') > constraints.new
	mv constraints.new constraints.txt && rm -rf .lock

docs: setup ## Write docs/cli.md from the commands, and the tables of docs/results.md
	$(BIN)/python -c "from gsx.cli.reference import reference; print(reference(), end='')" > docs/cli.md
	$(BIN)/python results/page.py

golden: setup ## Rewrite the golden artifacts of the tests; review the diff
	$(BIN)/python tests/support/make_golden.py

clean: ## Remove what make made, but no artifacts
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .lint-imports.log
