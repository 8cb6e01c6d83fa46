# What a contributor runs. Each target installs what it needs (Debian, as root; other systems: see README.md).
.PHONY: demo test test-arm lint bench servers fixtures datadirs

CARGO ?= cargo
DATADIRS ?= target/datadirs

demo: ## build innokit and let it find a planted damage in real tablespaces of both servers
	$(CARGO) run --quiet --release -p innokit -- demo

test: servers datadirs ## every test, those against real servers among them
	INNOKIT_DATADIRS=$(abspath $(DATADIRS)) $(CARGO) test --workspace

test-arm: ## the tests that need no server, built for AArch64 and run under emulation; what is left out and why: the script's head
	scripts/test-arm.sh

lint: ## formatting, lints, documentation
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets -- -D warnings
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps --quiet

bench: ## the table of docs/benchmarks.md, on this machine
	$(CARGO) build --release -p innokit
	scripts/bench.sh

servers: ## MariaDB and MySQL, as the tests use them; quick when they are there already
	scripts/install-servers.sh

datadirs: servers ## datadirs that the real servers write, kept until the servers or the script change
	scripts/make-datadirs.sh --with encrypted,compressed $(DATADIRS)

fixtures: servers ## make fixtures/ anew with the real servers
	scripts/make-fixtures.sh
