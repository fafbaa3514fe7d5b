# Everything a checkout needs comes from here; `make demo` and `make test` start from nothing.
# Needs: Linux, GNU make, Python 3.11 to 3.13 with venv. The server's environment needs 3.11 or 3.12.

.DEFAULT_GOAL := help
SHELL := /bin/sh

BIN := .venv/bin
FEEDBACK := $(BIN)/feedback
PIP := pip install --quiet --disable-pip-version-check --require-hashes
export DAGSTER_HOME := $(CURDIR)
export PYTHONWARNINGS := ignore::SyntaxWarning

# The first of the interpreters in $(1) that is at most Python 3.$(2) and can make an environment.
find_python = $(firstword $(foreach python,$(1),$(shell $(python) -c \
  'import ensurepip, sys, venv; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, $(2)))' 2>/dev/null && echo $(python))))

.PHONY: help demo test dev bench lint setup lock clean

help:
	@echo 'make demo    set everything up, run the sample feedback through every stage, print the check report'
	@echo 'make test    set everything up and run the tests'
	@echo 'make dev     the Dagster UI on http://127.0.0.1:3000, sensors on'
	@echo 'make bench   measure (ONLY=name,name for some)'
	@echo 'make lint    format, lint and type checks'

demo: setup
	@$(FEEDBACK) ingest samples/landing
	@$(FEEDBACK) run
	@$(FEEDBACK) report

test: setup
	@$(BIN)/pytest $(ARGS)

# A server that a run started goes when the UI goes. The default signals are restored for a shell without job control.
dev: setup
	@$(BIN)/python -c "import socket, sys; sys.exit(not socket.socket().connect_ex(('127.0.0.1', $${PORT:-3000})))" || \
	{ echo "error: port $${PORT:-3000} is taken: choose another with \`make dev PORT=3001\`" >&2; exit 2; }
	@trap 'exit 0' INT TERM; trap '$(FEEDBACK) triton stop >/dev/null' EXIT; \
	env --default-signal=INT,TERM $(BIN)/dagster dev --host 127.0.0.1 --port $${PORT:-3000} || test $$? -eq 130

# Those that need the other ways to embed, and so their environment.
PEERS := embed_vs_sentence_transformers embed_vs_fastembed embed_vs_ray embed_vs_daft
comma := ,

bench: setup $(if $(if $(ONLY),$(filter $(PEERS),$(subst $(comma), ,$(ONLY))),all),.bench-venv/installed)
	@$(BIN)/python -m benchmarks $(if $(ONLY),--only $(ONLY))

lint: setup
	@$(BIN)/ruff format --check . && $(BIN)/ruff check . && $(BIN)/mypy && $(BIN)/lint-imports

setup: .venv/installed .triton-venv/installed .cache/models-built

.venv/installed: requirements.lock pyproject.toml
	@python="$(call find_python,python3.12 python3.11 python3.13 python3,13)"; \
	test -n "$$python" || { echo 'error: no Python 3.11 to 3.13 with venv found: install python3 and python3-venv' >&2; exit 2; }; \
	echo "setting up .venv with $$python (about a minute)"; \
	test -x $(BIN)/python || $$python -m venv .venv
	@$(BIN)/$(PIP) -r requirements.lock
	@$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

# The server runs on its own Python: its Python backend needs numpy < 2, which has no build for 3.13.
.triton-venv/installed: model_repository/requirements.lock | .venv/installed
	@test "$$(uname -s)" = Linux || { echo 'error: the embedded Triton server needs Linux: run this in a Linux container (README, "Not on Linux?")' >&2; exit 2; }
	@python="$(call find_python,python3.12 python3.11 python3,12)"; \
	test -n "$$python" || { $(BIN)/uv python install --quiet --install-dir .cache/python 3.12 && python="$$(echo $(CURDIR)/.cache/python/cpython-3.12*/bin/python3.12)"; }; \
	test -n "$$python" || { echo 'error: no Python 3.11 or 3.12 for the Triton server: install python3.12 and python3.12-venv (or 3.11)' >&2; exit 2; }; \
	echo "setting up .triton-venv with $$python (about a minute)"; \
	test -x .triton-venv/bin/python || $$python -m venv .triton-venv
	@.triton-venv/bin/$(PIP) -r model_repository/requirements.lock
	@touch $@

# torch for a CPU is a tenth of the registry's build; it is taken where pip's settings name an index or a folder with it.
.bench-venv/installed: benchmarks/peers/requirements.lock benchmarks/peers/torch-cpu.lock benchmarks/peers/torch.lock | .venv/installed
	@python="$(call find_python,python3.12 python3.11 python3.13 python3,13)"; \
	echo "setting up .bench-venv with $$python (a few minutes)"; \
	test -x .bench-venv/bin/python || $$python -m venv .bench-venv
	@.bench-venv/bin/$(PIP) --no-deps -r benchmarks/peers/requirements.lock
	@.bench-venv/bin/$(PIP) -r benchmarks/peers/torch-cpu.lock 2>/dev/null || \
	{ echo 'pip finds no torch for a CPU (PIP_EXTRA_INDEX_URL may name an index): fetching the usual one, about 2.7 GB'; \
	.bench-venv/bin/$(PIP) -r benchmarks/peers/torch.lock; }
	@touch $@

.cache/models-built: config/platform.yaml config/thresholds.yaml model_repository/tokenizer/model.py \
  $(wildcard resources/encoder_*.py resources/bert_*.py) resources/graph_writer.py | .venv/installed
	@$(FEEDBACK) models build
	@mkdir -p .cache && touch $@

# One lock for all supported Pythons and platforms: names, versions and hashes, no address.
lock: .venv/installed
	@UV_CUSTOM_COMPILE_COMMAND='make lock' $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
	  --no-emit-index-url --no-strip-extras --upgrade --extra models --extra dev pyproject.toml -o requirements.lock
	@cd model_repository && UV_CUSTOM_COMPILE_COMMAND='make lock' ../$(BIN)/uv pip compile --quiet --universal --python-version 3.11 \
	  --generate-hashes --no-emit-index-url --no-strip-extras --upgrade requirements.in -o requirements.lock
	@cd benchmarks/peers && export UV_CUSTOM_COMPILE_COMMAND='make lock' && \
	compile='../../$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-strip-extras --upgrade' && \
	echo torch | $$compile --excludes /dev/stdin requirements.in -o requirements.lock && \
	$$compile --constraint requirements.lock torch.in -o torch.lock

# Everything that can be made again; landed files and tables stay.
clean:
	@-test -x $(FEEDBACK) && $(FEEDBACK) triton stop >/dev/null
	rm -rf .venv .triton-venv .bench-venv .cache .triton model_repository/*/[0-9]*
