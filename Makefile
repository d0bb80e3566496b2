# The whole developer interface. `make` alone explains it.

PYTHON ?= python3
PYTEST_ARGS ?=
# Most tests wait for real clocks and sockets: twice as many processes as cores keep two cores busy.
WORKERS ?= 4
SETTINGS ?=
DEMO_ARGS ?=

VENV_PYTHON := .venv/bin/python
READY := .venv/.ready
PACKAGES := $(wildcard function_app.py functions shared local pipeline benchmarks scripts tests/support tests/conformance)

.DEFAULT_GOAL := help
.PHONY: help setup run demo test check bench soak conformance clean

help:  ## explain every target (the default)
	@echo "Usage: make <target>"
	@echo
	@sed -n 's/^\([a-z]*\):.*  ## \(.*\)/\1@\2/p' Makefile | awk -F@ '{ printf "  %-12s %s\n", $$1, $$2 }'
	@echo
	@echo "The first call on a fresh clone makes .venv and installs everything pinned: Python packages and Azurite."
	@echo "That takes a minute or two; later calls skip it until a pinned list changes. Needed: python3 >= 3.11."
	@echo
	@echo "Variables: PYTHON=/path/to/python3.11     the Python that makes .venv"
	@echo "           PYTEST_ARGS='-k settings -x'   more arguments for test and soak"
	@echo "           WORKERS=1                      tests in one process"
	@echo "           SETTINGS=my.settings.json      settings file for run"
	@echo "           DEMO_ARGS='--fault throttle'   arguments for demo; --help explains them"

# Prerequisites are what set-up installs from: touching one of them makes set-up look again, and nothing else does.
$(READY): requirements.txt requirements-dev.txt requirements-judge.txt requirements-node.txt \
          requirements-java.txt pipeline/requirements.txt local/azurite/package.json local/azurite/package-lock.json scripts/setup.py
	@command -v $(PYTHON) >/dev/null || { echo "set-up: $(PYTHON) not found; install Python >= 3.11"; exit 1; }
	@$(PYTHON) scripts/setup.py

setup: $(READY)  ## make .venv and install everything (every other target calls it when needed)

run: $(READY)  ## start everything there is to run locally; Ctrl-C stops it
	@if [ -f local/__main__.py ]; then exec $(VENV_PYTHON) -m local $(SETTINGS); \
	else exec $(VENV_PYTHON) scripts/check_settings.py $(SETTINGS); fi

demo: $(READY)  ## rehearse an outage of the primary, with progress on screen and a report at the end
	@exec $(VENV_PYTHON) -m local.demo $(DEMO_ARGS)

test: $(READY)  ## run all tests but the soak tests (below 15 minutes)
	$(VENV_PYTHON) -m pytest -m "not soak" -n $(WORKERS) --durations=10 --durations-min=1 $(PYTEST_ARGS)

check: $(READY)  ## ruff and mypy --strict
	$(VENV_PYTHON) -m ruff check .
	$(VENV_PYTHON) -m mypy $(PACKAGES)

bench: $(READY)  ## measure, print the table and write build/bench.json
	$(VENV_PYTHON) -m benchmarks

soak: $(READY)  ## run the long tests (storms of kills, long outages, large backlogs)
	$(VENV_PYTHON) -m pytest -m soak --timeout=0 $(PYTEST_ARGS)

conformance: $(READY)  ## judge the embedded broker and write build/conformance.json
	$(VENV_PYTHON) -m tests.conformance

clean:  ## remove .venv, build/ and everything else that was made here
	rm -rf .venv .venv.lock build .data .hypothesis .azurite local/azurite/node_modules
	find . -name __pycache__ -type d -not -path './.git/*' -prune -exec rm -rf {} +
