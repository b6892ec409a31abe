# Everything a developer runs. Each target makes .venv by itself, from PyPI, with a Java when the machine has none.

PYTHON3 ?= python3
# The Spark that Delta and Iceberg are tried with: 4.0, 4.1 or 3.5; 4.2 has Delta alone.
LAKES ?= 4.0
BIN := .venv/bin
# Some environments tell Python to keep nothing that it has compiled. Hundreds of programs are started here, and each would
# compile pandas and PySpark anew.
unexport PYTHONDONTWRITEBYTECODE
SETUP = $(PYTHON3) scripts/setup_venv.py
JAVA = JAVA_HOME="$$($(BIN)/python -m whence.serve.java)" && export JAVA_HOME
# An archive of Spark's classes, with which JVMs start in half the time: made once in an environment.
QUICK = $(JAVA) && $(BIN)/python tests/jvm.py
BENCHES := sql crossing capture tpcds rdd watch catalog diagnose explain actors guard minimize arrays chunks page serve yesterday appends growth

# Tests that need other programs, or executors, sessions and runs of pytest of their own: real, and slower than the rest.
SERVICES := tests/session/test_elsewhere.py tests/session/test_yesterday.py tests/session/test_connect.py \
	tests/sql/test_written_elsewhere.py tests/crossing/test_elsewhere.py tests/debug/test_scripts.py tests/debug/test_fixture_runs.py \
	tests/rdd/test_faults.py tests/watch/test_world.py tests/watch/test_never_hurts.py \
	tests/serve/test_serve_process.py tests/serve/test_row_commands.py tests/serve/test_schema.py tests/rdd/test_pyspark_doctests.py \
	tests/test_lanes.py tests/test_examples_are_the_same.py tests/page
# `make test WITH=services` runs them too, in a lane beside the others, while these compute.
BESIDE = $(if $(filter services,$(WITH)),--beside $(SERVICES))
# `make test WITH="services coverage"` says which lines all of them reach, too.
MEASURED = $(if $(filter coverage,$(WITH)),--coverage)
# `make test WITH="services remember"` writes down what processor time each file takes, by which the lanes are dealt.
REMEMBERED = $(if $(filter remember,$(WITH)),--remember)
# Tests that have a command of their own.
ELSEWHERE := tests/docs tests/lakes tests/recipes tests/cluster tests/examples

.PHONY: help demo test test-services test-processes test-cluster test-page test-lakes test-versions test-recipes fuzz coverage check check-style check-types check-examples docs \
	site notebooks pictures dist clean $(BENCHES:%=bench-%) bench-lakes

help:
	@echo "make demo       the story: a strange total, traced to its log lines"
	@echo "make test       the tests, in three lanes side by side; WITH=services has those of test-processes in a fourth"
	@echo "make test-services  tests that start servers, clusters and sessions of their own: the next three"
	@echo "make test-processes  databases, brokers, browsers, separate executors, programs with sessions of their own: what CI runs of them"
	@echo "make test-cluster  a standalone cluster, and stores on S3 and HDFS"
	@echo "make test-page  builds the web page (ui/) and tests it in chromium"
	@echo "make test-lakes Delta and Iceberg, in an environment of their own with a Spark that they link with (LAKES=3.5, LAKES=4.1, LAKES=4.2)"
	@echo "make test-versions  a sample of the tests on every release of Spark from 3.5 to 4.3; ARGS=--help for more"
	@echo "make test-recipes  dbt, pandera and Airflow, the real ones, in environments of their own"
	@echo "make fuzz       generated queries and programs against their oracles; ARGS=--help for more"
	@echo "make coverage   the tests with those of test-processes, and which lines they reach: what CI runs"
	@echo "make check      linters, types, layers, and every example in README and docs"
	@echo "make docs       write docs/cli.md and the table in docs/numpy.md anew"
	@echo "make site       the documentation's site, into site/"
	@echo "make notebooks  run the notebooks in examples/ and keep what they print"
	@echo "make pictures   the pictures in docs/images, from real runs"
	@echo "make dist       wheel and sdist, checked, and tried in an empty environment"
	@echo "make bench-X    a measurement; X is one of: $(BENCHES) lakes"
	@echo "make clean      remove .venv and what tools left behind"

demo:
	@$(SETUP) spark cli
	@$(BIN)/whence demo

