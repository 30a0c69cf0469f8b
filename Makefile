# What a checkout can do: `make demo`, `make test`, and the steps these are made of.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip --disable-pip-version-check

NATIVE := $(wildcard transport/native/* transport/native/*/*) $(addprefix transport/,plan_table.py report_table.py events.py)

# `make soak` repeats the tests of races, waits and deaths that tools/soak lists.
ROUNDS ?= 100

# `make suites` runs these libraries' own test suites under the layer; left out: all.
SUITES ?=

# `make fuzz` runs so many random workflows, and comparisons of MPI-IO; each prints the command that runs it again.
CASES ?= 300

# ... and so many random HDF5 programs, a quarter of them of several ranks.
PROGRAMS ?= 20000

# ... so many random habits of programs with files, and so many more on the reference machine of the step store.
HABITS ?= 2000
STEPWISE_HABITS ?= 100000

# ... twice so many random states that change right after they are saved.
CHANGES ?= 2000

# ... and so many random words to the server of files between hosts.
HELLOS ?= 1000000

# `make portability` runs tests in this Debian suite, and with these arguments of tools/portability.
SUITE ?= trixie

# `make test-all` runs one of so many parts of all tests: SHARD=2/4 is the second of four.
SHARD ?= 1/1

.PHONY: help demo install test test-all test-environment foreign-environment lint site native-test bench gpu soak fuzz suites portability clean

help:
	@echo "make demo         install into $(VENV) and run the quickstart"
	@echo "make test         install what the tests need and show every promise once: 11 minutes on 2 quiet cores"
	@echo "make test-all     all tests, of every case; SHARD=2/4 runs the second of four parts, 30 minutes each at most"
	@echo "make lint         ruff, mypy, clang-format and clang-tidy; the last takes minutes the first time"
	@echo "make site         build the documentation into build/site"
	@echo "make native-test  the native layer's unit tests and examples, under sanitizers"
	@echo "make bench        measure beside memcpy, files, MPI and others, and judge what must be fast"
	@echo "make gpu          test and measure everything that wants a GPU, in 25 minutes at most, on a machine with one"
	@echo "make soak         repeat the tests of races, waits and deaths under random delays, ROUNDS=$(ROUNDS) times"
	@echo "make fuzz         run CASES=$(CASES) random workflows, and compare as much random MPI-IO with files; then run"
	@echo "                  PROGRAMS=$(PROGRAMS) random HDF5 programs and HABITS=$(HABITS) ways to use files, with files and"
	@echo "                  with memory, and compare"
	@echo "make suites       run the test suites of h5py, netCDF4 and PyTables under the layer, and in memory (hours)"
	@echo "make portability  tests in another Debian, installed into build/portability: SUITE=$(SUITE); tools/emulated: on 64-bit ARM"
	@echo "make clean        remove what the above made"

# The package is installed editable: changes to Python files take effect at once; this rule rebuilds the native layer.
# PACKAGE=FILE.whl installs a wheel in its place.
PACKAGE ?= --editable .
install: $(VENV)/.installed
$(VENV)/.installed: $(VENV)/bin/python pyproject.toml CMakeLists.txt $(NATIVE)
	$(PIP) install --quiet --no-build-isolation $(PACKAGE)'[mpi]'
	@touch $@

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)
	@echo "making an environment in $(VENV); with building the native layer this takes one to four minutes"
	$(PIP) install --quiet 'scikit-build-core>=1.0' cmake ninja

demo: install
	@test -e build/quickstart || $(BIN)/wilkins init --from quickstart build/quickstart
	$(BIN)/wilkins run build/quickstart/workflow.yaml
	@echo "To go on in this shell: . $(BIN)/activate; then: wilkins help two-tasks"

# TORCH=torch brings PyTorch, too; without it the tests that need it are left out.
TORCH ?=
# Most modules of the packages are never imported: Python compiles those that are, not pip all.
$(VENV)/.installed-test: $(VENV)/.installed
	$(PIP) install --quiet --upgrade 'pip>=25.1'  # older ones know no --group
	$(PIP) install --quiet --no-compile --no-build-isolation $(PACKAGE)'[completion,compression,draw,examples,mpi,partners,provenance,submit]' \
		--group docs --group test $(TORCH)
	@touch $@

