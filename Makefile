# Needs Python >= 3.11 and make; uses npm where there is one. Everything else goes into .venv and a cache folder.

VENV := .venv
SCRIPTS := $(if $(filter Windows_NT,$(OS)),Scripts,bin)
BIN := $(VENV)/$(SCRIPTS)
LOWEST := .venv-lowest
RELEASE := .venv-release
SITE := .venv-site
# A warning of packages that `mcp` needs, about its oldest version.
NEWER := -W "ignore:Field 'lifespan' has an incomplete definition"
CANDIDATES := python3 python3.14 python3.13 python3.12 python3.11 python
PYTHON ?= $(firstword $(foreach p,$(CANDIDATES),$(shell $(p) -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 && echo $(p))))
ARGS ?=
# Many tests wait for processes, so more workers than processors pay. Each takes some seconds to collect the tests.
WORKERS ?= 4
# The CLI of `test-cli`: minimum, pinned, newest, or a version.
CLI ?= newest
# What `lowest` runs: the directories whose tests take seconds.
QUICK := $(addprefix tests/,agents formatting hooks options permissions protocol runtime testing todo tools transport wire)

# The rooms upon the core, as files of `coverage`.
ADD_ONS := claude_agent_py/acp/*,claude_agent_py/cli/*,claude_agent_py/compat/*,claude_agent_py/durable/*,claude_agent_py/fleet/*,claude_agent_py/pool/*,claude_agent_py/serve/*,claude_agent_py/testing/*

# https://github.com/python/cpython/issues/106749
NO_EVENTS := "Python 3.11 misses lines that run after a cancelled call: make coverage VENV=.venv-coverage PYTHON=python3.13"

.DEFAULT_GOAL := help
.PHONY: help demo test test-cli lowest fuzz long properties mutants soak-fleet servers check format format-check lint types imports coverage \
  changelog comparison drift official docs docs-push package audit workflows tag-check clean editor-agents

help:  ## Show the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

demo: $(VENV)/.demo  ## The main job, offline against a scripted model; LIVE=1 on the real one
	@$(BIN)/claude-agent-py install-cli --if-missing
	@$(BIN)/claude-agent-py demo $(if $(LIVE),--live) $(ARGS)

test: $(VENV)/.dev  ## All tests (ARGS="-k name" for some)
	@$(BIN)/claude-agent-py install-cli
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -rfEsxX -m "not long" $(ARGS)

test-cli: $(VENV)/.dev  ## The tests with the real CLI on another version (CLI=minimum, pinned, newest or X.Y.Z)
	CLAUDE_AGENT_CLI=$$($(BIN)/python scripts/fetch_cli.py $(CLI)) \
	  $(BIN)/python -m pytest -n $(WORKERS) -rfEsxX $(or $(ARGS),tests/real_cli)

lowest: $(LOWEST)/.dev  ## The tests without the real CLI, with the lowest versions of all dependencies
	$(LOWEST)/$(SCRIPTS)/python -m pytest -n $(WORKERS) -m "not real_cli" $(NEWER) $(or $(ARGS),$(QUICK))

fuzz: $(VENV)/.dev  ## Broken sessions through all that reads them, for ten minutes (ARGS="--seconds 3600 --processes 8")
	$(BIN)/python tests/fuzzing.py $(ARGS)

long: $(VENV)/.dev  ## The long tests, which `make test` leaves out (ARGS="-k name" for some)
	@$(BIN)/claude-agent-py install-cli
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -rfEsxX -m long $(ARGS)

properties: $(VENV)/.dev  ## The property tests with 500 examples each (ARGS="-k name" for some)
	HYPOTHESIS_PROFILE=thorough $(BIN)/python -m pytest -n $(WORKERS) -m hypothesis $(ARGS)

mutants: $(VENV)/.mutation  ## Small changes of the code, which its tests should notice (hours; ARGS="engine --sample 20")
	$(BIN)/python scripts/mutants.py $(ARGS)

soak-fleet: $(VENV)/.dev  ## A fleet under 200 kills and other faults: SQLite and Temporal, each store (hours; ARGS="--kills 20 ...")
	@$(BIN)/claude-agent-py install-cli --if-missing
	$(BIN)/python scripts/fleet_soak.py $(ARGS)
	$(BIN)/python scripts/fleet_soak.py --postgres $(ARGS)
	$(BIN)/python scripts/fleet_soak.py --temporal $(ARGS)
	$(BIN)/python scripts/fleet_soak.py --temporal --postgres $(ARGS)

servers:  ## Install the servers and the browser that some tests start (Debian, as root or with SUDO=sudo)
	$(SUDO) apt-get install --yes --no-install-recommends postgresql pgbouncer redis-server chromium

check: format-check lint types imports test  ## Everything that has to pass

format: $(VENV)/.dev  ## Format the code
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix-only .

format-check: $(VENV)/.dev
	$(BIN)/ruff format --check .

lint: $(VENV)/.dev  ## Lint
	$(BIN)/ruff check .

types: $(VENV)/.dev  ## Check the types, with mypy and pyright; every public name has a known one
	$(BIN)/mypy
	$(BIN)/pyright
	PYTHONPATH="$(CURDIR):$$($(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')" \
	  $(BIN)/pyright --verifytypes claude_agent_py --ignoreexternal
	$(BIN)/python -m pytest -q tests/test_user_types.py

imports: $(VENV)/.dev  ## Check that lower layers import no higher ones
	$(BIN)/lint-imports

coverage: export COVERAGE_FILE := $(CURDIR)/.coverage
# Only root can start programs as other users, and fill a file system.
coverage: AS_ROOT = $(if $(SUDO),$(SUDO) --preserve-env env "PATH=$$PATH" "HOME=$$HOME")
coverage: $(VENV)/.dev  ## All tests, with the lines and branches that they run; fails below the figures here (Python >= 3.12, as root or with SUDO=sudo)
	@$(BIN)/python -c 'import sys; sys.exit($(NO_EVENTS) if sys.version_info < (3, 12) else 0)'
	@$(BIN)/claude-agent-py install-cli
	$(BIN)/coverage erase
	$(AS_ROOT) $(BIN)/coverage run -m pytest -n $(WORKERS) --dist worksteal -rfE -m "not long" $(ARGS)
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage report --skip-covered --include="$(ADD_ONS)" --fail-under=95
	$(BIN)/coverage report --skip-covered --omit="$(ADD_ONS)" --fail-under=100 --precision=2

changelog: $(VENV)/.dev  ## Show the next entry of the changelog, from changelog.d (ARGS="--version 0.2.0")
	@$(BIN)/towncrier build --draft $(ARGS)

drift: $(VENV)/.dev  ## What the official SDKs know and this package does not (ARGS="--typescript PATH" offline)
	$(BIN)/python scripts/drift.py $(ARGS)

comparison: $(VENV)/.dev  ## Run what the README's comparison with the official SDK says
	@$(BIN)/claude-agent-py install-cli --if-missing
	$(BIN)/python scripts/comparison.py

editor-agents: $(VENV)/.dev  ## Compare the agent for editors with the vendor's (needs npm; ARGS=--write writes the table)
	@$(BIN)/claude-agent-py install-cli --if-missing
	$(BIN)/python scripts/editor_agents.py $(ARGS)

official: $(VENV)/.dev  ## The official Python SDK's own tests on claude_agent_py.compat (ARGS="-k name" for some)
	$(BIN)/python scripts/official_tests.py $(ARGS)

docs: $(SITE)/.dev  ## Build the site into site/; broken links and public names without a docstring are errors
	$(SITE)/$(SCRIPTS)/python scripts/build_site.py $(ARGS)

docs-push:  ## Commit and push site/, where the branch with all versions of the site is checked out
	git -C site add --all
	git -C site -c user.name=release -c user.email=release@localhost commit --quiet --message "The site"
	git -C site push

package: $(RELEASE)/.dev  ## Build sdist, wheel and SBOM; install each into an empty environment and use it there
	$(RELEASE)/$(SCRIPTS)/python scripts/package.py

audit: $(RELEASE)/.dev $(VENV)/.dev  ## Look for known vulnerabilities in all packages of .venv (needs the Python Package Index)
	@mkdir -p build
	$(BIN)/python -m pip freeze --exclude-editable > build/requirements.txt
	$(RELEASE)/$(SCRIPTS)/pip-audit --strict --no-deps --disable-pip --requirement build/requirements.txt

workflows: $(RELEASE)/.dev  ## Check the files under .github and deploy against their schemas
	$(RELEASE)/$(SCRIPTS)/check-jsonschema --builtin-schema vendor.github-workflows .github/workflows/*.yml
	$(RELEASE)/$(SCRIPTS)/check-jsonschema --builtin-schema vendor.dependabot .github/dependabot.yml
	$(RELEASE)/$(SCRIPTS)/check-jsonschema --builtin-schema vendor.github-issue-forms .github/ISSUE_TEMPLATE/[!c]*.yml
	$(RELEASE)/$(SCRIPTS)/check-jsonschema --builtin-schema vendor.github-issue-config .github/ISSUE_TEMPLATE/config.yml
	$(RELEASE)/$(SCRIPTS)/kubernetes-validate --strict --quiet deploy/fleet-worker.yaml
	$(RELEASE)/$(SCRIPTS)/python -c 'import sys, yaml; from cloudcoil.models.keda.v1alpha1 import ScaledObject as Scaler; \
	  Scaler.model_validate(yaml.safe_load(sys.stdin), extra="forbid")' < deploy/fleet-autoscaler.yaml

tag-check:  ## Compare a tag with the version of the package (TAG=v0.1.0)
	grep --quiet --fixed-strings --line-regexp "__version__ = \"$${TAG#v}\"" claude_agent_py/_version.py
	grep --quiet --fixed-strings "## $${TAG#v} (20" CHANGELOG.md

clean:  ## Remove the venv and everything generated
	rm -rf $(VENV) .venv-coverage $(LOWEST) $(RELEASE) $(SITE) build dist site htmlcov .coverage .coverage.* .pytest_cache .mypy_cache .ruff_cache .hypothesis \
	  .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "Python >= 3.11 with venv and pip is needed; none found among: $(CANDIDATES)" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"

$(VENV)/.demo: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable ".[cli]"
	@touch $@

$(VENV)/.dev: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable . --group dev --group docs
	@touch $@

$(VENV)/.mutation: $(VENV)/.dev
	$(BIN)/python -m pip install --quiet --group mutation
	@touch $@

$(SITE)/.dev: pyproject.toml
	$(PYTHON) -m venv $(SITE)
	$(SITE)/$(SCRIPTS)/python -m pip install --quiet --upgrade "pip>=25.1"
	$(SITE)/$(SCRIPTS)/python -m pip install --quiet --editable . --group site
	@touch $@

$(RELEASE)/.dev: pyproject.toml
	$(PYTHON) -m venv $(RELEASE)
	$(RELEASE)/$(SCRIPTS)/python -m pip install --quiet --upgrade "pip>=25.1"
	$(RELEASE)/$(SCRIPTS)/python -m pip install --quiet --group release
	@touch $@

$(LOWEST)/.dev: pyproject.toml
	$(PYTHON) -m venv $(LOWEST)
	$(LOWEST)/$(SCRIPTS)/python -m pip install --quiet uv
	$(LOWEST)/$(SCRIPTS)/uv pip install --quiet --python $(LOWEST)/$(SCRIPTS)/python --resolution lowest-direct --editable . --group dev
	@touch $@