test:
	@$(SETUP) dev
	@$(QUICK) && $(if $(ARGS),$(BIN)/pytest $(ARGS),$(BIN)/python scripts/lanes.py tests --without $(ELSEWHERE) $(SERVICES) $(BESIDE) $(MEASURED) $(REMEMBERED))

test-services: test-processes test-cluster test-lakes

# What starts servers or many sessions of its own, in some minutes.
test-processes:
	@$(SETUP) dev
	@$(QUICK) && $(if $(ARGS),$(BIN)/pytest $(ARGS),$(BIN)/python scripts/lanes.py $(SERVICES))

# Spark's standalone cluster on loopback, and stores that it reaches. What is not to be had is said.
test-cluster:
	@$(SETUP) dev
	@$(JAVA) && $(BIN)/pytest tests/cluster -rs $(ARGS)

# The page: its pieces with vitest, the whole in chromium over a real server. What is missing is said.
test-page:
	@$(SETUP) dev
	@$(BIN)/python scripts/page_hook.py
	@if command -v npm >/dev/null && [ -d ui/node_modules ]; then cd ui && npm test --silent; \
		else echo "npm is not here: the unit tests of ui/ are left out"; fi
	@$(JAVA) && $(BIN)/pytest tests/page -q -rs $(ARGS)

# Their newest releases are for an older Spark than the newest that whence takes.
test-lakes:
	@$(SETUP) --venv .venv-lakes-$(LAKES) --spark $(LAKES) lakes
	@JAVA_HOME="$$(.venv-lakes-$(LAKES)/bin/python -m whence.serve.java)" && export JAVA_HOME && \
		.venv-lakes-$(LAKES)/bin/pytest tests/lakes $(ARGS)

# Each release in an environment of its own; a whole run writes the table in docs/versions.md.
test-versions:
	@$(PYTHON3) scripts/versions.py $(ARGS)

# dbt and Airflow pin much of what others use too.
test-recipes:
	@$(SETUP) --venv .venv-recipes recipes
	@$(SETUP) --venv .venv-airflow airflow
	@JAVA_HOME="$$(.venv-recipes/bin/python -m whence.serve.java)" && export JAVA_HOME && \
		.venv-recipes/bin/pytest tests/recipes $(ARGS)

fuzz:
	@$(SETUP) dev
	@$(JAVA) && PYTHONHASHSEED=0 PYTHONPATH=tests $(BIN)/python -m fuzz $(ARGS)

coverage:
	@$(MAKE) --no-print-directory test WITH="services coverage"

check: check-style
	@$(MAKE) --no-print-directory -j2 check-types check-examples

check-style:
	@$(SETUP) dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

# Side by side: each of them keeps one core busy.
check-types:
	$(BIN)/mypy
	$(BIN)/lint-imports

check-examples:
	@$(QUICK) && $(BIN)/pytest tests/docs $(ARGS)

docs:
	@$(SETUP) dev
	$(BIN)/python scripts/cli_docs.py
	$(BIN)/python scripts/numpy_docs.py
	$(BIN)/python scripts/api_docs.py

# Built from what is here: nothing is loaded from elsewhere, neither now nor by a reader.
site:
	@$(SETUP) dev
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
	@echo "to read it: python3 -m http.server -d site, then http://localhost:8000"

notebooks:
	@$(SETUP) dev
	@$(JAVA) && $(BIN)/python scripts/notebooks.py $(ARGS)

pictures:
	@$(SETUP) dev
	@$(JAVA) && $(BIN)/python scripts/pictures.py $(ARGS) && $(BIN)/python scripts/page_pictures.py

dist:
	@$(SETUP) dev
	@$(BIN)/python scripts/dist.py $(ARGS)

$(BENCHES:%=bench-%): bench-%:
	@$(SETUP) dev bench
	@$(JAVA) && $(BIN)/python -m bench.$(if $(filter capture,$*),sql_capture,$*) $(ARGS)

# Beside Parquet, with a Spark that both link with.
bench-lakes:
	@$(SETUP) --venv .venv-lakes-$(LAKES) --spark $(LAKES) lakes
	@JAVA_HOME="$$(.venv-lakes-$(LAKES)/bin/python -m whence.serve.java)" && export JAVA_HOME && \
		.venv-lakes-$(LAKES)/bin/python -m bench.lakes $(ARGS)

clean:
	rm -rf .venv .venv-lakes-* .venv-spark-* .venv-recipes .venv-airflow .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis \
		.coverage htmlcov dist build site ui/node_modules src/whence/serve/page
