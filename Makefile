# A Python of 3.11 or later; everything else is installed into a folder of the project.
PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin
# The products are small: on a busy machine the threads of one would only wait for each other.
export OPENBLAS_NUM_THREADS ?= 1
PIP = $(BIN)/python -m pip --disable-pip-version-check --quiet

.PHONY: demo test attacks core check golden broken fuzz bench bench-run coverage clean

demo: $(VENV)/runtime
	@$(BIN)/twoarm demo

# A file stays with one worker, so that what a module starts, such as the real agents, starts once.
test: $(VENV)/dev
	@tools/chromium.sh
	@tools/agents.sh
	$(BIN)/python -m pytest -n auto --dist loadfile --ignore tests/attacks

# What `twoarm run` must withstand: about 750 agents, suites and run folders that mean harm.
attacks: $(VENV)/dev
	$(BIN)/python -m pytest -n auto tests/attacks

# What can differ between Pythons: reading, scoring, the evidence, collecting, running, the command line.
CORE = tests/test_rules.py tests/test_adequacy.py tests/test_screening.py tests/test_trials.py \
  tests/test_losses.py tests/test_reading.py \
  tests/test_nothing_lost.py tests/test_arrays.py tests/test_kernels.py tests/test_resampling.py \
  tests/test_evidence.py tests/test_uneven_suites.py tests/test_stability.py tests/test_grade.py \
  tests/test_design.py tests/test_repeats.py tests/test_evidence_words.py tests/test_properties.py \
  tests/test_options.py tests/test_promotion.py tests/test_sentence.py \
  tests/test_collect_formats.py tests/test_collect_codex.py tests/test_collect_cells.py \
  tests/test_collect_harbor.py tests/test_collect_inspect.py tests/test_collect_rules.py \
  tests/test_collect_arms.py tests/test_collect_prices.py tests/test_collect_sidecar.py \
  tests/test_cli.py tests/test_terminal.py tests/test_hostile_names.py tests/test_golden.py \
  tests/test_run_suite.py tests/test_run_loop.py tests/test_run_supervisor.py
core: $(VENV)/dev
	$(BIN)/python -m pytest -n auto --dist loadfile $(CORE)

check: $(VENV)/dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# Writes the golden files anew; look at the difference before you commit it.
golden: $(VENV)/dev
	$(BIN)/python -m pytest --update-golden tests/test_golden.py tests/test_ci.py tests/test_page.py tests/test_collect_cli.py

# Breaks every scoring rule once, on purpose, and fails if the tests do not notice.
broken: $(VENV)/dev
	$(BIN)/python -m tests.break_rules $(ONLY)

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

# The simulation behind docs/statistics.md; about two hours on one core, DATASETS=50 for a quick look.
coverage: $(VENV)/dev
	$(BIN)/python -m benchmarks.coverage

$(VENV)/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "twoarm needs Python 3.11 or later: make PYTHON=python3.12 ...")'
	$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/runtime: $(VENV)/python pyproject.toml constraints.txt
	$(PIP) install -c constraints.txt -e .
	@touch $@

$(VENV)/dev: $(VENV)/python pyproject.toml constraints.txt
	$(PIP) install -c constraints.txt -e ".[dev]"
	@touch $@ $(VENV)/runtime

clean:
	rm -rf $(VENV) .venv-* build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
