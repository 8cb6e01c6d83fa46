#!/usr/bin/env bash
# Runs a small Spark cluster for tests: a standalone master and its workers, all on free ports of 127.0.0.1.
#
#   spark-cluster.sh start FOLDER [WORKERS]   prints the master's URL once the workers (2) have joined it
#   spark-cluster.sh pids  FOLDER             the processes of the workers' executors, one a line
#   spark-cluster.sh stop  FOLDER             stops what is still running, by pid
#
# PYTHON: the interpreter of an environment with pyspark, which the executors use too (python3 if not set). Logs, pids and the workers'
# files are in FOLDER. Each worker has one core and 1 GiB for executors. Needs Java 17 or later.
# Exit status: 0 done, 2 could not.
set -euo pipefail

readonly wait_s=120

die() { printf 'spark-cluster: %s\n' "$*" >&2; exit 2; }
usage() { sed -n '2,/^set -/{s/^# \{0,1\}//;/^set -/!p}' "$0" >&2; exit 2; }

[ $# -ge 2 ] || usage
readonly action="$1" workers="${3:-2}"
mkdir -p "$2"
folder="$(cd "$2" && pwd)"
readonly folder

# daemon NAME CLASS ARGUMENT...: starts a process, with its pid and its log in the folder.
daemon() {
    local name="$1"
    shift
    "$spark/bin/spark-class" "$@" >"$folder/$name.log" 2>&1 </dev/null &
    printf '%s\n' "$!" >"$folder/$name.pid"
}

# A zombie still has its pid.
runs() { [ -e "/proc/$1" ] && ! grep -q '^State:[[:space:]]*Z' "/proc/$1/status" 2>/dev/null; }

# said NAME WORDS: waits until the log of NAME has WORDS, and prints that line.
said() {
    local deadline=$((SECONDS + wait_s)) line
    until line="$(grep -m 1 -e "$2" "$folder/$1.log" 2>/dev/null)"; do
        runs "$(cat "$folder/$1.pid")" || die "$1 has ended: $(tail -n 5 "$folder/$1.log")"
        [ "$SECONDS" -lt "$deadline" ] || die "$1 is not ready after $wait_s s: $(tail -n 5 "$folder/$1.log")"
        sleep 0.2
    done
    printf '%s\n' "$line"
}

start() {
    local python="${PYTHON:-python3}" master number
    command -v java >/dev/null || [ -x "${JAVA_HOME:-}/bin/java" ] || die "java is missing: Spark 4 takes Java 17 or later"
    spark="$("$python" -c 'import os, pyspark; print(os.path.dirname(pyspark.__file__))')" || die "$python has no pyspark"
    export SPARK_LOCAL_IP=127.0.0.1 SPARK_DAEMON_MEMORY=256m SPARK_LOG_DIR="$folder" PYSPARK_PYTHON="$python"
    # A failed start must leave nothing running.
    trap stop ERR EXIT
    daemon master org.apache.spark.deploy.master.Master --host 127.0.0.1 --port 0 --webui-port 0
    master="$(said master 'Starting Spark master at')"
    master="spark://${master##*spark://}"
    for ((number = 1; number <= workers; number++)); do
        daemon "worker-$number" org.apache.spark.deploy.worker.Worker --host 127.0.0.1 --port 0 --webui-port 0 --cores 1 --memory 1g \
            --work-dir "$folder/work-$number" "$master"
    done
    for ((number = 1; number <= workers; number++)); do
        said "worker-$number" 'Successfully registered with master' >/dev/null
    done
    trap - ERR EXIT
    printf '%s\n' "$master"
}

# An executor is a child of its worker's process.
executors() {
    local file
    for file in "$folder"/worker-*.pid; do
        [ -e "$file" ] || continue
        pgrep -P "$(cat "$file")" -f CoarseGrainedExecutorBackend || :
    done
}

stop() {
    local file pid deadline
    for file in "$folder"/worker-*.pid "$folder"/master.pid; do
        [ -e "$file" ] || continue
        pid="$(cat "$file")"
        kill "$pid" 2>/dev/null || :
        deadline=$((SECONDS + 20))
        while runs "$pid"; do
            [ "$SECONDS" -lt "$deadline" ] || kill -9 "$pid" 2>/dev/null || :
            sleep 0.1
        done
        rm -f "$file"
    done
}

case "$action" in
start) start ;;
pids) executors ;;
stop) stop ;;
*) usage ;;
esac
