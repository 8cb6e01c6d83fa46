#!/usr/bin/env bash
# Runs what concerns memory nodes (NUMA) in a virtual machine that has two: the test of flow, and `innokit check`, whose workers must stay
# on both nodes, half of them on each. Safe to run again.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/debian.sh
. scripts/debian.sh

command -v strace >/dev/null || apt-get -qq install -y --no-install-recommends strace >/dev/null ||
    die "apt could not install strace (is this root?)"
say "building"
test_program="$(cargo test --quiet --no-run -p innokit-flow --test nodes --message-format json |
    sed -n 's/.*"executable":"\([^"]*\/nodes-[^"]*\)".*/\1/p')"
# With the features of `make test`, whose program this replaces.
cargo build --quiet -p innokit --features parquet,sql

share="$(mktemp -d)"
trap 'rm -rf "$share"' EXIT
mkdir "$share/files"
zstd -dq fixtures/scattered/scattered-16k.ibd.zst -o "$share/files/scattered.ibd"
cp "$test_program" "$share/nodes"
cat >"$share/run" <<'RUN'
set -e
INNOKIT_TWO_NODES=1 nodes
strace -f -e trace=sched_setaffinity -o trace innokit check --progress never --threads 4 files >report
RUN
say "running in a machine of two nodes"
scripts/vm.sh "$share" "$share/nodes" target/debug/innokit "$(command -v strace)" || die "it failed there: $(tail -n 30 "$share/console")"
grep -a '^test ' "$share/console"
tail -n 1 "$share/report"
for node in 0 1; do
    workers="$(grep -c "sched_setaffinity(0, [0-9]*, \[$node\])" "$share/trace" || true)"
    say "workers of innokit check on node $node: $workers"
    [ "$workers" = 2 ] || die "2 of 4 workers should be there: $(cat "$share/trace")"
done
