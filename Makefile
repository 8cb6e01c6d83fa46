# What a contributor runs. Each target installs what it needs (Debian, as root; other systems: see README.md).
.PHONY: demo test quick test-ecosystem fetch wheel test-wheel test-arm test-nodes soak soak-backups scaling suites fuzz lint bench servers readers cloud strace fixtures datadirs dist test-dist

CARGO ?= cargo
DATADIRS ?= target/datadirs
# Tests of each of the two programs that run beside each other. Those that run servers wait for them, so there are more than processors.
THREADS ?= 3
# One set of features for everything that is tested.
FEATURES = $(shell scripts/build.sh --features)

demo: ## build innokit and let it find a planted damage in real tablespaces of both servers
	$(CARGO) run --quiet --profile demo -p innokit -- demo

test: servers readers cloud strace ## every test of the Rust crates; those that read what real servers wrote run here only (`cargo test` runs the others)
	INNOKIT_DATADIRS=$(abspath $(DATADIRS)) RUST_TEST_THREADS=$(THREADS) scripts/test.sh

quick: ## the tests of what differs from main, without servers; says what it leaves out
	scripts/quick.sh

test-ecosystem: servers cloud datadirs ## the Python package with pyarrow, Polars, DuckDB, pandas, Spark, Ray and Daft
	INNOKIT_DATADIRS=$(abspath $(DATADIRS)) scripts/test-ecosystem.sh

fetch: servers readers cloud strace ## what `make test` and `make test-ecosystem` take from the network
	scripts/test-ecosystem.sh --fetch

wheel: ## the Python package of the last commit, into target/wheels; the same commit gives the same bytes: make wheel ARCHITECTURES="x86_64 aarch64"
	scripts/wheel.sh $(ARCHITECTURES)

test-wheel: ## build it twice, compare, and install it in clean systems (`make test-ecosystem` builds and installs it once, without optimisation)
	scripts/test-wheel.sh

test-arm: ## the tests that need no server, built for AArch64 and run under emulation: make test-arm CRATES="format flow" (all if not given)
	INNOKIT_ARM_CRATES="$(CRATES)" scripts/test-arm.sh

test-nodes: ## what concerns memory nodes (NUMA), in an emulated machine that has two
	scripts/test-nodes.sh

soak: servers datadirs ## the random parts of the tests again and again, for SECONDS: make soak SECONDS=3600
	INNOKIT_DATADIRS=$(abspath $(DATADIRS)) scripts/soak.sh $(or $(SECONDS),600)

soak-backups: servers ## backups, increments and moments beside a matrix of DDL, for SECONDS: make soak-backups SECONDS=3600 KIND=mariadb
	cargo build --features sql
	scripts/soak-backups.py $(or $(KIND),mysql) --seconds $(or $(SECONDS),600)

scaling: servers strace ## the work of every command on 1,000 and on 8,000 tables: CPU and system calls, at most in proportion
	cargo build --release --features sql
	scripts/scaling.sh

suites: servers ## the tables of a server's own test suites, compared with what it shows: make suites KIND=mariadb ARGS="--suite innodb"
	cargo build --features sql
	scripts/install-suites.sh $(or $(KIND),mysql)
	scripts/suites.py $(or $(KIND),mysql) $(ARGS)

fuzz: ## every fuzz target for some seconds, from the inputs that are kept in fuzz/seeds: make fuzz SECONDS=60, or TOTAL=60 for all
	TOTAL=$(TOTAL) scripts/fuzz.sh $(or $(SECONDS),5)

lint: ## formatting, lints, documentation
	$(CARGO) fmt --all --check
ifdef ONE_BUILD # .ci/run: clippy compiles what is tested, and the documentation is written when its examples are run
	CARGO=$(CARGO) scripts/build.sh
else
	$(CARGO) clippy --workspace --all-targets --features $(FEATURES) -- -D warnings
	$(CARGO) clippy -p innokit --no-default-features -- -D warnings
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps --quiet
endif

bench: ## the table of docs/benchmarks.md, on this machine
	$(CARGO) build --release -p innokit
	scripts/bench.sh

dist: ## packages of the last commit for x86-64 and AArch64, into target/packages; the same commit gives the same bytes
	scripts/dist.sh

test-dist: dist datadirs ## install and run them in bare systems, and build them a second time: takes long, so not in .ci/run
	INNOKIT_DATADIRS=$(abspath $(DATADIRS)) scripts/test-dist.sh

servers: ## MariaDB and MySQL, as the tests use them; quick when they are there already
	scripts/install-servers.sh

readers: ## pyarrow, DuckDB and Polars, which read what we write as Parquet and Arrow
	scripts/install-python-readers.sh

strace: ## lets system calls fail under a sample of commands (make test), or under all (make soak)
	scripts/install-strace.sh

cloud: ## an S3 server and a proxy that spoils connections, as the tests of buckets use them (takes Go)
	scripts/install-cloud.sh

datadirs: servers ## datadirs that the real servers write, kept until the servers or the script change
	scripts/make-datadirs.sh --with encrypted,compressed $(DATADIRS)

fixtures: servers ## make fixtures/ anew with the real servers
	scripts/make-fixtures.sh
