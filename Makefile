# Everything a developer runs. Each target makes .venv by itself, from PyPI, with a Java when the machine has none.

PYTHON3 ?= python3
BIN := .venv/bin
SETUP = $(PYTHON3) scripts/setup_venv.py
JAVA = JAVA_HOME="$$($(BIN)/python -m whence.serve.java)" && export JAVA_HOME
BENCHES := sql capture tpcds rdd watch catalog serve diagnose explain actors guard

.PHONY: help demo test test-lakes fuzz coverage check docs clean $(BENCHES:%=bench-%)

help:
	@echo "make demo       the story: a strange total, traced to its log lines"
	@echo "make test       all tests"
	@echo "make test-lakes Delta and Iceberg, in an environment of their own with a Spark that they link with"
	@echo "make fuzz       generated queries and programs against their oracles; ARGS=--help for more"
	@echo "make coverage   all tests, and which lines they reach (slower)"
	@echo "make check      linters, types, layers, and every example in README and docs"
	@echo "make docs       write docs/cli.md anew"
	@echo "make bench-X    a measurement; X is one of: $(BENCHES)"
	@echo "make clean      remove .venv and what tools left behind"

demo:
	@$(SETUP)
	@$(BIN)/whence demo

test:
	@$(SETUP) dev
	@$(JAVA) && $(BIN)/pytest --ignore=tests/docs --ignore=tests/lakes $(ARGS)

# Their newest releases are for an older Spark than the newest that whence takes.
test-lakes:
	@$(SETUP) --venv .venv-lakes --spark 4.0 lakes
	@JAVA_HOME="$$(.venv-lakes/bin/python -m whence.serve.java)" && export JAVA_HOME && \
		.venv-lakes/bin/pytest tests/lakes $(ARGS)

fuzz:
	@$(SETUP) dev
	@$(JAVA) && PYTHONHASHSEED=0 PYTHONPATH=tests $(BIN)/python -m fuzz $(ARGS)

coverage:
	@$(SETUP) dev
	@$(JAVA) && $(BIN)/pytest --ignore=tests/docs --ignore=tests/lakes --cov --cov-report=term:skip-covered $(ARGS)

check:
	@$(SETUP) dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	@$(JAVA) && $(BIN)/pytest tests/docs $(ARGS)

docs:
	@$(SETUP) dev
	$(BIN)/python scripts/cli_docs.py

$(BENCHES:%=bench-%): bench-%:
	@$(SETUP) dev bench
	@$(JAVA) && $(BIN)/python -m bench.$(if $(filter capture,$*),sql_capture,$*) $(ARGS)

clean:
	rm -rf .venv .venv-lakes .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis .coverage htmlcov dist build
