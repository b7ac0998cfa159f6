# The two commands of the README: `make demo` and `make test`. Each sets up what it needs.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
export PYTHONDONTWRITEBYTECODE :=

.PHONY: demo examples test quick check docs bench chaos burst seeds soak forgetting histories layouts memory kafka compare compat lab-check clean

# the product, the lab and the benchmarks, all editable
PROJECTS := -e '.[dev]' -e lab -e benchmarks

$(VENV)/ready: pyproject.toml lab/pyproject.toml benchmarks/pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit("Braided needs Python 3.11 or newer; set PYTHON=...") if sys.version_info < (3, 11) else None'
	$(PYTHON) -m venv $(VENV)
	@# uv is twice as fast; where it cannot be had or does not reach the packages, pip goes on alone
	{ $(BIN)/python -m pip install --quiet --disable-pip-version-check uv && \
	  VIRTUAL_ENV=$(VENV) $(BIN)/uv pip install $(PROJECTS); } || \
	$(BIN)/python -m pip install --disable-pip-version-check $(PROJECTS)
	$(BIN)/python -c 'import braided.engine.kernels as k; print(f"kernels ready in {k.warm_up():.1f} s")'
	@touch $@

demo: $(VENV)/ready
	$(BIN)/braided demo

# all examples in this process, on Spark as job files and from Python; results must be the same
examples: $(VENV)/ready
	$(BIN)/python examples/run_all.py

# the tests with Spark, those of the engine and all others, side by side: Spark waits often, and goes first
# (it gives a Python worker ten seconds to start, so what starts Spark is not nice, and in one process)
ENGINE := tests/kernels tests/sides tests/operators tests/engine tests/local
SPARK := tests/spark benchmarks lab/tests/test_driver_selection.py lab/tests/test_metadata_join.py lab/tests/test_window_join.py
test: check docs
	@mkdir -p build; \
	BRAIDED_SEEDS=0.4 $(BIN)/python -m pytest $(SPARK) > build/spark-tests.txt 2>&1 & spark=$$!; \
	BRAIDED_SEEDS=0.2 nice $(BIN)/python -m pytest $(ENGINE) > build/engine-tests.txt 2>&1 & engine=$$!; \
	$(BIN)/python -m pytest tests src lab $(SPARK:%=--ignore=%) $(ENGINE:%=--ignore=%); others=$$?; \
	wait $$engine; engine=$$?; cat build/engine-tests.txt; \
	wait $$spark; spark=$$?; cat build/spark-tests.txt; \
	[ $$others -eq 0 ] && [ $$engine -eq 0 ] && [ $$spark -eq 0 ]

# what to run after every edit: the checks, and the tests that are fast, side by side; at most 90 seconds
quick: $(VENV)/ready
	@mkdir -p build; \
	$(BIN)/mypy > build/mypy.txt 2>&1 & types=$$!; \
	$(BIN)/ruff format --check . && $(BIN)/ruff check . && $(BIN)/lint-imports > build/imports.txt; style=$$?; \
	[ $$style -eq 0 ] || cat build/imports.txt; \
	BRAIDED_SEEDS=0.2 $(BIN)/python -m pytest -m 'not slow' $(ENGINE) tests/query tests/policies tests/test_house.py; tests=$$?; \
	wait $$types; types=$$?; cat build/mypy.txt; \
	[ $$style -eq 0 ] && [ $$types -eq 0 ] && [ $$tests -eq 0 ]

check: $(VENV)/ready
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# which pages of papers were measured on code that has changed since
lab-check: $(VENV)/ready
	$(BIN)/python -m braided_lab.measured

# the documentation as pages: build/site/index.html; a link that leads nowhere is an error
docs: $(VENV)/ready
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

bench: $(VENV)/ready
	$(BIN)/braided bench engine