$(VENV)/.installed-docs: $(VENV)/.installed
	$(PIP) install --quiet --upgrade 'pip>=25.1'
	$(PIP) install --quiet --group docs
	@touch $@

test-environment: $(VENV)/.installed-test

# Programs that nobody wrote for workflows; `make test-all` runs them.
$(VENV)/.installed-foreign: $(VENV)/.installed-test
	$(PIP) install --quiet --group foreign
	@touch $@

foreign-environment: $(VENV)/.installed-foreign

# The environment comes first on PATH for Python and PyPI's MPI; Debian's MPIs are called by their full names.
test:
	@$(PYTHON) tools/test --venv $(VENV) --torch '$(TORCH)'

test-all:
	@$(PYTHON) tools/test --all --shard $(SHARD) --venv $(VENV) --torch '$(TORCH)'

lint: $(VENV)/.installed-test
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/clang-format --dry-run -Werror $(wildcard transport/native/*/*.[ch]pp tests/native/*.[ch]pp)
	$(BIN)/mypy
	$(BIN)/mypy tools/tidy  # by itself: to mypy, each program without .py is __main__
	PATH="$(abspath $(BIN)):$$PATH" $(BIN)/python tools/tidy

# The pages, with the reference of the Python interface; every warning is an error.
site: $(VENV)/.installed-docs
	$(BIN)/python -m sphinx --quiet --fail-on-warning --keep-going docs build/site
	@echo "the documentation is in build/site/index.html"

native-test: $(VENV)/.installed-test
	PYTHON=$(abspath $(BIN)/python) tools/native-test address,undefined
	PYTHON=$(abspath $(BIN)/python) tools/native-test undefined
	PYTHON=$(abspath $(BIN)/python) tools/native-test thread

bench: $(VENV)/.installed-test
	$(PIP) install --quiet --group bench || echo "ADIOS2 cannot be installed here: it is left out"
	$(BIN)/python -m benchmarks speed --wait 10 --out build/speed.json
	$(BIN)/python -m pytest -m bench

# On a machine with a GPU; elsewhere `make gpu GPU=--stand-in` runs the same parts, small, without one.
GPU ?=
gpu: install
	PYTHON=$(abspath $(BIN)/python) benchmarks/gpu.sh $(GPU)

soak: $(VENV)/.installed-test
	-tools/newer-hdf5
	PYTHON=$(abspath $(BIN)/python) tools/hooks
	PYTHON=$(abspath $(BIN)/python) tools/soak $(ROUNDS)

fuzz: $(VENV)/.installed-test
	-tools/newer-hdf5
	PYTHON=$(abspath $(BIN)/python) tools/hooks
	WILKINS_FUZZ=$(CASES) $(BIN)/python -m pytest tests/graphs/test_random_workflows.py
	WILKINS_FUZZ=$(CASES) $(BIN)/python -m pytest tests/guests/test_matrix.py -k as_on_disk
	WILKINS_HABITS=$(STEPWISE_HABITS) $(BIN)/python -m pytest tests/reference/test_flow_habits.py -k many
	WILKINS_FUZZ_HABITS=$(HABITS) $(BIN)/python -m pytest tests/habits/test_random_habits.py
	WILKINS_FUZZ_CHANGES=$(CHANGES) $(BIN)/python -m pytest tests/checkpoint/test_changes.py -k random
	WILKINS_FUZZ_PROGRAMS=$(PROGRAMS) $(BIN)/python -m pytest tests/fidelity/test_random_programs.py
	PYTHON=$(abspath $(BIN)/python) tools/native-test address,undefined
	WILKINS_FUZZ_HELLOS=$(HELLOS) build-address-undefined/far_test

suites: $(VENV)/.installed-test
	$(BIN)/python -m tests.suites $(SUITES)

# As root, on Debian: see the tool.
portability:
	tools/portability $(SUITE)

clean:
	rm -rf $(VENV) build build-* dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -prune -exec rm -rf {} +
