# The one list of commands. `make` prints it; continuous integration calls these targets and nothing else.
SHELL := /bin/bash
.DEFAULT_GOAL := help
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
HARDENING := bench/results/hardening
NATIVE_SOURCES := $(shell find native -name "*.[ch]pp")
NATIVE := CMakeLists.txt pyproject.toml requirements-dev.lock $(NATIVE_SOURCES)

.PHONY: help setup demo quick test check wheel bench versus fuzz sanitize tsan innocent audit crash crash-database failover hosts rolling sim load flaps partition congestion pan hermes covering traces differential docs proton container trace-kills spark-kills stub clean

help:  ## show this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-11s %s\n", $$1, $$2}'

setup: $(STAMP)  ## create .venv and install Tidings and its tools into it

$(STAMP): $(NATIVE) scripts/system-packages scripts/node-packages tests/integration/protocols/node/package-lock.json
	scripts/system-packages
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements-dev.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation \
	  -C cmake.define.TIDINGS_WERROR=ON --editable .
	scripts/node-packages
	touch $@

demo: setup  ## two minutes with a network of brokers: market data, a trace, a failure, a prediction, Spark, a report
	$(BIN)/tidings demo

quick: setup  ## the pure tests, without sockets, processes, browser or Spark: under two minutes on two cores
	$(BIN)/python -m pytest --numprocesses 2 --dist loadgroup -m "not (sockets or processes or browser or spark or slow)" \
	  tests/unit tests/papers tests/test_tidy.py tests/test_index.py tests/test_architecture.py

test: setup check  ## everything a change must pass: checks, then all tests
	$(BIN)/python -m pytest --numprocesses 2 --dist loadgroup

check: setup  ## format, lint, types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/clang-format --dry-run -Werror $(NATIVE_SOURCES)
	$(BIN)/mypy

wheel: setup  ## build wheels and try them outside the checkout, with each extra alone (PYTHONS="python3.11 python3.13")
	$(BIN)/python -m bench.install --wheels build/wheels $(foreach one,$(PYTHONS),--python $(one))

bench: setup  ## measure the kernel and the models; results and plots go to bench/results
	for name in matching limits encoded routers bloom codec selector covering store waiting simulator cover_index tracking forwarding network pipeline; do \
	  $(BIN)/python -m bench.$$name || exit 1; done

versus: setup  ## measure the broker beside ActiveMQ, whole grid, about half an hour (as root: installs activemq)
	$(BIN)/python -m bench.broker --full --install

fuzz: setup  ## fuzz everything that reads bytes, the kernel under AddressSanitizer (SECONDS_EACH=30, STREAMS=20000)
	RESULTS=$(HARDENING)/fuzz.json scripts/fuzz
	for target in codecs links configuration segments selectors sockets; do \
	  $(BIN)/python -m hardening.fuzz $$target $(or $(STREAMS),20000) $(or $(SEED),1) --results $(HARDENING)/fuzz.json || exit 1; done
	$(BIN)/python -m hardening.fuzz.amqp $(or $(STREAMS),20000) $(or $(SEED),1) --results $(HARDENING)/fuzz.json
	$(BIN)/python -m hardening.fuzz.amqp $$(( $(or $(STREAMS),20000) / 10 )) $(or $(SEED),1) --sockets --results $(HARDENING)/fuzz.json

sim: setup  ## random networks, workloads and faults in the simulator, judged against the truth (SEEDS=1000)
	$(BIN)/python -m hardening.simulate 1 $(or $(SEEDS),1000) --processes $$(nproc) --results $(HARDENING)/simulation.json
	$(BIN)/python -m hardening.machines.interest_spread 1 $(or $(SEEDS),1000) --processes $$(nproc)

flaps: setup  ## links that flap and a partition under load, on real sockets (SECONDS=120)
	$(BIN)/python -m hardening.network.flaps $(or $(SECONDS),120)

partition: setup  ## cut a network of broker processes in two and heal it, in network namespaces (TIMES=5; as root)
	$(BIN)/python -m hardening.network.partition $(or $(TIMES),5) $(HARDENING)/partition.json

congestion: setup  ## push-back between brokers: full links and slow subscribers, simulated and real (SEEDS=10000 SECONDS=20)
	$(BIN)/python -m hardening.simulate.congestion 1 $(or $(SEEDS),10000) --processes $$(nproc) --results $(HARDENING)/congestion.json
	$(BIN)/python -m hardening.network.slow_subscriber $(or $(SECONDS),20) $(HARDENING)/congestion.json

