# make demo: the digits study from a bare machine with Python >= 3.11.
# make test: the tests that take seconds.  make test-long: lint, types and all tests, as CI runs them.  make lint.
# make faults: kills, damaged and hostile files, drawn values by the hundred, with a report; some forty minutes.
# make mutants: deliberate faults, each of which the tests must find.
# make accelerators: the configs compiled for TPUs and GPUs.  make docs: the site of docs/, in site/,
# with the notebook executed.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

# The tests of the report in a browser need chromium, which is no Python package. It is installed if apt needs no password.
APT := $(shell test "$$(id -u)" = 0 && echo apt-get || echo sudo -n apt-get)
BROWSER = command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null

.PHONY: browser demo test test-long faults mutants accelerators docs lint format clean

demo: $(VENV)/installed
	$(BIN)/mdfl sweep digits

test: $(VENV)/tested browser
	$(BIN)/ruff check .
	$(BIN)/python -m pytest -q --numprocesses=auto --dist=worksteal -m "not long and not faults"

test-long: lint browser
	$(BIN)/python -m pytest -q --numprocesses=auto --dist=worksteal -m "not faults"

faults: $(VENV)/tested
	$(BIN)/python -m tests.attack --write

mutants: $(VENV)/tested
	$(BIN)/python -m tests.mutants

# Every shipped config compiled for devices that need not be there; it installs their compilers, some gigabytes.
accelerators: $(VENV)/tested
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[aot-tpu,aot-gpu]'
	MDFL_ACCELERATORS=all $(BIN)/python -m pytest -q tests/accelerators tests/contrib/estimates

# The notebook is executed for the site; the file with its outputs stays as it is. --strict: a link that leads nowhere, in
# a page or a docstring, is an error.
docs: $(VENV)/documented
	MDFL_EXECUTE=true $(BIN)/python -m mkdocs build --strict

lint: $(VENV)/tested
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(VENV)/tested
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

browser:
	@{ $(BROWSER); } || $(APT) install --yes --quiet chromium >/dev/null 2>&1 || \
	  echo "chromium is not installed: the tests of the report in a browser are skipped (apt-get install chromium)"

clean:
	rm -rf $(VENV) build site *.egg-info

$(BIN)/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed; set PYTHON=")'
	$(PYTHON) -m venv $(VENV)

$(VENV)/installed: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e .
	touch $@

$(VENV)/tested: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[test]'
	touch $@ $(VENV)/installed

$(VENV)/documented: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[docs]'
	touch $@ $(VENV)/installed
