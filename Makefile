# Requirements of a fresh machine: make, Python 3.11 or later with pip, and a package index.
PYTHON ?= $(shell for python in python3 python3.11 python3.12 python3.13 python3.14; do \
	$$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$python && break; done)
VENV := .venv
BIN := $(VENV)/bin
# The port of `make run`; the next two ports are health and inspection. A run that ends at once takes any port.
PORT ?= $(if $(filter 1,$(ONCE)),0,8888)
IMAGE ?= scheduler-ext:0.1.0
SCHEDULER ?= registry.k8s.io/kube-scheduler:v1.36.3
UV ?= uv
# Container images of Python set it. Each of the hundreds of processes that tests start would then compile all
# its imports, which takes longer than its work.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help

help: ## Show the targets
	@awk -F ':.*## ' '/^[.a-z0-9-]+:.*## /{printf "  %-22s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

run: .venv ## Serve a sample cluster, print the decisions for 15 pods, in a terminal keep serving (ONCE=1: exit)
	@$(BIN)/scheduler-ext demo --port $(PORT) $(if $(filter 1,$(ONCE)),--once)

# More workers than two cores, because many tests wait for a process. A file's tests share their servers.
PYTEST := $(BIN)/python -m pytest --dist loadfile --no-loadscope-reorder --ignore tests/e2e
test: .venv ## Run the tests (two minutes on two cores; ARGS="tests/core -k mig": some of them)
	@$(PYTEST) --numprocesses 3 -m "not e2e and not browser and not process and not image and not release" $(ARGS)
	@echo "not run here: slow tests (make test-process), a browser (make test-page), a control plane (make e2e)"

test-process: .venv ## Run the slow tests: most start a server, an agent or a benchmark
	@$(PYTEST) --numprocesses 4 -m "process and not release" $(ARGS)

test-page: .venv ## Open the live page in a browser and use it (chromium and chromedriver)
	@$(BIN)/python -m pytest --numprocesses 2 --dist loadscope -m browser tests/features $(ARGS)

without: .venv ## Prove that a feature can be deleted: without it, all else passes (three minutes; FEATURE=gangs)
	@.ci/without $(FEATURE)

# The laws with a number of examples of their own (tests/examples.py), and the searches that are too long for every
# change.
LONG := $(addprefix tests/, core/preemption/test_preemption_oracle.py \
	binding/test_bind_exploration.py whatif/test_copies.py whatif/test_what_if.py \
	features/defrag/test_plan_laws.py binding/test_promises.py explain/test_replay.py explain/test_diagnosis.py \
	explain/test_preferred_affinity.py sim/test_whole_runs.py sim/cluster/test_simulation.py agent/test_crd_rules.py \
	cluster/leases/test_own_lease_order.py wire/test_yaml_fuzz.py features/claims/test_plain_expressions.py \
	features/gangs/planning/test_planner.py features/gangs/planning/test_gang_machine.py \
	features/gangs/planning/test_gang_fit.py features/gangs/planning/test_gang_reservation.py \
	features/gangs/planning/test_gang_victims.py features/gangs/simulation/test_gangs_placed.py)
test-long: .venv ## Try many more orders of events for a GPU that is promised twice, and other laws (a quarter of an hour)
	@$(BIN)/python -m pytest --hypothesis-profile=long --numprocesses auto --maxprocesses 4 -rP \
		$(LONG) $(ARGS)

# Two control planes side by side, because most of these tests wait. KUBEBUILDER_ASSETS has binaries of one release.
KUBERNETES_VERSION ?=
E2E := $(BIN)/python -m pytest tests/e2e --numprocesses 2 --dist loadfile --no-loadscope-reorder
e2e: .venv ## Run the end-to-end tests on a real control plane (KUBERNETES_VERSION=1.36: an older one; ARGS="-k faults")
	@$(BIN)/python -m tests.e2e.cluster.binaries $(KUBERNETES_VERSION)
	@$(E2E) -m "e2e and not release" $(ARGS)

e2e-older: .venv ## Run a few of them on the older releases of Kubernetes
	@for version in $(or $(KUBERNETES_VERSION),1.36 1.35); do \
		$(BIN)/python -m tests.e2e.cluster.binaries $$version && \
		KUBERNETES_VERSION=$$version $(E2E) -m "smoke and not release" $(ARGS) || exit 1; done

