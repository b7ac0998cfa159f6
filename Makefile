# The two commands of the README: `make demo` and `make test`. Each sets up what it needs.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
export PYTHONDONTWRITEBYTECODE :=

.PHONY: demo test check bench chaos clean

$(VENV)/ready: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit("Braided needs Python 3.11 or newer; set PYTHON=...") if sys.version_info < (3, 11) else None'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --compile -e '.[dev]'
	$(BIN)/python -c 'import braided.kernels as k; print(f"kernels ready in {k.warm_up():.1f} s")'
	@touch $@

demo: $(VENV)/ready
	$(BIN)/braided demo

test: check
	$(BIN)/python -m pytest

check: $(VENV)/ready
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(VENV)/ready
	$(BIN)/braided bench engine

chaos: $(VENV)/ready
	$(BIN)/python -m braided.bench.chaos --kills 20 --suicide

clean:
	rm -rf $(VENV) build dist out .mypy_cache .ruff_cache .pytest_cache .hypothesis
