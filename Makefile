# Two commands for a fresh clone: `make demo` and `make test`. Each sets up its own virtual environment in .venv first.
# `make test ARGS=--cov` also measures the coverage.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin

.PHONY: demo test fast docs build package clean

demo: $(VENV)/installed
	$(BIN)/faudit demo

test: $(VENV)/installed-dev
	PATH="$(abspath $(BIN)):$$PATH" scripts/check $(ARGS)

# What a developer runs while writing: the tests without those marked slow.
fast: $(VENV)/installed-dev
	$(BIN)/python -m pytest -n 2 -m "not slow"

# The documentation site in site/; a warning is an error. Open site/docs/index.html.
docs: $(VENV)/installed-dev
	$(BIN)/python -m sphinx -q -W --keep-going -c docs . site

# A wheel and an sdist in dist/.
build: $(VENV)/installed-dev
	rm -rf dist
	PIP_CONSTRAINT="$(abspath constraints.txt)" $(BIN)/python -m build

# The same, tried out: the wheel in an empty environment, the sdist by its own tests.
package: build
	PATH="$(abspath $(BIN)):$$PATH" scripts/check-package

$(VENV)/installed: pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit("faudit needs Python 3.10 or newer; say which with make PYTHON=...") if sys.version_info < (3, 10) else None'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt torch
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[report]'
	touch $@

$(VENV)/installed-dev: $(VENV)/installed
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	scripts/browser
	touch $@

clean:
	rm -rf $(VENV) demo dist site .coverage .pytest_cache .mypy_cache .ruff_cache .hypothesis
