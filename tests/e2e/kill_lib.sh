# kill_lib.sh: runs that are killed and continued. Sourced behind e2e_lib.sh, not run.

# records RUN: the log without what differs between any two runs.
records() {
    grep -E '"event":"(step|eval)"' "$1/log.jsonl" |
        sed -E 's/"(samples_per_s|seconds)":[^,}]*//g'
}

# killed NAME TIMES PROGRAM ARGUMENT...: is killed, after some milliseconds each time, and continued;
# at the end at most $most (3) things lie in its folder of checkpoints.
killed() {
    local name=$1 times=$2 status i
    shift 2
    quietly "$@" --out "$tmp/whole_$name"
    for ((i = 0; i < times; i++)); do
        status=0
        "$@" --checkpoint-every "$((RANDOM % 3 + 1))" --resume --out "$tmp/killed_$name" \
            >"$tmp/said" 2>&1 &
        sleep "0.0$((RANDOM % 80 + 15))"
        kill -KILL $! 2>/dev/null || true
        wait $! 2>/dev/null || status=$?
        ((status == 137 || status == 0)) || fail "$name, try $i: status $status: $(cat "$tmp/said")"
    done
    ls "$tmp/killed_$name"/checkpoints/step-* >/dev/null || fail "$name: it was never under way"
    quietly "$@" --resume --out "$tmp/killed_$name"
    same_weights "$tmp/whole_$name" "$tmp/killed_$name" "$name"
    diff <(records "$tmp/whole_$name") <(records "$tmp/killed_$name") >"$tmp/diff" ||
        fail "$name: the records differ: $(head -n 4 "$tmp/diff")"
    [[ $(ls -A "$tmp/killed_$name/checkpoints" | wc -l) -le ${most:-3} ]] ||
        fail "$name: left behind: $(ls -A "$tmp/killed_$name/checkpoints")"
}
