# Everything a person or CI runs here. `make help` lists it.
#   ENV=dev|local|lab      which environment (inventory/<ENV>)
#   ENGINE=llama           real small models behind the providers instead of simulated ones
#   ENGINE_URL=… ENGINE_MODEL=…   your own OpenAI-compatible engine behind them
#   WALKS=2000             how many walks make walk takes
#   MINUTES=3 SEED=…       of make chaos: how long, and the schedule of an earlier run; ENV=lab: on booted hosts
#   REQUESTS=100000        of make soak
#   ATTACK=long            make test-attack with more inputs, and new ones each time
#   ARGS="…"               further options for ansible-playbook (ARGS="-e run_tests=false") or make mutants (ARGS=--walk)

SHELL := /bin/sh
BASE_PYTHON ?= python3
PYTHON ?= .venv/bin/python
ENV ?= dev
ARGS ?=
WALKS ?= 2000
MINUTES ?= 3
REQUESTS ?= 100000
STAMP := .venv/.installed

ENGINE_ARGS := $(if $(ENGINE_URL),-e engine_kind=external -e engine_url=$(ENGINE_URL) -e engine_model=$(ENGINE_MODEL),$(if $(ENGINE),-e engine_kind=$(ENGINE)))
# stopping works without an environment too
ANY_PYTHON = $(if $(wildcard $(PYTHON)),$(PYTHON),$(BASE_PYTHON))
LAUNCH = $(PYTHON) playbooks/launch.py

.DEFAULT_GOAL := help
.PHONY: help tools env venv dev rollback down clean check lint operator-inventory test test-fast test-cluster test-browser test-engines test-clients test-deploy test-lab test-attack walk mutants smoke locks lab lab-win lab-deploy lab-down lab-status lab-rolling

help: ## list the targets and their settings
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1|\2/p' Makefile | awk -F'|' '{printf "  make %-18s %s\n", $$1, $$2}'
	@printf 'settings, as in make dev ENV=local:\n'
	@sed -n 's/^#   /  /p' Makefile

tools:
	@command -v git >/dev/null || { echo "git is missing: sudo apt-get install -y git"; exit 1; }
	@command -v $(BASE_PYTHON) >/dev/null || { echo "$(BASE_PYTHON) is missing: sudo apt-get install -y python3 python3-venv"; exit 1; }
	@$(BASE_PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "$(BASE_PYTHON) is older than 3.11: install a newer one and run make BASE_PYTHON=python3.12"; exit 1; }
	@$(BASE_PYTHON) -c 'import venv, ensurepip' 2>/dev/null || { echo "$(BASE_PYTHON) has no venv module: sudo apt-get install -y python3-venv"; exit 1; }

env venv: $(STAMP) ## make the environment .venv (only when pyproject.toml changed)

$(STAMP): pyproject.toml | tools
	@echo "environment: .venv (some minutes the first time)"
	@test -x .venv/bin/python || $(BASE_PYTHON) -m venv .venv
	.venv/bin/python -m pip install --quiet --disable-pip-version-check -e '.[deploy,test,check]'
	@touch $@

# another PYTHON than .venv's is the caller's own environment, which is not touched
ifeq ($(PYTHON),.venv/bin/python)
READY := $(STAMP)
endif

ENGINES := simulator llama external
ifneq ($(filter-out $(ENGINES),$(ENGINE)),)
$(error ENGINE=$(ENGINE) is unknown: choose one of $(ENGINES), or give ENGINE_URL and ENGINE_MODEL)
endif

dev: $(READY) ## deploy the environment from HEAD and prove it
	@$(LAUNCH) dev-runtime -i inventory/$(ENV) $(ENGINE_ARGS) $(ARGS)

rollback: $(READY) ## back to the release that ran well before (ARGS="--limit gx10", ARGS="-e release_id=…")
	@$(LAUNCH) rollback -i inventory/$(ENV) $(ARGS)

down: ## stop everything of the environment
	@$(ANY_PYTHON) playbooks/down.py $(ENV)

clean: ## stop everything of every environment and remove build/
	@$(ANY_PYTHON) playbooks/down.py --all --purge

smoke: $(READY) ## prove a running environment
	@$(PYTHON) -m pytest smoke/ --target $(ENV)

check: $(READY) ## format, lint, types, floors, playbooks
	$(PYTHON) -m ruff format --check .
	$(PYTHON) -m ruff check .
	$(PYTHON) -m mypy
	PYTHONPATH=runtime $(dir $(PYTHON))lint-imports
	$(PYTHON) -m ansiblelint --offline -q playbooks

test: $(READY) ## unit, contract, field and structure tests
	$(PYTHON) -m pytest -n auto

test-fast: $(READY) ## unit and contract tests (what a deploy runs)
	$(PYTHON) -m pytest -n auto -q -p no:cacheprovider tests/unit $(wildcard tests/contract)

test-cluster: $(READY) ## whole processes: three nodes, kills, bursts
	$(PYTHON) -m pytest -n 3 --dist loadfile --durations=10 tests/cluster

test-browser: $(READY) chromium-here ## the Control Plane's page in a real Chromium; screenshots in build/browser
	$(PYTHON) -m pytest -n 2 --dist loadfile --durations=10 tests/browser

.PHONY: chromium-here
chromium-here:
	@command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null || \
	{ [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium >/dev/null; } || \
	{ echo "Chromium is missing: sudo apt-get install -y chromium (macOS: brew install --cask chromium)"; exit 1; }

# exit codes 3 and 4: no build for this system, or no way to the registry; pytest then names it as the reason of each skip
OR_SKIP := >/dev/null || case $$? in 3|4) ;; *) exit 1;; esac
.PHONY: downloads llama-here mlx-here clients-here windows-here promtool-here
downloads: llama-here mlx-here clients-here ## what the suites with real engines and clients need (1.2 GB, made once)
llama-here: $(READY)
	@$(PYTHON) playbooks/roles/engines/files/install_llama.py --project . --into build/engines $(OR_SKIP)
