# demo: the 60-second story. test: everything. check: what needs no running. sim: more seeds. bench: figures.
VENV := .venv
PYTHON_IN := $(VENV)/bin/python
PIP := $(PYTHON_IN) -m pip --disable-pip-version-check
SEEDS ?= 300
DB ?= sqlite

# Single cases that take long each, shared out one by one; they come last, so that a small fault is told early.
LONG := tests/simulation tests/end_to_end

.PHONY: demo test check sim bench

demo: $(VENV)/.installed
	$(VENV)/bin/gpupoor demo

test: check $(VENV)/.programs
	$(PYTHON_IN) -m pytest -q -n 2 --dist loadscope $(addprefix --ignore=,$(LONG))
	$(PYTHON_IN) -m pytest -q -n 2 --dist load tests/simulation
	$(PYTHON_IN) -m pytest -q -n 2 --dist load tests/end_to_end

check: $(VENV)/.dev
	$(VENV)/bin/ruff check .
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports

sim: $(VENV)/.dev
	GPUPOOR_SIM_SEEDS=$(SEEDS) GPUPOOR_SIM_DB=$(DB) $(PYTHON_IN) -m pytest -q -n 2 tests/simulation

bench: $(VENV)/.dev
	$(PYTHON_IN) -m benchmarks

$(VENV)/.made: bootstrap.sh
	./bootstrap.sh
	touch $@

$(VENV)/.installed: pyproject.toml $(VENV)/.made
	$(PIP) install --quiet --editable .
	touch $@

# --group needs pip 25.1; the pip of a distribution is often older.
$(VENV)/.dev: pyproject.toml $(VENV)/.made
	$(PIP) install --help | grep -q -- --group || $(PIP) install --quiet --upgrade pip
	$(PIP) install --quiet --editable . --group dev
	touch $@ $(VENV)/.installed

# Programs that only the tests need: OpenSSH's server and a small system.
$(VENV)/.programs: $(VENV)/.made
	@missing=; \
	command -v sshd >/dev/null || test -x /usr/sbin/sshd || missing="$$missing openssh-server"; \
	command -v busybox >/dev/null || missing="$$missing busybox"; \
	if [ -n "$$missing" ]; then \
		if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
			apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $$missing; \
		else \
			echo "the tests need more programs; type: sudo apt-get install -y$$missing" >&2; exit 1; \
		fi; \
	fi
	@[ "$$(id -u)" != 0 ] || mkdir -p /run/sshd
	touch $@
