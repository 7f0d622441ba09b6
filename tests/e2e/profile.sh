#!/usr/bin/env bash
# profile.sh: --profile accounts for the time of a run, kernel by kernel, changes nothing of it, and leaves a
# trace that names the same kernels.
source "$(dirname "${BASH_SOURCE[0]}")/e2e_lib.sh"
cd "$tmp"
train=$(program digits)

quietly "$train" --out plain --epochs 3 --log none --threads 2
"$train" --out timed --epochs 3 --profile --threads 2 >said 2>err || fail "--profile ends with $?"
same_weights plain timed "--profile"
sed -n '/GFLOP\/s/,/^$/p' said | grep '%' >kernels || fail "no table"
awk '{ sum += $1; if ($5 + 0 < 1 || $NF == "") exit 1 } END { exit !(sum > 1 && sum < 101) }' kernels ||
    fail "the shares of kernels: $(head -n 3 kernels)"
awk '/^ *[0-9.]+ % +[0-9.]+ ms +(kernels|waiting|checkpoints|report|between)/ { sum += $1 }
     END { exit !(sum > 99 && sum < 101) }' said || fail "the parts of the run do not add up to it"
grep -E ' fc2_.*relu$' kernels | awk '{ exit !($8 > 0 && $9 > 0 && $10 == 25) }' ||
    fail "fc2: $(grep fc2_ kernels)"

trace=timed/profile.json
for name in $(awk '!/packing/ { print $NF }' kernels); do
    grep -F "\"name\":\"$name\"" $trace >/dev/null || fail "the trace lacks $name"
done
for name in 'first step (warm-up)' evaluation checkpoint batch; do
    grep -F "\"name\":\"$name\"" $trace >/dev/null || fail "the trace lacks $name"
done
for thread in 'thread 0 (main)' 'thread 1' train_loader run; do
    grep -F "{\"name\":\"$thread\"}" $trace >/dev/null || fail "the trace lacks $thread"
done
if command -v python3 >/dev/null; then
    python3 - $trace <<'PY' || fail "the trace is no trace"
import json, sys
trace = json.load(open(sys.argv[1]))
events = trace["traceEvents"]
assert set(trace) == {"displayTimeUnit", "traceEvents"} and trace["displayTimeUnit"] == "ms"
number = lambda v: type(v) in (int, float) and v >= 0

# Complete events with time, length and track in microseconds; metadata that names the process and every track.
spans, names = [], {}
for e in events:
    assert type(e["name"]) is str and e["name"] and e["pid"] == 1 and type(e["tid"]) is int, e
    if e["ph"] == "X":
        assert number(e["ts"]) and number(e["dur"]), e
        assert set(e) <= {"name", "ph", "ts", "dur", "pid", "tid", "cat", "args"}, e
        spans.append(e)
    else:
        assert e["ph"] == "M" and list(e["args"]) == ["name"], e
        assert (e["name"], e["tid"]) not in names, e
        names[e["name"], e["tid"]] = e["args"]["name"]
assert [k for k in names if k[0] == "process_name"] == [("process_name", 0)]
assert {e["tid"] for e in spans} <= {tid for kind, tid in names if kind == "thread_name"}, "tracks without a name"

# On a track, spans nest or follow each other; those of kernels never nest.
for tid in {e["tid"] for e in spans}:
    row = sorted((e for e in spans if e["tid"] == tid), key=lambda e: (e["ts"], -e["dur"]))
    open_ends = []
    for e in row:
        end = e["ts"] + e["dur"]
        while open_ends and open_ends[-1] <= e["ts"] + 1e-3:
            open_ends.pop()
        assert not open_ends or end <= open_ends[-1] + 1e-3, f"spans cross: {e}"
        assert not open_ends or "cat" not in e, f"kernels of a thread overlap: {e}"
        open_ends.append(end)
PY
fi

# Where stdout is for machines the table goes to stderr. An evaluation has a profile, too, and no trace.
"$train" --out jsonl --epochs 1 --log jsonl --profile >records 2>table || fail "--log jsonl ends with $?"
grep -v '^{' records && fail "--log jsonl: more than records on stdout"
grep 'GFLOP/s' table >/dev/null || fail "--log jsonl: no table on stderr"
run 0 'fc1_' "$train" --out timed --eval --profile
finish
