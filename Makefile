# Everything runs from a .venv that is made on first use and again when pyproject.toml changes.
PYTHON ?= python3
VENV := .venv
# Another apt-get at the same time fails at once: .ci/run takes steps side by side.
APT := flock $(VENV)/.apt apt-get
PY := $(VENV)/bin/python
BUCKET ?= file
S3 ?= seaweed
PYSPARK ?= 4.1.1
# Brokers, workers and Spark tasks of tests are processes of their own: without bytecode each one compiles all it imports.
unexport PYTHONDONTWRITEBYTECODE
S3_TESTS := tests/tier/stores/test_store.py tests/tier/stores/s3/test_store.py tests/tier/stores/s3/test_multipart.py tests/faults/test_s3.py tests/faults/test_s3_server.py tests/localstack/test_quirks.py
KERNEL_SOURCES := kernel/pyproject.toml kernel/setup.py $(wildcard kernel/stratalog_kernel/*.py*)
KERNEL_TESTS := tests/kernel tests/spark/rows $(addprefix tests/spark/,source/test_fetch.py source/test_source.py frames/test_opened.py backfill/test_convert.py rewrite/test_newest_keys.py test_odd_records.py)

.PHONY: help demo kernel sim test test-all test-kernel test-stories test-slow test-properties test-java test-pyspark test-spark-cluster test-iceberg test-node test-browser test-conformance test-s3 test-package check lint crash mutants sim-quorum sim-cluster sim-replicas bench chaos faults bench-kafka bench-spark clean model

help:
	@echo "make demo [BUCKET=s3]   the whole life of a record, with figures"
	@echo "make test               the default test suite"
	@echo "make test-stories       whole brokers, kills and Spark jobs: the tests that take seconds each"
	@echo "make test-slow          the sweeps that the default suite samples: all seeds, bounds, kills"
	@echo "make test-properties    a thousand random examples of every property that the default suite tries thirty times"
	@echo "make test-all           every test that needs no Maven, Java or Node of this machine"
	@echo "make kernel             build the compiled kernel of the decoder and install it into .venv (C compiler)"
	@echo "make test-kernel        build it as a wheel and run the decoder's tests with it"
	@echo "make check              ruff, mypy, import contracts, tidy (make lint: without tidy, which make test has)"
	@echo "make crash              2,000 crash images"
	@echo "make model              every order of events of the archive's protocol, with states counted"
	@echo "make mutants [ONLY=text] [PART=1/5]  plant the bugs of docs/safety.md, one at a time, and count those the tests catch"
	@echo "make sim SEED=n [TRACE=1]  one run of the simulated broker, with every event; SEEDS=a-b runs many"
	@echo "make sim-quorum SEED=n [TRACE=1]  one run of the simulated metadata quorum; SEEDS=a-b runs many, SEEDS=0-100000 a night of them"
	@echo "make sim-replicas SEED=n [TRACE=1]  one run of a simulated cluster with replicated topics, producers and readers; SEEDS=a-b runs many"
	@echo "make sim-cluster SEED=n [TRACE=1]  one run of a simulated cluster of three controllers and five brokers; SEEDS=a-b runs many"
	@echo "make bench [CELLS=a,b]  the benchmark table"
	@echo "make chaos [SEED=n] [SECONDS=600]  nodes of a cluster are killed at random under clients; then all answers are checked"
	@echo "make faults [FAULTS=a,b+c] [WORKLOADS=d,e] [SECONDS=n] [SEED=n] [NODES=n] [RESULTS=file]  faults alone and in pairs on five nodes with replicas, under clients that remember; hours"
	@echo "make bench-kafka        the table beside Apache Kafka (Maven and Java 17)"
	@echo "make bench-spark [CELLS=a,b] [KEEP=folder]  Spark on the archive beside Spark on Apache Kafka (Maven and Java 17)"
	@echo "make test-s3 [S3=seaweed|versitygw|minio|localstack]  the archive on a real server, installed and started here"
	@echo "make test-package       the source distribution, built, installed into an empty environment and used"
	@echo "make test-java          Kafka's own tools judge our files and answers (Maven and Java 17)"
	@echo "make test-pyspark [PYSPARK=4.1.1]  the Spark tests on another PySpark (400 MB, fetched once)"
	@echo "make test-spark-cluster  Spark on a cluster of two workers, from files and from S3 (SeaweedFS; Maven for s3a)"
	@echo "make test-iceberg       Spark SQL of PySpark 4.1 reads the Iceberg tables of backfills (Maven and Java 17)"
	@echo "make test-node          kafkajs from npm judges the broker (Node 18), a reader in JavaScript the bucket"
	@echo "make test-browser       the page in a headless Chromium; pictures in build/screenshots"
	@echo "make test-conformance   the test suites of other projects judge the broker (npm and a C++ compiler)"

$(VENV)/.ready: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(PY) -m pip install --quiet --upgrade "pip>=25.1"
	$(PY) -m pip install --quiet --editable ".[spark,fsspec,values]" --group test --group demo --group check
	@touch $@

demo: $(VENV)/.ready
	$(PY) -m demo --bucket $(BUCKET)

test: $(VENV)/.ready
	@$(in_memory) $(PY) -m pytest -n auto --dist loadgroup --durations=25 --basetemp="$$place"

# Files of tests lie in memory where it has 4 GB to spare: most of the waiting of tests is for syncs. Tests of files
# themselves (tests/hot/storage, tests/tier/stores) take a disk all the same.
define in_memory
free=$$(df --output=avail -k /dev/shm 2>/dev/null | tail -n 1); \
	place=$$(mktemp -d -p "$$([ "$${free:-0}" -gt 4194304 ] && echo /dev/shm || echo "$${TMPDIR:-/tmp}")" stratalog-XXXXXX); \
	trap 'rm -rf "$$place"' EXIT;
endef

# A compiler and Python's headers: those of the machine, or the distribution's.
define compiler
{ command -v gcc || command -v cc || { $(APT) update -qq && $(APT) install -qq -y --no-install-recommends gcc libc6-dev; }; } >/dev/null || \
	{ echo "install a C compiler" >&2; exit 1; }
$(PY) -c 'import pathlib, sys, sysconfig; sys.exit(not pathlib.Path(sysconfig.get_path("include"), "Python.h").exists())' || \
	{ $(APT) update -qq && $(APT) install -qq -y --no-install-recommends python3-dev >/dev/null; } || \
	{ echo "install the headers of $(PYTHON)" >&2; exit 1; }
endef

kernel: $(VENV)/.ready
	@$(compiler)
	$(PY) -m pip install --quiet --no-deps --force-reinstall ./kernel

# Beside .venv, so that all other tests keep the path without it.
build/kernel/.ready: $(VENV)/.ready $(KERNEL_SOURCES)
	@$(compiler)
	rm -rf build/kernel
	$(PY) -m pip wheel --quiet --no-deps --wheel-dir build/kernel ./kernel
	$(PY) -m pip install --quiet --no-deps --target build/kernel build/kernel/stratalog_kernel-*.whl
	@touch $@

test-kernel: build/kernel/.ready
	PYTHONPATH=$(CURDIR)/build/kernel STRATALOG_KERNEL=require $(PY) -m pytest -n auto --dist loadgroup $(KERNEL_TESTS)

test-stories: $(VENV)/.ready
	@$(in_memory) $(PY) -m pytest -m story -n auto --dist loadgroup --durations=25 --basetemp="$$place"

test-slow: $(VENV)/.ready
	$(PY) -m pytest -m slow

test-properties: $(VENV)/.ready
	@$(in_memory) $(PY) -m pytest -m "hypothesis and not slow" --hypothesis-profile=deep --timeout=3600 -n auto --dist loadgroup --durations=25 --basetemp="$$place"

test-all: test test-stories test-slow test-properties crash test-kernel test-package test-browser test-conformance test-s3

test-java: $(VENV)/.ready
	$(PY) -m pytest -m java tests/java

test-pyspark: $(VENV)/.ready
	@test -d build/pyspark-$(PYSPARK)/pyspark || \
		$(PY) -m pip install --quiet --no-deps --target build/pyspark-$(PYSPARK) pyspark==$(PYSPARK)
	PYTHONPATH=$(CURDIR)/build/pyspark-$(PYSPARK) $(PY) -m pytest -m "not s3 and not slow and not cluster and not iceberg" -o filterwarnings=default tests/spark

test-spark-cluster: $(VENV)/.ready
	$(PY) -m pytest -m cluster tests/localstack/test_spark_cluster.py tests/spark/cluster

test-iceberg: PYSPARK := 4.1.1
test-iceberg: $(VENV)/.ready
	@test -d build/pyspark-$(PYSPARK)/pyspark || \
		$(PY) -m pip install --quiet --no-deps --target build/pyspark-$(PYSPARK) pyspark==$(PYSPARK)
	PYTHONPATH=$(CURDIR)/build/pyspark-$(PYSPARK) $(PY) -m pytest -m iceberg -o filterwarnings=default tests/spark/sinks

test-node: $(VENV)/.ready
	$(PY) -m pytest -m node tests/clients/test_kafkajs.py tests/clients/test_kafkajs_through_kills.py tests/tier/test_format_reader_node.py

test-browser: $(VENV)/.ready
	$(PY) -m pip install --quiet --group browser
	@test -n "$$STRATALOG_CHROMIUM" || command -v chromium || command -v chromium-browser || command -v google-chrome || \
		{ $(APT) update -qq && $(APT) install -qq -y --no-install-recommends chromium fonts-dejavu-core >/dev/null; } || \
		{ echo "install Chromium, or set STRATALOG_CHROMIUM to one" >&2; exit 1; }
	$(PY) -m pytest -m browser tests/browser

test-conformance: $(VENV)/.ready
	$(PY) -m pytest -m conformance tests/conformance

test-s3: $(VENV)/.ready
	$(PY) localstack/run_s3.py $(S3) --install -- sh -c '$(PY) -m pytest -m "store or s3" --store=$$LOCAL_STORE_URL $(S3_TESTS)'

test-package: $(VENV)/.ready
	$(PY) -m pytest -m package tests/package

crash: $(VENV)/.ready
	$(PY) -m pytest -m crash tests/crash

model: $(VENV)/.ready
	$(PY) -m pytest -v --tb=short -m "slow or not slow" tests/model

mutants: $(VENV)/.ready
	$(PY) -m mutants $(if $(ONLY),--only "$(ONLY)") $(if $(PART),--part $(PART))

sim: $(VENV)/.ready
	$(PY) -m sim $(if $(SEEDS),$(SEEDS),$(or $(SEED),0-199)) $(if $(TRACE),--trace)

sim-quorum: $(VENV)/.ready
	$(PY) -m sim.raft $(if $(SEEDS),$(SEEDS),$(or $(SEED),0-199)) $(if $(TRACE),--trace)

sim-replicas: $(VENV)/.ready
	$(PY) -m sim.cluster.replicas $(if $(SEEDS),$(SEEDS),$(or $(SEED),0-199)) $(if $(TRACE),--trace)

sim-cluster: $(VENV)/.ready
	$(PY) -m sim.cluster $(if $(SEEDS),$(SEEDS),$(or $(SEED),0-199)) $(if $(TRACE),--trace)

check: lint
	$(PY) -m pytest -q tests/test_tidy.py

lint: $(VENV)/.ready
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports

bench: $(VENV)/.ready
	$(PY) -m bench $(if $(CELLS),--cells $(CELLS))

chaos: $(VENV)/.ready
	$(PY) -m bench.chaos --seed $(or $(SEED),0) --seconds $(or $(SECONDS),600)

faults: $(VENV)/.ready
	$(PY) -m bench.faults --seed $(or $(SEED),0) --seconds $(or $(SECONDS),60) $(if $(FAULTS),--faults $(FAULTS)) $(if $(WORKLOADS),--workloads $(WORKLOADS)) $(if $(NODES),--nodes $(NODES)) $(if $(RESULTS),--results $(RESULTS))

bench-kafka: $(VENV)/.ready
	$(PY) -m bench.versus $(if $(CELLS),--cells $(CELLS)) $(if $(DISK),--on-disk)

bench-spark: $(VENV)/.ready
	$(PY) -m bench.versus_spark $(if $(CELLS),--cells $(CELLS)) $(if $(KEEP),--keep $(KEEP))

clean:
	rm -rf $(VENV) demo-data bench/build build/kernel kernel/build .mypy_cache .ruff_cache .pytest_cache .hypothesis