chaos: $(VENV)/ready
	$(BIN)/python -m braided_benchmarks.chaos --kills 20 --suicide
	$(BIN)/python -m braided_benchmarks.chaos --kills 10 --suicide --keys 2
	$(BIN)/python -m braided_benchmarks.chaos --kills 10 --suicide --promises
	$(BIN)/python -m braided_benchmarks.chaos --kills 10 --suicide --optional
	$(BIN)/python -m braided_benchmarks.chaos --kills 10 --suicide --optional --keys 2
	$(BIN)/python -m braided_benchmarks.chaos --kills 10 --suicide --limit 100000
	$(BIN)/python -m braided_benchmarks.chaos --kills 10 --suicide --limit 100000 --defer
	$(BIN)/python -m braided_benchmarks.changes --changes 20 --kills 12 --suicide
	$(BIN)/python -m braided_benchmarks.chaos --kills 0 --executor-kills 4 --suicide --dawdle --batches 30 --master cluster

burst: $(VENV)/ready
	$(BIN)/python -m braided_benchmarks.burst --plan mjoin
	$(BIN)/python -m braided_benchmarks.burst --plan linear
	$(BIN)/python -m braided_benchmarks.surge --shed probes
	$(BIN)/python -m braided_benchmarks.surge --shed input
	$(BIN)/python -m braided_benchmarks.shedding

# what is compared with an oracle, with eight times as many random cases as in `make test`, and all pairs
seeds: $(VENV)/ready
	BRAIDED_SEEDS=8 $(BIN)/python -m pytest $(ENGINE) tests/spark -k oracle

# a simulated checkpoint's history each, 20,000 of them: hours on one core
histories: $(VENV)/ready
	BRAIDED_SEEDS=67 $(BIN)/python -m pytest -q tests/spark/test_histories.py -k oracle

# what grids, hot keys, joins without a key and many buckets cost on Spark
layouts: $(VENV)/ready
	$(BIN)/python -m braided_benchmarks.layouts

soak: $(VENV)/ready
	$(BIN)/python -m braided_benchmarks.soak --batches 300

memory: $(VENV)/ready
	$(BIN)/python -m braided_benchmarks.memory
	$(BIN)/python -m braided_benchmarks.spark_memory
	$(BIN)/python -m braided_benchmarks.early --rows 60000 --within 10

forgetting: $(VENV)/ready
	$(BIN)/python -m braided_benchmarks.forgetting --batches 50

# topics of a broker that is started here, joined by a driver that is killed; Maven fetches the jars
kafka: $(VENV)/ready
	$(BIN)/python -m braided_benchmarks.kafka_jars build/kafka
	$(BIN)/python -m pytest benchmarks/tests/test_kafka.py
	$(BIN)/python -m braided_benchmarks.kafka --batches 6 --kills 2

# Braided, Spark's own joins, Flink and Pathway through the same scenarios: the tables of docs/start/comparison.md; an hour
RIVALS := build/rivals
compare: $(VENV)/ready $(RIVALS)/flink/ready $(RIVALS)/pathway/ready
	$(BIN)/braided compare --rivals $(RIVALS) --out docs/includes/comparison.md

$(RIVALS)/flink/ready: PACKAGE = apache-flink==2.3.*
$(RIVALS)/pathway/ready: PACKAGE = pathway==0.33.*
$(RIVALS)/%/ready:
	$(PYTHON) -m venv $(@D)
	$(@D)/bin/python -m pip install --quiet --disable-pip-version-check '$(PACKAGE)'
	@touch $@

# the join's tests on earlier releases of Spark, each in an environment of its own
COMPAT ?= 4.0 4.1 4.2
compat: $(VENV)/ready
	@for version in $(COMPAT); do \
	  env=build/compat/$$version; \
	  [ -x $$env/bin/pytest ] || { $(PYTHON) -m venv $$env && $$env/bin/python -m pip install --quiet \
	    --disable-pip-version-check "pyspark==$$version.*" -e '.[all]' hypothesis pytest; } || exit 1; \
	  echo "Spark $$version"; \
	  PYSPARK_PYTHON=$$PWD/$$env/bin/python $$env/bin/python -m pytest -W ignore::ResourceWarning \
	    -W ignore::pytest.PytestUnraisableExceptionWarning tests/spark/test_join.py tests/spark/test_types.py || exit 1; \
	done

clean:
	rm -rf $(VENV) build dist out .mypy_cache .ruff_cache .pytest_cache .hypothesis