pan: setup  ## Pan under joins, leaves and crashes: every key must reach the closest node (SEEDS=1000)
	$(BIN)/python -m hardening.machines.pan 1 $(or $(SEEDS),1000) --processes $$(nproc) --results $(HARDENING)/pan.json

hermes: setup  ## Hermes under random schedules and crashes: every event once to all who want it (SEEDS=500)
	$(BIN)/python -m hardening.machines.hermes 1 $(or $(SEEDS),500) --processes $$(nproc) --results $(HARDENING)/hermes.json

covering: setup  ## every covering policy under random schedules and failing links: what is due comes once (SEEDS=1000)
	$(BIN)/python -m hardening.machines.covering 1 $(or $(SEEDS),1000) --processes $$(nproc) --results $(HARDENING)/covering.json

traces: setup  ## traces under faults, of ids that moved, come again or are invented: no wrong "no" (SEEDS=200)
	$(BIN)/python -m hardening.machines.tracing 1 $(or $(SEEDS),200) --processes $$(nproc) --results $(HARDENING)/tracing.json

differential: setup  ## random client scripts at the simulated and at the real broker: both must answer alike (SEEDS=1000)
	$(BIN)/python -m hardening.differential 1 $(or $(SEEDS),1000) --processes $$(nproc) --results $(HARDENING)/differential.json

sanitize: setup  ## the kernel's tests and a sample of fuzzing with AddressSanitizer and UBSan in the kernel
	test -x build/sanitize/bin/python || $(PYTHON) -m venv build/sanitize
	build/sanitize/bin/python -m pip install --quiet --disable-pip-version-check -r requirements-dev.lock
	build/sanitize/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation \
	  -C cmake.define.TIDINGS_WERROR=ON -C cmake.define.TIDINGS_SANITIZE=address,undefined -C build-dir=build/sanitize/cmake .
	LD_PRELOAD="$$(g++ -print-file-name=libasan.so) $$(g++ -print-file-name=libubsan.so)" ASAN_OPTIONS=detect_leaks=0 \
	  build/sanitize/bin/python -m pytest tests/unit/kernel tests/unit/matching --ignore tests/unit/kernel/test_fuzz.py
	for target in configuration segments selectors; do \
	  LD_PRELOAD="$$(g++ -print-file-name=libasan.so) $$(g++ -print-file-name=libubsan.so)" ASAN_OPTIONS=detect_leaks=0 PYTHONMALLOC=malloc \
	    build/sanitize/bin/python -m hardening.fuzz $$target $(or $(STREAMS),20000) $(or $(SEED),1) --slow || exit 1; done

tsan: setup  ## run the kernel's tests of threads with ThreadSanitizer in the kernel
	test -x build/tsan/bin/python || $(PYTHON) -m venv build/tsan
	build/tsan/bin/python -m pip install --quiet --disable-pip-version-check -r requirements-dev.lock
	build/tsan/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation \
	  -C cmake.define.TIDINGS_WERROR=ON -C cmake.define.TIDINGS_SANITIZE=thread -C build-dir=build/tsan/cmake .
	rm -f build/tsan/report.xml
	LD_PRELOAD="$$(g++ -print-file-name=libtsan.so)" TSAN_OPTIONS="halt_on_error=1 report_signal_unsafe=0" OPENBLAS_NUM_THREADS=1 \
	  setarch $$(uname -m) -R build/tsan/bin/python -m pytest -p no:cacheprovider \
	  --junitxml build/tsan/report.xml tests/unit/kernel/test_threads.py; status=$$?; \
	  $(BIN)/python -m hardening.record $(HARDENING)/threads.json threads --tests build/tsan/report.xml; exit $$status

innocent: setup  ## how long an innocent client waits while another is at each limit (goes on where it was)
	$(BIN)/python -m hardening.innocent
	$(BIN)/python -m hardening.limits_table docs/limits.md

audit: setup  ## known weaknesses in the locked versions (DATABASE=copy of osv.dev for PyPI), SQLite, CPython and OpenSSL
	$(BIN)/python -m hardening.audit $(DATABASE) --results $(HARDENING)/audit.json

docs: setup  ## build the documentation into build/docs, without warnings
	$(BIN)/python -m docs.pages docs/generated
	$(BIN)/sphinx-build -q -W --keep-going -b html docs build/docs
	@echo "build/docs/index.html"