mlx-here: $(READY)
	@$(PYTHON) -m tests.engines.install_mlx --into build/engines $(OR_SKIP)
windows-here: $(READY) ## the documented options of Ansible's modules for Windows, for make test (51 MB)
	@$(PYTHON) -m tests.fakes.task_arguments build/collections
promtool-here: $(READY) ## Prometheus' checker, for the tests of metrics and alert rules (20 MB; Debian)
	@$(PYTHON) -m tests.fakes.promtool build/promtool $(OR_SKIP)
clients-here: $(READY)
	@$(PYTHON) tests/clients/install.py --into build/clients $(OR_SKIP)

test-engines: llama-here mlx-here ## the pool over real llama.cpp, vllm-mlx and mlx_lm servers
	$(PYTHON) -m pytest tests/engines

# a test that takes more than four minutes hangs
test-clients: llama-here clients-here ## the official OpenAI SDKs, Vercel ai, Codex, opencode and llm over real llama.cpp servers
	$(PYTHON) -m pytest --timeout 240 tests/clients

test-deploy: $(READY) ## deploys into a temporary clone: twice, broken, repaired, removed
	$(PYTHON) -m pytest -n 3 --dist loadfile --durations=10 tests/deploy

test-attack: $(READY) ## hostile clients, peers, engines and pages against whole processes (ATTACK=long: for longer, new inputs each time)
	$(PYTHON) -m pytest -n 3 --dist loadfile --durations=10 tests/attack

walk: $(READY) ## walk the admission machine for longer, with new choices each time (some minutes)
	IOP_WALK=$(WALKS) $(PYTHON) -m pytest tests/unit/domain/test_stateful.py

mutants: $(READY) ## put faults into the admission machine, one at a time: each must make a test fail (some minutes)
	$(PYTHON) -m tests.mutants.run $(ARGS)

test-lab: $(READY) ## three booted hosts on this machine, and what is deployed to them (Linux, root)
	$(PYTHON) -m pytest --durations=10 -m "not drill" tests/lab

.PHONY: lab-drill
lab-drill: $(READY) ## what goes wrong in deploys, one case after the other, with evidence in build/lab-drill (Linux, root; half an hour)
	$(PYTHON) -m pytest tests/lab/drill

lab: ## boot three hosts on this machine: real systemd, real sshd (Linux, root)
	@tests/lab/lab.sh up

lab-win: $(READY) ## the same, with a Windows Python under wine on onexplayer, for trying by hand (2 GB, some minutes once)
	@LAB_WIN=1 LAB_PIP="$(abspath $(PYTHON)) -m pip" tests/lab/lab.sh up

lab-deploy: $(READY) ## prepare the lab's hosts (bootstrap), then deploy HEAD to them and prove it
	@$(LAUNCH) bootstrap -i inventory/lab
	@$(LAUNCH) dev-runtime -i inventory/lab $(ENGINE_ARGS) $(ARGS)

lab-down: ## stop the lab, leave nothing of it
	@tests/lab/lab.sh down

lab-status: ## the lab's hosts and what is wrong with them
	@tests/lab/lab.sh status

lab-rolling: $(READY) ## redeploy a lab of its own under load: three commits to everything, one to the Edge alone (10 minutes)
	@$(PYTHON) -m tests.lab.rolling $(ARGS)

.PHONY: chaos soak
chaos: $(READY) ## faults under load by a seed: kills, freezes, cuts, drains, resizes; then judged (3 minutes; ENV=lab: on booted hosts)
	@$(PYTHON) -m tests.bench.chaos --minutes $(MINUTES) $(if $(SEED),--seed $(SEED)) $(if $(filter lab,$(ENV)),--lab) $(ARGS)

soak: $(READY) ## 100,000 requests: memory, files, threads and tasks of each process must stay flat (5 to 30 minutes)
	@$(PYTHON) -m tests.bench.soak --requests $(REQUESTS) $(if $(SEED),--seed $(SEED)) $(ARGS)

.PHONY: bench bench-quick gcc-here
bench: $(READY) gcc-here ## us beside nginx, haproxy, LiteLLM and two Rust routers: requests, streams, capacity (half an hour; quiet machine)
	@$(PYTHON) -m tests.bench.speed.compare $(ARGS)

bench-quick: $(READY) gcc-here ## us beside nginx and haproxy in two minutes; the last line tells each goal
	@$(PYTHON) -m tests.bench.speed.compare --quick $(ARGS)

gcc-here:
	@command -v gcc >/dev/null || \
	{ [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && apt-get update -qq && apt-get install -y -qq --no-install-recommends gcc libc6-dev >/dev/null; } || \
	{ echo "gcc is missing: sudo apt-get install -y gcc libc6-dev"; exit 1; }

operator-inventory: $(READY) ## write agent-test/dev/inventory.yaml from inventory/dev
	PYTHONPATH=runtime $(PYTHON) -m iop.commands.inventory dev --operator > agent-test/dev/inventory.yaml.new
	mv agent-test/dev/inventory.yaml.new agent-test/dev/inventory.yaml

# Names and hashes of what is installed on hosts, a file per platform and Python; no registry is named in them.
locks: $(READY) ## compile runtime/locks/ anew (some minutes)
	PYTHONPATH=runtime $(PYTHON) runtime/locks/make_locks.py