FEATURES = $(notdir $(patsubst %/,%,$(dir $(wildcard scheduler_ext/features/*/feature.py scheduler_ext/sim/feature.py))))
# A part that fails does not stop the others.
test-all: .venv ## Run all tests: those of CI, older releases in full, upgrades, images, pages, long laws, a soak (two hours)
	@failed=; part() { echo; echo "== $$*"; $(MAKE) --no-print-directory "$$@" || failed="$$failed, $$*"; }; \
	for target in check docs test-page test-long; do part $$target; done; \
	for feature in $(FEATURES); do part without FEATURE=$$feature; done; \
	part test ARGS="--hypothesis-profile=full -m 'not e2e and not browser and not process and not image'"; \
	part test-process ARGS="--hypothesis-profile=full -m process"; \
	part image-check ARGS="-m image"; \
	part soak MINUTES=3 ARGS="--nodes 200"; \
	part soak-gang MINUTES=6 ARGS="--nodes 200 --gang 64"; \
	part bench-page ARGS="--smoke --json build/page.json"; \
	export GPU_SHARE_RACES=100 DRA_CASES=300 GANGS=100; \
	part e2e ARGS="-m e2e"; \
	for version in 1.36 1.35; do part e2e KUBERNETES_VERSION=$$version; done; \
	test -z "$$failed" || { echo "failed:$${failed#,}"; exit 1; }

check: .venv ## Check format, lint, types, layers, reference pages, spelling and prose
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/lint-imports
	$(BIN)/python -m docs.generate --check
	$(BIN)/codespell
	$(BIN)/proselint check --config proselint.json README.md CHANGELOG.md CONTRIBUTING.md SECURITY.md docs
	$(BIN)/mypy --num-workers 2

reference: .venv ## Regenerate the parts of the documentation that follow from the code and from benchmarks/results
	@$(BIN)/python -m docs.generate

bench: .venv ## Measure latency at the wire into benchmarks/results/ (minutes; ARGS=--smoke: seconds)
	$(BIN)/python -m benchmarks.latency --json benchmarks/results/latency.json \
		--png benchmarks/results/latency.png $(ARGS)

bench-filter: .venv ## Measure filter for pods that fit everywhere and nowhere (three minutes; ARGS=--smoke: seconds)
	$(BIN)/python -m benchmarks.filtering --json benchmarks/results/filtering.json $(ARGS)

# Pods that are equal except for their names, or all different (ASKS=different); GPUs per pod (GPUS=8: each pod
# fills its node). BURSTS=1: bursts of 1,000 pods on clusters that the extender follows; ARGS="--apart --json
# FILE" gives the API server a core of its own.
ASKS ?= alike
GPUS ?= 1
SCHEDULER_RESULT = benchmarks/results/scheduler-$(ASKS)-$(GPUS)gpu-$(or $(KUBERNETES_VERSION),1.37)
bench-scheduler: .venv ## Measure a real kube-scheduler with and without extenders (ten minutes; ARGS=--smoke: one)
	@$(BIN)/python -m tests.e2e.cluster.binaries
ifeq ($(BURSTS),)
	$(BIN)/python -m benchmarks.scheduler --asks $(ASKS) --gpus $(GPUS) \
		--json $(SCHEDULER_RESULT).json --png $(SCHEDULER_RESULT).png $(ARGS)
else
	$(BIN)/python -m benchmarks.scheduler.bursts \
		--json benchmarks/results/scheduler-bursts-$(or $(KUBERNETES_VERSION),1.37).json $(ARGS)
endif

# All runs whose figures the documentation has.
FEW := --contenders stock,none,noop-100,ours,every-node
bench-scheduler-all: .venv ## Measure it for all published tables, on two releases (half an hour; ARGS="--rounds 3": less)
	@for version in 1.37 1.36; do for asks in alike different; do \
		$(MAKE) --no-print-directory bench-scheduler KUBERNETES_VERSION=$$version ASKS=$$asks \
			ARGS="$(FEW) $(ARGS)" || exit 1; \
	done; done

MINUTES ?= 30
soak: .venv ## Load the server for MINUTES=30 with all it answers and reloads, and fail where its memory grows
	$(BIN)/python -m benchmarks.soak --minutes $(MINUTES) $(ARGS)

soak-gang: .venv ## The same for a server that follows a cluster on which a large gang waits
	$(BIN)/python -m benchmarks.soak_gang --minutes $(MINUTES) $(ARGS)

bench-live: .venv ## Measure what following a large cluster costs (nine minutes; ARGS=--smoke: seconds)
	$(BIN)/python -m benchmarks.live --json benchmarks/results/live.json $(ARGS)
	$(BIN)/python -m benchmarks.live --dra --json benchmarks/results/live-dra.json $(ARGS)
	$(BIN)/python -m benchmarks.live_nominated --json benchmarks/results/live-nominated.json $(ARGS)

bench-claims: .venv ## Measure GPUs handed out by claims on a real kube-scheduler (TRACES=dir: the published figures; ten minutes)
	$(BIN)/python -m benchmarks.claims --demand 1 $(if $(TRACES),--traces $(TRACES) \
		--json benchmarks/results/claims.json) $(ARGS)

bench-page: .venv ## Measure the live page on a large cluster (three minutes, Chromium; ARGS=--smoke: seconds)
	$(BIN)/python -m benchmarks.page --json benchmarks/results/page.json $(ARGS)

page-screenshot: .venv ## Take the picture of the live page (Chromium; ARGS=--dark)
	$(BIN)/python -m benchmarks.page --png docs/features/page/page.png $(ARGS)

bench-bind: .venv ## Measure binding beside kube-scheduler's own binder (twenty minutes; ARGS=--smoke: one)
	@$(BIN)/python -m tests.e2e.cluster.binaries
	$(BIN)/python -m benchmarks.binding --json benchmarks/results/binding.json $(ARGS)

# TRACES: a folder with the openb traces. Default: generated pods on a generated cluster.
bench-placement: .venv ## Compare placement policies by simulation (TRACES=dir: the published table, ten minutes)
	$(BIN)/python -m benchmarks.placement --png build/placement $(if $(TRACES),--traces $(TRACES) \
		--csv benchmarks/results/placement.csv) $(ARGS)

bench-placement-floors: .venv ## Measure the floors of placement, and fail where one does (TRACES=dir: an hour)
	$(BIN)/python -m benchmarks.placement.floors $(if $(TRACES),--traces $(TRACES) \
		--json benchmarks/results/placement-floors.json) $(ARGS)

# A broken link or anchor is an error.
docs: .venv ## Build the documentation as a site into build/site
	@$(BIN)/sphinx-build --quiet --fail-on-warning --keep-going --nitpicky --fresh-env docs build/site
	@echo "build/site/index.html"

docs-links: .venv ## Ask every address that the documentation links to (needs the Internet)
	$(BIN)/sphinx-build --quiet --builder linkcheck docs build/links

# URL: the future address of the archive.
krew: .venv ## Build the kubectl plugin for krew into build/krew (URL=https://...)
	@test -n "$(URL)" || { echo "make krew URL=https://...: where the archive will lie" >&2; exit 2; }
	@rm -rf build/krew build/lib
	@$(BIN)/python -m build --wheel --no-isolation --outdir build/krew . >/dev/null
	@$(BIN)/python manifests/krew/build.py build/krew/*.whl requirements/base.txt $(URL) build/krew

# docker, or buildah where docker is missing. Every time stamp is the commit's, so that two builds of a commit on
# the same bases can have the same digest. ARGS: more options of the builder.
BUILDER ?= $(shell command -v docker >/dev/null && echo docker || echo buildah)
PLATFORM ?=
EPOCH = $(or $(shell git log -1 --format=%ct 2>/dev/null),0)
REVISION = $(or $(shell git describe --always --dirty --abbrev=40 --exclude '*' 2>/dev/null),unknown)
IMAGE_ARGS = SOURCE_DATE_EPOCH=$(EPOCH) REVISION=$(REVISION) \
	VERSION=$(shell sed -n 's/^__version__ = "\(.*\)"/\1/p' scheduler_ext/__init__.py) \
	CREATED=$(shell TZ=UTC date --date=@$(EPOCH) +%Y-%m-%dT%H:%M:%SZ) \
	$(if $(BUILD_BASE),BUILD_BASE=$(BUILD_BASE)) $(if $(RUN_BASE),RUN_BASE=$(RUN_BASE))
# buildah of Debian 12 sets neither BUILDPLATFORM nor, without --platform, the arguments of the target.
HERE = linux/$(subst aarch64,arm64,$(subst x86_64,amd64,$(shell uname -m)))
BUILDAH_ARGS = --timestamp $(EPOCH) --build-arg BUILDPLATFORM=$(HERE) --platform $(or $(PLATFORM),$(HERE))
DOCKER_ARGS = $(if $(PLATFORM),--platform $(PLATFORM))
image: ## Build the container image (IMAGE=name:tag; PLATFORM=linux/arm64; RUN_BASE, BUILD_BASE: other bases)
	$(BUILDER) build $(if $(filter docker,$(BUILDER)),$(DOCKER_ARGS),$(BUILDAH_ARGS)) \
		$(addprefix --build-arg ,$(IMAGE_ARGS)) --tag $(IMAGE) $(ARGS) .

# Asks the registries for the newest images of the tags in the Dockerfile.
bases: ## Renew the digests of the image's bases in the Dockerfile (docker with buildx)
	@for base in BUILD_BASE RUN_BASE; do \
		name=$$(sed -n "s/^ARG $$base=\(.*\)@.*/\1/p" Dockerfile); \
		digest=$$(docker buildx imagetools inspect --format '{{.Manifest.Digest}}' "$$name") || exit 1; \
		sed -i "s|^ARG $$base=.*|ARG $$base=$$name@$$digest|" Dockerfile; \
	done

# Its bases are made from Debian's packages, so it needs no registry of images.
image-check: .venv ## Build the image, look into it, and let it answer (root, buildah, mmdebstrap, runc)
	@$(BIN)/python -m pytest -m "image and not release" tests/image $(ARGS)

chart: .venv ## Generate the parts of the Helm chart that other files define, and package it into build (Helm)
	@$(BIN)/python manifests/charts/generate.py
	@command -v helm >/dev/null || { echo "helm is missing, so nothing is packaged" >&2; exit 1; }
	@helm package manifests/charts/gpu-scheduler --destination build

# Read from the registries that the nodes pull from, so that the nodes run the inspected image.
digests: ## Print `images` for your kustomization, by digest (IMAGE=name:tag, SCHEDULER=name:tag)
	@echo "images:"
	@for image in scheduler-ext=$(IMAGE) registry.k8s.io/kube-scheduler=$(SCHEDULER); do \
		name=$${image#*=}; \
		digest=$$(docker buildx imagetools inspect --format '{{.Manifest.Digest}}' "$$name") || exit 1; \
		echo "  - {name: $${image%%=*}, newName: $${name%:*}, digest: $$digest}"; \
	done

# One of these files has every installed package, with the hashes of all files of its release.
LOCK := $(UV) pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-annotate \
	--custom-compile-command "make lock"
lock: ## Renew constraints.txt and requirements/ with uv (ARGS=--upgrade: the newest releases)
	@command -v $(UV) >/dev/null || { echo "uv is missing: pip install uv, or UV=/path/to/uv" >&2; exit 1; }
	echo setuptools | $(LOCK) --extra dev setup.cfg - --output-file constraints.txt $(ARGS)
	$(LOCK) --constraint constraints.txt --extra claims setup.cfg --output-file requirements/base.txt
	$(LOCK) --constraint constraints.txt --extra agent --extra claims setup.cfg --output-file requirements/image.txt
	$(LOCK) --constraint constraints.txt requirements/build.in --output-file requirements/build.txt $(ARGS)
	$(LOCK) requirements/audit.in --output-file requirements/audit.txt $(ARGS)
	$(LOCK) requirements/go.in --output-file requirements/go.txt $(ARGS)

clean: ## Remove everything the other targets made, .venv too
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

.venv: $(VENV)/installed ## Set up the virtual environment from constraints.txt

# Installed again when the requirements change. If Python comes without ensurepip (Debian), its own pip fills
# the environment.
$(VENV)/installed: setup.cfg pyproject.toml constraints.txt
	@test -n "$(PYTHON)" || { echo "no Python 3.11 or later found; set PYTHON=/path/to/python3" >&2; exit 1; }
	@echo "setting up $(VENV) with $(PYTHON) (a minute, once)"
	@$(PYTHON) -m venv $(VENV) 2>/dev/null >&2 || $(PYTHON) -m venv --clear --without-pip $(VENV)
	@test -x $(BIN)/pip || $(PYTHON) -m pip --python $(BIN)/python install --quiet pip
	@$(BIN)/pip install --quiet --disable-pip-version-check --no-compile --require-hashes --no-deps --requirement constraints.txt
	@PYTHONWARNINGS=ignore $(BIN)/pip install --quiet --disable-pip-version-check --no-deps \
		--no-build-isolation --editable .
	@touch $@

.PHONY: help run reference bases chart image-check test without test-all test-long test-page test-process e2e e2e-older check bench bench-bind bench-claims \
	bench-filter bench-live bench-page \
	bench-placement bench-placement-floors bench-scheduler bench-scheduler-all digests docs docs-links image krew lock page-screenshot \
	soak soak-gang clean .venv