crash: setup  ## end brokers under load again and again, fail the power, cut and flip bytes of stores (KILLS=500)
	$(BIN)/python -c 'import sys; from hardening.kills.broker import main; main(sys.argv[1:])' \
	  $(or $(KILLS),500) $(or $(SEED),$$RANDOM) $(HARDENING)/crash.json
	$(BIN)/python -c 'import sys; from hardening.kills.line import main; main(sys.argv[1:])' \
	  $$(( $(or $(KILLS),500) / 5 )) $(or $(SEED),$$RANDOM) $(HARDENING)/crash.json
	$(BIN)/python -c 'import sys; from hardening.kills.stalled_line import main; main(sys.argv[1:])' \
	  $$(( $(or $(KILLS),500) / 25 )) $(or $(SEED),$$RANDOM) $(HARDENING)/crash.json
	$(BIN)/python -m hardening.kills.power_loss $$(( $(or $(KILLS),500) * 2 )) $(or $(SEED),$$RANDOM) $(HARDENING)/crash.json
	$(BIN)/python -m hardening.kills.store_damage $$(( $(or $(KILLS),500) * 2 )) $(or $(SEED),$$RANDOM) $(HARDENING)/crash.json

crash-database: setup  ## end brokers and the PostgreSQL servers that keep their messages, under load, again and again (KILLS=500)
	$(BIN)/python -c 'import sys; from hardening.kills.database import main; main(sys.argv[1:])' \
	  $(or $(KILLS),500) $(or $(SEED),$$RANDOM) $(HARDENING)/crash.json

failover: setup  ## kill, stop and switch over pairs of brokers on one store, under load; goes on where it ended (EVENTS=100)
	$(BIN)/python -c 'import sys; from hardening.kills.failover import main; main(sys.argv[1:])' \
	  $(or $(EVENTS),100) $(or $(SEED),$$RANDOM) $(HARDENING)/failover.json

hosts: setup  ## the same on hosts that lose each other, the database and clients, as root; goes on where it ended (EVENTS=100 ONLY=promotion)
	$(BIN)/python -c 'import sys; from hardening.kills.hosts import main; main(sys.argv[1:])' \
	  $(or $(EVENTS),100) $(or $(SEED),$$RANDOM) $(HARDENING)/failover.json "$(ONLY)"

rolling: setup  ## change each network parameter broker by broker, under load and kills; goes on where it ended (DUE=15000 ONLY=hops_max)
	$(BIN)/python -m hardening.kills.rolling $(or $(DUE),15000) $(if $(ONLY),--only $(ONLY)) --results $(HARDENING)/rolling.json

proton: setup  ## Qpid Proton's own examples against a broker on port 5672 (EXAMPLES=.../qpid-proton/python/examples)
	scripts/proton-examples $(EXAMPLES)

container:  ## build the container file and try the image, with podman and mmdebstrap (as root; BASE=an image you have)
	scripts/container

trace-kills: setup  ## kill -9 a broker that records, again and again, then trace every message (KILLS=50)
	$(BIN)/python -m hardening.kills.tracing $(or $(KILLS),50)

spark-kills: setup  ## kill -9 drivers of Spark jobs and streams, and run them again (KILLS=20)
	$(BIN)/python -m hardening.kills.spark $(or $(KILLS),20)
	$(BIN)/python -m hardening.kills.spark_delta $(or $(KILLS),20)

load: setup  ## half frames, changing subscriptions, one that never reads, a soak: what a broker must bear (MINUTES=30)
	$(BIN)/python -m hardening.load.scenarios half 5000 $(HARDENING)/load.json
	$(BIN)/python -m hardening.load.scenarios churn 100000 1000 60 $(HARDENING)/load.json
	$(BIN)/python -m hardening.load.scenarios silent 1000 $(HARDENING)/load.json
	$(BIN)/python -m hardening.load.scenarios soak $(or $(MINUTES),30) $(HARDENING)/load.json
	$(BIN)/python -m bench.idle_connections 10000 $(HARDENING)/load.json
	$(BIN)/python -m bench.slow_consumer 3 $(HARDENING)/load.json

stub: setup  ## rewrite src/tidings/_kernel.pyi from the built kernel
	$(BIN)/python -m nanobind.stubgen -m tidings._kernel -o src/tidings/_kernel.pyi

clean:  ## remove what was built; the virtual environment too
	rm -rf build $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis
