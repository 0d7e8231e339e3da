# Two commands: `make run` does the main job, `make test` passes the tests. Each sets up what it needs.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin

.PHONY: run test test-slow lint types docs archives check clean

$(VENV)/.run: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install -q --disable-pip-version-check -e ".[inference,cosmology]"
	touch $@

$(VENV)/.dev: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install -q --disable-pip-version-check -e ".[dev]"
	touch $@ $(VENV)/.run

$(VENV)/.docs: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install -q --disable-pip-version-check -e ".[docs]"
	touch $@

run: $(VENV)/.run
	$(BIN)/fisherscore run weak-lensing --out runs/weak-lensing

test: $(VENV)/.dev
	$(BIN)/pytest

test-slow: $(VENV)/.dev
	$(BIN)/pytest -m slow tests

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports

types: $(VENV)/.dev
	$(BIN)/mypy
	$(BIN)/python tests/typing/check.py

docs: $(VENV)/.docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

# Wheel and source archive, each built, installed into an environment of its own and tried.
archives:
	$(PYTHON) tests/archives/check.py

check: lint types docs test test-slow archives

clean:
	rm -rf $(VENV) runs .pytest_cache .mypy_cache .ruff_cache
