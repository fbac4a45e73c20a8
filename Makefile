# Everything a newcomer needs is made by the targets themselves: a virtual environment in .venv, the package, the tools.
PYTHON ?= $(firstword $(foreach v,python3 python3.13 python3.12 python3.11 python3.10,$(shell $(v) -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null && echo $(v))))
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test test-all test-lowest test-without-vnni runtimes frameworks mindspore conformance check lint layers mypy docs coverage fuzz bench bench-large bench-page bench-scaling zoo clean

$(VENV)/.installed: pyproject.toml
	@test -n "$(PYTHON)" || { echo "Python 3.10 or newer is needed"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -q --disable-pip-version-check -e '.[dev]'
	$(BIN)/python -m compileall -q converter_lite
	@touch $@

demo: $(VENV)/.installed
	$(BIN)/python samples/demo.py --all

# Two workers on two cores: each computes with one thread.
test test-lowest test-without-vnni conformance: export OMP_NUM_THREADS = 1

# All but whole models in emulated runtimes; runtimes that are not there are skipped, `make runtimes` makes them.
test: $(VENV)/.installed
	$(BIN)/python -m pytest -n auto -m "not slow"

# The released runtimes of the devices, OpenVINO, onnxruntime-web, OpenCV, Paddle, the interpreter of .tflite files, and PyTorch for the
# extra that learns, in .runtimes: what this machine has interpreters and compilers for.
runtimes:
	@none=1; for kind in ms nb nb_arm ov web cv paddle litert learn; do tests/runtimes/setup_$$kind.sh .runtimes && none=0; done; exit $$none

# MindSpore 2.7.1 and 2.0.0, 3 GB each: what it exports and computes, beside what is read here.
mindspore: $(VENV)/.installed
	tests/runtimes/setup_mindspore.sh .runtimes
	$(BIN)/python -m pytest tests/runtimes/test_mindir_mindspore.py

# TensorFlow with tf2onnx, and PyTorch, in .runtimes, 4 GB: the extras that read their files, and the judges of what is read.
frameworks:
	@none=1; for kind in tf torch; do tests/runtimes/setup_$$kind.sh .runtimes && none=0; done; exit $$none

conformance: $(VENV)/.installed runtimes
	$(BIN)/python -m pytest -n auto -m "runtime or slow"

test-all:
	@for v in 3.10 3.11 3.12 3.13 3.14; do \
	  py=; for c in python$$v "$$(pyenv root 2>/dev/null)"/versions/$$v.*/bin/python; do \
	    "$$c" -c 'import sys' 2>/dev/null && { py=$$c; break; }; done; \
	  [ -n "$$py" ] || { echo "no Python $$v: left out"; continue; }; \
	  echo "== Python $$v"; \
	  [ -x .venvs/$$v/bin/python ] || "$$py" -m venv .venvs/$$v || exit 1; \
	  .venvs/$$v/bin/python -m pip install -q --disable-pip-version-check -e '.[dev]' || exit 1; \
	  .venvs/$$v/bin/python -m pytest -n auto -m "not slow" || exit 1; \
	done

# Everything at the floor that pyproject.toml names, under the oldest Python; runtimes, other processors and real models do not depend on it.
OLDEST := 3.10
test-lowest: $(VENV)/.installed
	@set -e; py=; for c in python$(OLDEST) "$$(pyenv root 2>/dev/null)"/versions/$(OLDEST).*/bin/python; do \
	  "$$c" -c 'import sys' 2>/dev/null && { py=$$c; break; }; done; \
	[ -n "$$py" ] || { echo "no Python $(OLDEST): left out"; exit 0; }; \
	"$$py" -m venv --clear .venvs/lowest; \
	$(BIN)/python -m tests.floors > .venvs/lowest/constraints.txt; \
	.venvs/lowest/bin/python -m pip install -q --disable-pip-version-check -c .venvs/lowest/constraints.txt -e '.[dev]'; \
	.venvs/lowest/bin/python -m pytest -n auto -m "not slow and not runtime and not processors and not once and not shared"

# On a processor with VNNI: what onnxruntime computes without it, and how it judges files for a device's runtime, which has kernels of
# its own. What only reads and writes files and settings is left out.
test-without-vnni: $(VENV)/.installed
	$(BIN)/python -m bench.without_vnni -m pytest -n auto -m "not slow and not runtime and not once" $(OF_ANY_PROCESSOR:%=--ignore=tests/%)
	$(BIN)/python -m bench.without_vnni -m pytest -n auto -k x86 $(JUDGED:%=tests/runtimes/test_%.py)

OF_ANY_PROCESSOR = bench config data docs execution faults fuzz reports runtimes $(FORMATS_READ:%=formats/%)
FORMATS_READ = caffe mindir paddle pytorch tensorflow
JUDGED = foreign ms_forms settings

lint: $(VENV)/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	@$(MAKE) --no-print-directory layers

# Layers and types alone, as .pre-commit-config.yaml asks for them.
layers: $(VENV)/.installed
	$(BIN)/lint-imports --no-cache

mypy: $(VENV)/.installed
	$(BIN)/mypy

# The pages in site/, made anew where they come from tables of the code; a link that leads nowhere is an error.
docs: $(VENV)/.installed
	$(BIN)/python -m pip install -q --disable-pip-version-check -e '.[docs]'
	$(BIN)/python -m converter_lite.cli.documentation
	$(BIN)/python -m mkdocs build --strict

bench: $(VENV)/.installed
	$(BIN)/python -m bench $(BENCH_OPTIONS)

# An 8 GB model to 8-bit weights (12 GB of disk), a page of 500 layers in Chromium, chains of 10,000 nodes: bench/LARGE.md, PAGE.md, SCALING.md.
bench-large bench-page bench-scaling: $(VENV)/.installed
	$(BIN)/python -m bench.$(@:bench-%=%) $(BENCH_OPTIONS)

# Some 70 networks, made by an environment of their own (3 GB), in ZOO_FOLDER; all modes and formats: hours. Goes on where it was broken off.
ZOO_FOLDER ?= zoo_models
zoo: $(VENV)/.installed
	tests/runtimes/setup_zoo.sh .runtimes
	.runtimes/zoo/bin/python -m bench.zoo.exporting $(ZOO_FOLDER)
	$(BIN)/python -m bench.zoo.running $(ZOO_FOLDER) $(ZOO_OPTIONS)
	$(BIN)/python -m bench.zoo.page $(ZOO_FOLDER)

# Both run, whatever the other says; pytest's summary comes last.
check: $(VENV)/.installed
	@$(MAKE) --no-print-directory lint; lint=$$?; $(MAKE) --no-print-directory test && exit $$lint

# Lines of the package that the tests of one process reach; what only child processes run is not counted.
coverage: $(VENV)/.installed
	$(BIN)/python -m pytest -n auto -m "not slow" --cov --cov-report=term-missing --durations=40

# Files that break a reader, for FUZZ_MINUTES in all; see docs/security.md.
FUZZ_MINUTES ?= 10
fuzz: $(VENV)/.installed
	@$(BIN)/python -m pip install -q --disable-pip-version-check -e '.[fuzz]' || echo "Atheris does not install here: unguided damage"
	$(BIN)/python -m tests.fuzz --minutes=$(FUZZ_MINUTES)

clean:
	rm -rf $(VENV) build dist site .pytest_cache .mypy_cache .ruff_cache
