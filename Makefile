# Everything starts from the python3 at hand: the first call makes .venv, later calls start at once.
.DEFAULT_GOAL := help
PYTHON ?= python3
BIN := .venv/bin
# How many processes run the tests, each with a Postgres of its own. Most of them wait more than they compute.
JOBS ?= 4
# Tests of the machine measure, and load both cores of a small one.
SLOW_JOBS ?= 2
# Which older Postgres test-postgres runs them on.
MAJOR ?= 14

.PHONY: help demo test test-postgres test-machine test-slow check mutate lint types layers bench bench-flows bench-peers bench-insights bench-limits bench-soak bench-telemetry bench-ways schema lock clean

help:  ## what can be made
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  make \1\t/' | expand -t 16

.venv/ready: requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("Holdfast needs Python 3.11 or later, $(PYTHON) is " + sys.version.split()[0] + ": call make PYTHON=python3.11")'
	@echo "Setting up .venv (once)" >&2
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

demo: .venv/ready  ## a small shop on a private Postgres; KEEP=1 leaves it running
	@$(BIN)/python -m demo $(if $(KEEP),--keep)

test: .venv/ready  ## the tests that need only python3 and make
	@$(BIN)/python -m pytest -m "not machine" --numprocesses $(JOBS) $(ARGS)

test-postgres: .venv/ready  ## the tests on an older Postgres: MAJOR=14 to 17
	@scripts/install-postgres $(MAJOR)
	@HOLDFAST_PG_BIN=$(CURDIR)/.postgres/$(MAJOR)/bin $(BIN)/python -m pytest -m "not machine" --numprocesses $(JOBS) \
		--ignore-glob='tests/test_benchmarks*' $(ARGS)

test-machine: .venv/ready  ## the tests that need more (see scripts/install-machine-tools)
	@$(BIN)/python -m pytest -m machine --numprocesses $(SLOW_JOBS) $(ARGS)

# Of the machine tests those that need no root, and set up no other systems to measure.
test-slow: .venv/ready  ## the tests that take their time, and need no root
	@$(BIN)/python -m pytest -m "machine and not root" --numprocesses $(SLOW_JOBS) --ignore-glob='tests/test_benchmarks*' $(ARGS)

check: lint types layers test test-slow  ## lint, types, import layers, all tests that need no root

mutate: .venv/ready  ## does a test notice? a random part of tests/mutations/breaks.py; SEED=…, ONLY=…, ALL=1
	@PYTHONPATH=tests $(BIN)/python -m mutations.mutate $(if $(ALL),--all) $(if $(SEED),--seed $(SEED)) $(if $(ONLY),--only "$(ONLY)")

lint: .venv/ready  ## ruff
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check

types: .venv/ready  ## mypy, strict
	@$(BIN)/mypy

layers: .venv/ready  ## upper layers import lower ones, never the other way round
	@$(BIN)/lint-imports --no-cache

bench: .venv/ready  ## measure, as ratios
	@$(BIN)/python -m benchmarks $(ARGS)

# The lock names all that they need: without --no-deps pip asks for the newest psycopg[binary] beside the pinned psycopg.
.venv-bench/ready: requirements-bench.lock pyproject.toml
	@echo "Setting up .venv-bench (once)" >&2
	@test -x .venv-bench/bin/python || $(PYTHON) -m venv .venv-bench
	@.venv-bench/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r requirements-bench.lock
	@.venv-bench/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

bench-peers: .venv-bench/ready  ## the worker beside pgqueuer, awa-pg and procrastinate; writes a page of docs/
	@.venv-bench/bin/python -m benchmarks.peers $(ARGS)

bench-ways: .venv-bench/ready  ## each way to run a job, beside the bare thing; ARGS=--list names them; writes a page of docs/
	@.venv-bench/bin/python -m benchmarks.ways $(ARGS)

bench-flows: .venv-bench/ready  ## flows beside dbos and absurd-sdk; writes a page of docs/
	@.venv-bench/bin/python -m benchmarks.flows $(ARGS)

bench-soak: .venv-bench/ready  ## ten minutes of steady state, with pruning
	@.venv-bench/bin/python -m benchmarks.peers soak $(ARGS)

bench-insights: .venv/ready  ## what operators ask, with five million jobs
	@$(BIN)/python -m benchmarks.insights $(ARGS)

bench-limits: .venv/ready  ## what limits cost, beside the same jobs without; writes a page of docs/
	@$(BIN)/python -m benchmarks.limits $(ARGS)

bench-telemetry: .venv/ready  ## what metrics and tracing cost a job in CPU time
	@$(BIN)/python -m benchmarks.telemetry $(ARGS)

schema: .venv/ready  ## write the snapshot of the migrated schema anew
	@$(BIN)/python scripts/schema-snapshot

lock: .venv/ready  ## pin the newest versions, with hashes and without the address of any registry
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check uv
	@$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-emit-index-url \
		--no-emit-find-links --extra embedded --extra fast --extra opentelemetry --group dev --upgrade pyproject.toml -o requirements.lock
	@$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-emit-index-url \
		--no-emit-find-links --extra embedded --extra fast --group bench --upgrade pyproject.toml -o requirements-bench.lock

clean:  ## forget .venv, older Postgres and every cache
	@rm -rf .venv .venv-bench .postgres .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
