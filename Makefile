# A Python of 3.11 or later; everything else is installed into a folder of the project.
PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin
# The products are small: on a busy machine the threads of one would only wait for each other.
export OPENBLAS_NUM_THREADS ?= 1
# Where it is set, each of the thousands of processes that the tests start would compile anew.
unexport PYTHONDONTWRITEBYTECODE
PIP = $(BIN)/python -m pip --disable-pip-version-check --quiet

.PHONY: demo compiled test agents attacks containers as-user documents harbor fleet core package docs check golden broken fuzz bench bench-run bench-fleet coverage coverage-page study clean

demo: $(VENV)/runtime
	@$(BIN)/twoarm demo

# Some of those processes may not write, so that nothing is left for them to compile.
compiled: $(VENV)/dev
	@$(BIN)/python -m compileall -q src

# Tests that start what others made, or do at length what a user would do: each has a target of its own.
APART = tests/agents tests/attacks tests/containers tests/documents tests/fleet tests/forge/workflows tests/harbor
# A file stays with one worker, so that what a module starts, such as a browser, starts once.
PYTEST = $(BIN)/python -m pytest -n auto --dist loadfile --no-loadscope-reorder

# The last lines say what was skipped for want of a browser or of agents, and how to have it.
test: compiled
	$(PYTEST) $(APART:%=--ignore %)
	@echo "With targets of their own: make documents attacks containers agents harbor fleet"

# What the documents, the examples and the action say is done as it is written.
documents: compiled
	$(PYTEST) tests/documents tests/forge/workflows

# The real agents, which are installed first (1.3 GB from npm), against a scripted model.
agents: compiled
	@tools/agents.sh
	$(PYTEST) tests/agents

# What `twoarm run` must withstand: about 750 agents, suites and run folders that mean harm.
attacks: compiled
	$(BIN)/python -m pytest -n auto tests/attacks

# Real containers; without podman they are skipped, which tools/install-podman.sh changes.
containers: compiled
	$(BIN)/python -m pytest -n auto tests/containers

# Isolation once more, for a user who is not root: sandboxes, and containers without a network.
as-user: compiled
	tools/as_user.sh $(BIN)/python -m pytest -p no:cacheprovider -n auto -k "not docker" \
	  tests/run/test_shown.py tests/run/test_shown_links.py tests/run/test_isolation.py \
	  tests/attacks/test_run_sealed.py tests/containers/test_refused.py \
	  tests/containers/test_images.py tests/containers/test_runs.py::test_a_whole_run_in_containers \
	  tests/containers/test_runs.py::test_acceptance_reads_files_of_the_suite_that_no_agent_sees \
	  tests/containers/test_runs.py::test_what_an_agent_leaves_is_kept_if_asked_for \
	  tests/containers/test_starts.py::test_what_is_kept_back_is_hidden_in_what_is_shown

# The real Harbor, which is installed first (380 MB), with podman; about a minute.
harbor: compiled
	@tools/harbor.sh
	$(BIN)/python -m pytest -n 2 tests/harbor

# A cluster of Ray in namespaces of its own; about five minutes, ONLY=tests/fleet/test_runs.py one of them.
fleet: compiled .venv-ray/ready
	$(BIN)/python -m pytest $(or $(ONLY),tests/fleet)

# What can differ between Pythons: numbers and text read and written, argparse, signals and processes,
# the calls of the file system, the tables of Unicode. Of each room the files that do most of it and
# take least; what is arithmetic alone is the same everywhere.
CORE = tests/text tests/files/test_safe_files.py \
  tests/runs/test_reading.py tests/runs/test_nothing_lost.py tests/runs/test_arrays.py \
  tests/programs/test_formats.py tests/programs/test_codex.py tests/programs/test_cells.py \
  tests/programs/test_harbor.py tests/programs/test_inspect.py tests/programs/test_sidecar.py \
  tests/collect/test_rules.py tests/collect/test_arms.py tests/collect/test_prices.py \
  tests/run/test_suite.py tests/run/test_loop.py tests/run/test_supervisor.py \
  tests/compare/test_rules.py tests/compare/test_screening.py tests/compare/test_trials.py \
  tests/evidence/test_evidence.py tests/evidence/test_resampling.py tests/evidence/test_stability.py \
  tests/explain/test_tool_use.py tests/result/test_one_voice.py tests/planning/test_power.py \
  tests/render/test_hostile_names.py tests/render/test_golden.py tests/run_pages/test_tokens.py \
  tests/commands/test_options.py tests/commands/test_mistakes.py tests/commands/test_cli.py
