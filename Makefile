# `make` renders and checks every example; `make test` runs every gate. Both set up .venv first.
PYTHON ?= python3
BIN := .venv/bin
export MPIGEN_CACHE := $(CURDIR)/.cache
# Images of containers often turn bytecode off. Then each of about 1,000 `mpigen` processes compiles 250 modules again.
export PYTHONDONTWRITEBYTECODE :=
EXAMPLES := $(sort $(wildcard examples/*/platform.yaml examples/*/mpigen_platform.py))

.PHONY: demo test quick coverage fuzz lint format types layers cluster cluster-build cluster-images cluster-core cluster-attacks \
  cluster-rest cluster-all cluster-previous records nightly citations bench schemas lock golden docs clean

demo: .venv/.ready
	@set -e; for platform in $(EXAMPLES); do $(BIN)/mpigen synth "$$platform"; done
	@$(BIN)/mpigen validate output --engine both

test: lint types layers
	$(BIN)/pytest -n 2 --dist worksteal -m "not cluster"

# The same without the tests that take more than a few seconds each.
quick: lint types layers
	$(BIN)/pytest -n 2 --dist worksteal -m "not slow and not cluster"

# The fast tests of tests/unit take three times as long when lines and branches are recorded, so this is no part of `make test`.
coverage: .venv/.ready
	$(BIN)/pytest -n 2 -m "not slow and not cluster" --cov --cov-report= tests/unit
	$(BIN)/coverage report
	$(BIN)/coverage report --fail-under=98 --include="generator/config/*,generator/checks/*,generator/questions/*,generator/upstream/*"

# 20,000 mutated platform files and manifests: no bug, no hang over 2 s of a processor, no more than 500 MB of memory.
# `make fuzz FUZZ=1000` runs the first 1,000 of each kind.
FUZZ := 10000
fuzz: .venv/.ready
	$(BIN)/python -m tests.fuzz --platforms $(FUZZ) --manifests $(FUZZ) --synth $$(($(FUZZ) / 100))

.venv/.ready: requirements/dev.lock requirements/go.lock pyproject.toml
	$(PYTHON) -m venv --clear .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/dev.lock
	@command -v go >/dev/null || \
	  $(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/go.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-build-isolation --no-deps --editable .
	@touch $@

lint: .venv/.ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

format: .venv/.ready
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

types: .venv/.ready
	$(BIN)/mypy

layers: .venv/.ready
	$(BIN)/lint-imports --no-cache

# Real control planes, two side by side, judge the examples; building takes minutes the first time. See
# docs/contributing/control-plane.md.
ON_CLUSTER := -n 2 --dist loadscope tests/cluster

cluster: .venv/.cluster
	$(BIN)/python -m tests.cluster.build default
	$(BIN)/pytest $(ON_CLUSTER) -m "cluster and not slow"

# Only Kubernetes, Trainer, JobSet, Kueue and kwok: all programs that `make cluster-core` needs.
cluster-build: .venv/.cluster
	$(BIN)/python -m tests.cluster.build core

# The images of pods that run real MPI; pytest makes them too if they are missing.
cluster-images: .venv/.cluster
	$(BIN)/python -m tests.cluster.mpi.images

# The tests that each change must pass: see tests/cluster/modules.yaml.
cluster-core: cluster-build
	$(BIN)/python -m tests.attacks.record
	$(BIN)/pytest $(ON_CLUSTER) -m "cluster and core" --durations=25

# Every attack of the corpus, and a record of its inputs. Commit the record.
cluster-attacks: cluster-build
	$(BIN)/pytest $(ON_CLUSTER) -m "cluster and attacks"
	$(BIN)/python -m tests.attacks.record --write

# All tests that are in neither of the two.
cluster-rest: .venv/.cluster
	$(BIN)/python -m tests.cluster.build default
	$(BIN)/pytest $(ON_CLUSTER) -m "cluster and not core and not attacks" --durations=25

# Also every family of the catalogue on every device, and real MPI in pods that really run.
cluster-all: .venv/.cluster
	$(BIN)/python -m tests.cluster.build default
	$(BIN)/pytest $(ON_CLUSTER) -m cluster --durations=25

# The same with the releases before.
cluster-previous: .venv/.cluster
	$(BIN)/python -m tests.cluster.build previous
	$(BIN)/pytest $(ON_CLUSTER) -m cluster --control-plane=previous --durations=25

# Ask Kueue's own code again, and fail if an answer differs from the committed record.
records: .venv/.cluster
	$(BIN)/python -m tests.update_placements
	$(BIN)/python -m tests.update_scenarios
	git diff --exit-code --stat -- tests/fixtures

# Everything, in steps. The same command then runs only the steps that did not pass at this commit; FRESH=1 runs all.
nightly: .venv/.cluster
	$(BIN)/python -m tests.nightly $(if $(FRESH),--fresh)

.venv/.cluster: .venv/.ready requirements/cluster.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/cluster.lock
	@touch $@

# Look up every citation of upstream code at its version. It downloads the cited modules.
citations: .venv/.ready
	$(BIN)/python -m tests.upstream --resolve

bench: .venv/.ready
	$(BIN)/python -m benchmarks

# Recompile schemas/ from the pinned upstream modules.
schemas: .venv/.ready
	$(BIN)/mpigen schemas compile schemas

# Write output/, the schema for editors, and the generated pages and recorded sessions of docs/ anew.
golden: .venv/.ready
	$(BIN)/mpigen schema > examples/platform.schema.json
	@set -e; for platform in $(EXAMPLES); do $(BIN)/mpigen synth "$$platform"; done
	$(BIN)/python -m tests.docs

# The site of docs/ in site/; `.venv/bin/mkdocs serve` shows it while you write.
docs: .venv/.ready
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

lock:
	uv pip compile pyproject.toml --group dev --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-strip-extras \
	  --custom-compile-command "make lock" --quiet --upgrade --output-file requirements/dev.lock
	uv pip compile --group go --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
	  --custom-compile-command "make lock" --quiet --upgrade --output-file requirements/go.lock
	uv pip compile --group cluster --constraints requirements/dev.lock --universal --python-version 3.11 --generate-hashes \
	  --no-emit-index-url --custom-compile-command "make lock" --quiet --upgrade --output-file requirements/cluster.lock

clean:
	rm -rf .venv .cache .mypy_cache .ruff_cache .pytest_cache .hypothesis
