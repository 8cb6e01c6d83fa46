# Paired timing for the scripts behind docs/benchmarks.md. Source it with `pairs` and `work` (an empty directory) set.
#
# Every comparison is in pairs, A B A B ..., in one run; what is printed is the median of the pairs' ratios, because the machine's speed
# drifts and bare seconds mean little.
# shellcheck shell=bash

say() { printf '%s\n' "$*"; }

can_drop=no
[ ! -w /proc/sys/vm/drop_caches ] || can_drop=yes
drop_caches() { sync; echo 3 >/proc/sys/vm/drop_caches; }

# Runs a command, discards its output, and prints "wall cpu" in seconds. TIMEFORMAT counts the command and its children.
timed() {
    local TIMEFORMAT='%R %U %S' status=0
    { time "$@" >"$work/output" 2>&1 || status=$?; } 2>"$work/time"
    # 0 and, for commands that judge, 1 are verdicts. Any other status means that the work was not done and must not be measured.
    [ "$status" -le "${verdict_max:-1}" ] || { say "bench: exit status $status: $*" >&2; tail -5 "$work/output" >&2; exit 1; }
    awk '{ print $1, $2 + $3 }' "$work/time"
}

# compare NAME hot|cold FUNCTION_A FUNCTION_B: A is innokit, B the peer; the ratios are A / B, below 1 is faster.
compare() {
    local name="$1" state="$2" a="$3" b="$4" pair
    : >"$work/rows"
    if [ "$state" = hot ]; then "$a" >/dev/null 2>&1 || true; "$b" >/dev/null 2>&1 || true; fi
    for ((pair = 0; pair < pairs; pair++)); do
        [ "$state" = hot ] || drop_caches
        local row
        row="$(timed "$a")"
        [ "$state" = hot ] || drop_caches
        printf '%s %s\n' "$row" "$(timed "$b")" >>"$work/rows"
    done
    row_of "$name"
}

# The medians of the ratios of the lines "wall cpu wall cpu" in $work/rows.
row_of() {
    awk -v name="$1" '
        { wall[NR] = $1 / ($3 > 0 ? $3 : 0.001); cpu[NR] = $2 / ($4 > 0 ? $4 : 0.001); a[NR] = $1; b[NR] = $3 }
        function median(v, n,   i, j, t) {
            for (i = 2; i <= n; i++) for (j = i; j > 1 && v[j] < v[j-1]; j--) { t = v[j]; v[j] = v[j-1]; v[j-1] = t }
            return (n % 2) ? v[(n + 1) / 2] : (v[n / 2] + v[n / 2 + 1]) / 2
        }
        END { printf "| %s | %.2f | %.2f | %.1f |\n", name, median(wall, NR), median(cpu, NR), 1 / median(wall, NR) }' "$work/rows"
}

heading() { say; say "### $1"; say; say '| against | wall, innokit / peer | CPU, innokit / peer | times as fast |'; say '|---|---|---|---|'; }
