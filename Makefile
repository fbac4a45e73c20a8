# Everything a newcomer needs is made by the targets themselves: a virtual environment in .venv, the package, the tools.
PYTHON ?= $(firstword $(foreach v,python3 python3.13 python3.12 python3.11 python3.10,$(shell $(v) -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null && echo $(v))))
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test check lint bench clean

$(VENV)/.installed: pyproject.toml
	@test -n "$(PYTHON)" || { echo "Python 3.10 or newer is needed"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -q --disable-pip-version-check -e '.[dev]'
	@touch $@

demo: $(VENV)/.installed
	$(BIN)/python samples/demo.py --all

test: $(VENV)/.installed
	$(BIN)/python -m pytest -n auto

lint: $(VENV)/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

check: lint test

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache
