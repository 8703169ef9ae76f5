.DEFAULT_GOAL := help
PYTHON ?= python3
APP := .venv/bin
MEASURED := .pyrometer/environments/default
# One definition of what is measured by default: the `worker` extra. `make setup TORCH='torch==2.15.*'` overrides it.
TORCH ?= $(shell $(PYTHON) -c "import tomllib; print(tomllib.load(open('pyproject.toml', 'rb'))['project']['optional-dependencies']['worker'][0])")

# Each command and each test process would compile all it imports anew, for seconds.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help setup run test test-slow test-all check bench format docs

help:  ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/'

setup: $(APP)/.ready $(MEASURED)/.ready  ## the program (.venv) and an environment to measure (.pyrometer/environments/default)

$(APP)/.ready: pyproject.toml uv.lock
	@$(PYTHON) -c 'import sys; sys.exit("Pyrometer needs Python 3.11 or newer; this is " + sys.version.split()[0] + ". Try: make PYTHON=python3.12") if sys.version_info < (3, 11) else None'
	test -x $(APP)/python || $(PYTHON) -m venv .venv
	test -x $(APP)/uv || $(APP)/python -m pip install --quiet "uv>=0.13,<0.14"
	UV_PROJECT_ENVIRONMENT=.venv $(APP)/uv sync --locked --quiet --inexact --compile-bytecode --extra postgres --extra oidc --extra fleet --extra mcp
	@touch $@

# pip, not uv: pip obeys the user's own package configuration (mirrors, find-links), so that the wheel fits this machine.
# Beside torch: setuptools for Inductor's C++, the three of ONNX for export=onnxruntime (6 s, 113 MB).
$(MEASURED)/.ready: pyproject.toml
	test -x $(MEASURED)/bin/python || $(PYTHON) -m venv $(MEASURED)
	$(MEASURED)/bin/python -m pip install --quiet --disable-pip-version-check "$(TORCH)" numpy setuptools onnx onnxscript onnxruntime
	$(MEASURED)/bin/python -c "import torch; print('measured environment: torch', torch.__version__)"
	@touch $@

run: setup  ## measure this machine with suite `smoke`, then open the dashboard on 127.0.0.1:8501
	@$(APP)/pyrometer run --suite smoke || [ $$? -eq 1 ]
	@$(APP)/pyrometer dashboard

# One more than a small machine has cores: tests wait for databases, clusters, browsers and processes that start.
PROCESSES ?= 3

PYTEST = $(APP)/python -m pytest --dist loadfile --no-loadscope-reorder

test: setup  ## the fast tests (about six minutes), naming what was skipped and why
	$(PYTEST) --numprocesses $(PROCESSES) -m "not slow"

test-slow: setup  ## the slow tests: clusters, browsers, real measurements, random kills
	$(PYTEST) --numprocesses $(PROCESSES) -m slow

test-all: test test-slow  ## every test this machine can run

check: setup  ## format, lint, types, import contracts
	$(APP)/ruff format --check .
	$(APP)/ruff check .
	$(APP)/pyright
	$(APP)/pyright -p runner/pyrightconfig.json --pythonpath $(MEASURED)/bin/python
	$(APP)/lint-imports

# A benchmark's docstring says how it is started; what has no such line is a part of others.
BENCHMARKS ?= $(shell grep -l '^    python benchmarks/' benchmarks/*.py)

bench: setup  ## benchmarks against named peers (hours; one: make bench BENCHMARKS=benchmarks/store.py)
	@failed=; for b in $(BENCHMARKS); do echo "== $$b"; $(APP)/python $$b || failed="$$failed $$b"; done; \
	if [ -n "$$failed" ]; then echo "failed:$$failed" >&2; exit 1; fi

format: setup  ## rewrite in the house style
	$(APP)/ruff format . && $(APP)/ruff check --fix .

docs: setup  ## write the generated pages of docs/: commands, settings, suites
	$(APP)/python -m cli.reference docs
