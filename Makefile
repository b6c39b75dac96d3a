# `make demo` and `make test` need only Python >= 3.11, git and make.

# Evaluated only when .venv has to be created.
PYTHON = $(firstword $(foreach name,python3 python3.14 python3.13 python3.12 python3.11,\
	$(shell $(name) -c 'import sys; sys.version_info >= (3, 11) and print("$(name)")' 2>/dev/null)))
BIN := .venv/bin
DEMO := .venv/.ready-demo
TEST := .venv/.ready-test
PIP := $(BIN)/python -m pip install --disable-pip-version-check --quiet -c constraints.txt
PACKAGE := $(PIP) --no-build-isolation -e

.PHONY: help demo test test-all test-faults lint types docs docs-serve spell bench clean

help:  ## show this list
	@sed -n 's/^\([a-z-]*\):.*## /\1	/p' Makefile

demo: $(DEMO)  ## run the demo and write an HTML page with its figures
	$(BIN)/cucb demo

test: lint types  ## lint, types and the quick tests
	$(BIN)/pytest -n 2 -m "not slow"

test-all: lint types  ## lint, types and all tests, including the slow ones
	$(BIN)/pytest -n 2

test-faults: $(TEST)  ## kill runs and damage their files at random, more often than in `make test`
	$(BIN)/pytest -n 2 tests/faults --faults corruption=200,kills=100

lint: $(TEST)  ## check style, layout and the direction of imports
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/lint-imports

types: $(TEST)  ## check types
	$(BIN)/mypy

docs: $(TEST)  ## build the documentation site into site/; warnings are errors
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

docs-serve: $(TEST)  ## serve the site while you write, without running the tutorials
	NO_MKDOCS_2_WARNING=1 CUCB_EXECUTE_TUTORIALS=false $(BIN)/mkdocs serve --livereload

spell: $(TEST)  ## check the spelling, in American English
	$(BIN)/codespell

bench: $(TEST)  ## measure the costs that the documentation states; NAME=deep selects one benchmark
	$(BIN)/python -m benchmarks $(NAME) $(ARGS)

clean:  ## remove .venv, caches and build files; keeps runs/
	rm -rf .venv build dist site .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis src/*.egg-info
	find src tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +

# Each stamp is written last, so an interrupted installation is repeated the next time.
$(DEMO): pyproject.toml constraints.txt
	@test -n "$(PYTHON)" || { echo "make: found no Python >= 3.11; install one (with its venv module) and try again" >&2; exit 1; }
	@echo "installing the package into .venv (once, and whenever pyproject.toml or constraints.txt change)"
	@rm -f $(DEMO) $(TEST)
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv --clear .venv
	$(PIP) setuptools torch==2.13.0
	$(PACKAGE) .
	@touch $(DEMO)

$(TEST): $(DEMO)
	@echo "installing the extras and the development tools into .venv"
	@rm -f $(TEST)
	$(PACKAGE) ".[dev]"
	@touch $(TEST)
