# `make demo` and `make test` do everything on a machine that has Python >= 3.11, git and make.

# Looked for only when .venv has to be made.
PYTHON = $(firstword $(foreach name,python3 python3.14 python3.13 python3.12 python3.11,\
	$(shell $(name) -c 'import sys; sys.version_info >= (3, 11) and print("$(name)")' 2>/dev/null)))
BIN := .venv/bin
READY := .venv/.ready
PIP := $(BIN)/python -m pip install --disable-pip-version-check --quiet -c constraints.txt

.PHONY: help demo test test-all lint types clean

help:  ## show this list
	@sed -n 's/^\([a-z-]*\):.*## /\1	/p' Makefile

demo: $(READY)  ## run the main job and write a page with its figures
	$(BIN)/cucb demo

test: lint types  ## lint, types and the quick tests
	$(BIN)/pytest -n 2 -m "not slow"

test-all: lint types  ## lint, types and all tests, also the slow ones
	$(BIN)/pytest -n 2

lint: $(READY)  ## check style and layout
	$(BIN)/ruff check
	$(BIN)/ruff format --check

types: $(READY)  ## check types
	$(BIN)/mypy

clean:  ## remove .venv, caches and build files; keeps runs/
	rm -rf .venv build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis src/*.egg-info
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +

# The stamp is written last, so an install that was cut short is done again the next time.
$(READY): pyproject.toml constraints.txt
	@test -n "$(PYTHON)" || { echo "make: found no Python >= 3.11; install one (with its venv module) and try again" >&2; exit 1; }
	@echo "installing into .venv (only the first time, and when pyproject.toml or constraints.txt change)"
	@rm -f $(READY)
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv --clear .venv
	$(PIP) setuptools torch==2.13.0
	$(PIP) --no-build-isolation -e ".[dev]"
	@touch $(READY)
