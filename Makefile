# `make` without a target lists the targets.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
TORCH  := $(shell grep '^torch==' constraints.txt)
PIP    := $(BIN)/python -m pip install --quiet --disable-pip-version-check

.DEFAULT_GOAL := help
.PHONY: help setup demo corpora test check fuzz stress static bench experiments lock docs site golden clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(VENV)/.ready ## Create .venv with pinned dependencies (HASHES=no: other builds of torch)

$(VENV)/.ready: pyproject.toml requirements.lock gsx/_native.h gsx/_ragged.c $(wildcard stages/*/_*.c stages/*/*/_*.c)
	@echo "setting up $(VENV) (a few minutes the first time)"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
ifeq ($(HASHES),no)
	@$(PIP) -c constraints.txt pip setuptools wheel $(TORCH)
	@$(PIP) -c constraints.txt -e '.[dev]'
else
	@$(PIP) --no-deps --require-hashes -r requirements.lock || \
	  (echo "If requirements.lock has no hash for this platform, run: make setup HASHES=no"; exit 1)
	@$(PIP) --no-deps --no-build-isolation -e .
endif
	@touch $@

demo: setup ## Build an OOD corpus in ./artifacts, verify it, and train with and without it (minutes)
	@GSX_STORE=$(or $(GSX_STORE),artifacts) $(BIN)/gsx demo

# Batches: `make -j2 corpora DATASETS="motif-size motif-base" GENERATE="--workers 2"`. Each dataset has a
# link to the manifest of its corpus, so that make skips it while code and options are unchanged.
# Otherwise `gsx generate` finds the corpus by its key or builds what is missing.
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

corpora: $(LINKS) ## Generate the missing corpora of DATASETS; -j2 builds two at a time
	@echo "$(words $(DATASETS)) corpora are in $(STORE)$(if $(MISSING),,; nothing was missing)"

$(STORE)/.corpora/%-$(OPTIONS): $(CODE) | $(VENV)/.ready
	@mkdir -p $(@D)
	@$(BIN)/gsx generate $* $(GENERATE) --store $(STORE) --json > $@.json
	@$(BIN)/python -c 'import json, sys; print(json.load(open(sys.argv[1]))["path"])' $@.json > $@.path
	@ln -sfn "$$(realpath "$$(cat $@.path)")/manifest.json" $@ && rm $@.json $@.path
	@echo "$*: $$(dirname "$$(readlink $@)")"

test: setup static ## Check format, lint, types and import contracts, and run all tests (as CI)
	$(BIN)/python -m pytest -n 2 --dist worksteal --durations=8

check: setup static ## Like test, without the slow tests
	$(BIN)/python -m pytest -n 2 --dist worksteal -m "not slow and not stress"

FUZZ ?=

fuzz: setup ## Run hostile inputs for 10 minutes; FUZZ="--minutes 60 --seed 7 --target artifact"
	$(BIN)/python -m tests.fuzz $(FUZZ)

stress: setup ## Kill processes at random moments, fill disks, run commands at once (25 minutes)
	$(BIN)/python -m pytest -m stress

static:
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache > .lint-imports.log || (cat .lint-imports.log; exit 1)
	@tail -n 1 .lint-imports.log
	$(BIN)/codespell README.md CHANGELOG.md CONTRIBUTING.md SECURITY.md docs gsx cli pipeline stages storage experiments bench

bench: setup ## Regenerate bench/results/*.json (an hour or more); NAME="loader writer" for some of them
	@$(PIP) --no-deps --require-hashes -r requirements-bench.lock
	$(BIN)/python bench/run.py $(NAME)

SUITE ?=
PART  ?= 0/1

experiments: setup ## Run the experiments of SUITE that have no result yet; PART=0/2 runs every second one
	$(BIN)/python -m experiments.run $(or $(SUITE),--help) --part $(PART) $(ARGS)

lock: ## Update all dependencies to the newest compatible versions; KEEP=1 updates only hashes
	$(PYTHON) tools/lock.py $(if $(KEEP),--keep)

docs: setup ## Regenerate docs/cli.md, the tables of docs/results.md and the results figure
	$(BIN)/python -c "from gsx.cli.reference import reference; print(reference(), end='')" > docs/cli.md
	$(BIN)/python -c "from gsx.cli.recipes import recipe_reference as page; print(page(), end='')" > docs/recipes.md
	$(BIN)/python -c "from gsx.pipeline.recipe_reference import recipe_file_reference as page; print(page(), end='')" > docs/recipe-files.md
	$(BIN)/python -m experiments.update_docs
	$(BIN)/python docs/figures/results.py
	$(BIN)/python docs/figures/forest.py

site: setup ## Build the documentation site into build/site; open build/site/index.html
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet
	@echo "build/site/index.html"

golden: setup ## Rewrite the golden artifacts of the tests; review the diff
	$(BIN)/python tests/support/make_golden.py

clean: ## Remove build products, but no artifacts
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .lint-imports.log fuzz-results