core: $(VENV)/core
	@$(BIN)/python -m compileall -q src
	$(BIN)/python -m pytest -n auto --dist loadfile $(CORE)

# The package as a user gets it, on every Python that is named: PYTHONS="python3.12 python3.13".
PYTHONS ?= $(PYTHON)
package: $(VENV)/dev
	$(BIN)/python tools/package.py $(RELEASE:%=--release %) $(PYTHONS)

# The documents as a site, in build/docs; a warning is an error.
docs: $(VENV)/dev
	$(BIN)/sphinx-build -W --keep-going -q -b html docs build/docs
	@echo "open build/docs/index.html"

check: $(VENV)/dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# Writes the golden files, the console blocks of the documents and docs/reference anew; look at the difference before you commit it.
golden: $(VENV)/dev
	$(BIN)/python -m tools.reference
	$(BIN)/python -m pytest --update-golden tests/render/test_golden.py tests/render/test_ci.py tests/page/test_page.py tests/collect/test_cli.py tests/documents/test_docs.py

# Breaks every rule once, on purpose, and fails if the tests do not notice; SHARE=10 breaks a tenth of them.
broken: $(VENV)/dev
	$(BIN)/python -m tests.break_rules $(SHARE:%=--share %) $(SEED:%=--seed %) $(ONLY)

# Fresh seeds for every fuzzer in tests/fuzz; a finding is printed with the seed that repeats it.
FUZZ_SECONDS ?= 600
fuzz: $(VENV)/dev
	$(BIN)/python -m tests.fuzz --seconds $(FUZZ_SECONDS) $(ONLY)

# About 15 minutes, 8 GB of disk and Debian's jq; SIZES=20 is quick.
bench:
	$(PYTHON) benchmarks/bench.py

# What twoarm run promises in numbers; about five minutes. PARTS="overhead kills" for some of them.
bench-run: $(VENV)/dev
	$(BIN)/python benchmarks/run.py $(PARTS)

# The same for runs on a cluster of Ray; about fifteen minutes. PARTS="overhead slots gone" for some of them.
bench-fleet: $(VENV)/dev .venv-ray/ready
	$(BIN)/python -m benchmarks.fleet $(PARTS)

# The simulation behind docs/coverage.md; about two hours on one core, DATASETS=50 for a quick look.
coverage: $(VENV)/dev
	$(BIN)/python -m benchmarks.coverage

# Writes its tables into the documents again, from docs/coverage.json.
coverage-page: $(VENV)/dev
	$(BIN)/python -m benchmarks.coverage page

# The tables and the figures of docs/study.md, from the runs.csv that the study published.
study: $(VENV)/dev
	$(BIN)/python -m benchmarks.study $(RUNS) --write

$(VENV)/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "twoarm needs Python 3.11 or later: make PYTHON=python3.12 ...")'
	$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/runtime: $(VENV)/python pyproject.toml constraints.txt
	$(PIP) install -c constraints.txt -e .
	@touch $@

$(VENV)/dev: $(VENV)/python pyproject.toml constraints.txt
	$(PIP) install -c constraints.txt -e ".[dev]"
	@touch $@ $(VENV)/core $(VENV)/runtime

$(VENV)/core: $(VENV)/python pyproject.toml constraints.txt
	$(PIP) install -c constraints.txt -e ".[core]"
	@touch $@

# Ray and what it needs, beside twoarm as it is here: 515 MB that nobody else has to install.
.venv-ray/ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv-ray
	.venv-ray/bin/python -m pip --disable-pip-version-check --quiet install -c constraints.txt -e ".[ray]"
	@touch $@

clean:
	rm -rf $(VENV) .venv-* build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
