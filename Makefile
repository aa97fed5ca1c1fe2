# Everything starts from here: `make reproduce` and `make test` set themselves up.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
OUT ?= reproduction
STAMP := $(VENV)/.complete
TORCH := $(VENV)/.torch

.PHONY: help setup setup-torch reproduce test campaign test-lowest lint shape format bench bench-peers docs clean

help:  ## Show this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

setup: $(STAMP)  ## Make .venv from the pinned versions

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit("Python 3.11 or newer is needed: make PYTHON=python3.12 ...") if sys.version_info < (3, 11) else None'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt hatchling editables
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --no-build-isolation --editable '.[dev,docs,bench]'
	@touch $(STAMP)

setup-torch: $(TORCH)  ## Add PyTorch to .venv: tests of it skip without

$(TORCH): $(STAMP)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt torch
	@touch $(TORCH)

reproduce: $(STAMP)  ## Recompute the paper's figures and tables into $(OUT)/
	$(BIN)/oar reproduce --out $(OUT)

# What one process has compiled, the next takes from the cache: a fifth of the time. Bytecode is kept also where the
# environment says not to: without it every command that a test starts compiles the whole package.
test campaign test-lowest: export JAX_COMPILATION_CACHE_DIR := $(CURDIR)/.jax_cache
test campaign test-lowest: export JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS := 0.05
test campaign test-lowest: export JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES := -1
test campaign test-lowest: export PYTHONDONTWRITEBYTECODE :=
test campaign test-lowest: export OMP_NUM_THREADS := 1
# Tests run what they compile for moments, and LLVM's optimising takes a third of what JAX costs them. XLA's own passes are
# made all the same; campaigns and `test-lowest` run what is compiled as users have it.
test: export JAX_DISABLE_MOST_OPTIMIZATIONS := 1

# Two workers with one thread each have a core each; stealing work keeps most modules, and their fixtures, in one.
test: $(STAMP)  ## Run all tests, doctests included
	$(BIN)/python -m pytest -n 2 --dist worksteal -q -rs

campaign: $(STAMP)  ## Attack the package for half an hour: SEED=… for other draws, ONLY="proofs kills" for some
	$(BIN)/python -m tests.campaigns $(ONLY) --seed $(or $(SEED),0) --minutes $(or $(MINUTES),30)

test-lowest: $(STAMP)  ## Run all tests with the lowest versions that pyproject.toml allows, in .lowest
	$(BIN)/python -m tests.campaigns.lowest

lint: $(STAMP)  ## Check style, types and the direction of imports
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python tools/shape.py

shape: $(STAMP)  ## Count what makes readers walk, and trace seven calls
	$(BIN)/python tools/shape.py --walks

format: $(STAMP)  ## Format the code
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(STAMP)  ## Measure ratios, side by side in one run
	$(BIN)/python -m benchmarks

bench-peers: $(STAMP)  ## The leaderboard: peers in environments of their own, into docs/
	$(BIN)/python -m benchmarks.leaderboard --docs --json docs/figures/leaderboard.json

docs: $(STAMP)  ## Build the documentation into docs/_build
	$(BIN)/sphinx-build -W --keep-going -b html docs docs/_build

clean:  ## Remove the environment and everything built
	rm -rf $(VENV) $(OUT) .bench-envs .lowest docs/_build build dist .jax_cache .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
