#!/usr/bin/env bash
# edges.sh: the smallest data there are, none, constant ones; folders that are files; a disk that is full at each
# of the files of a run; a signal at any moment. All of it ends in order and says what is the case.
source "$(dirname "${BASH_SOURCE[0]}")/e2e_lib.sh"
cd "$tmp"
train=$(program digits)

# rows FOLDER N: a data set of the first N samples of each kind.
rows() {
    mkdir -p "$1"
    for set in train validation; do
        head -n $(($2 + 1)) "$examples/data/digits_$set.csv" >"$1/digits_$set.csv"
    done
}
rows none 0
run 1 "'none/digits_train.csv' is empty: it has a header but no rows" "$train" --data none --out o0
[[ ! -e o0 ]] || fail "a run without data leaves a folder"
rows one 1
run 0 'done status=0 steps=20 ' "$train" --data one --out o1
[[ $(field samples eval o1 | sort -u) == 1 ]] || fail "one sample: evaluations of $(field samples eval o1 | sort -u)"
rows some 31 # of a batch of 32
run 0 'done status=0 steps=20 ' "$train" --data some --out o31
rows more 33
run 0 'done status=0 steps=40 ' "$train" --data more --out o33
mkdir same # a constant in every column
{ head -n 1 some/digits_train.csv; for i in 1 2 3; do sed -n 2p some/digits_train.csv; done; } >same/digits_train.csv
cp same/digits_train.csv same/digits_validation.csv
run 0 'accuracy=1' "$train" --data same --out constant
run 0 'steps=0 ' "$train" --out zero --epochs 0
run 0 'steps=0 ' "$train" --out zero --max-steps 0

# Folders that are none, are not there, or may not be written.
touch file
run 1 "cannot write the folder of the run, 'file': Not a directory" "$train" --out file
run 1 "cannot write the folder of the run, 'file/x': Not a directory" "$train" --out file/x
run 1 "data: there is no folder 'nowhere'" "$train" --out nodata --data nowhere
run 1 "data: there is no folder 'file'" "$train" --out nodata --data file
[[ ! -e nodata ]] || fail "a run without data leaves a folder"

# A disk that is full: the weights are small enough, log, event file, trace and report are not.
full() {
    bash -c "ulimit -f $1; exec \"\$@\"" bash "${@:2}" 2>&1 | cat # what it says is no file
}
for kind in text jsonl csv tensorboard; do
    run 1 'cannot write .*: File too large' full 8 "$train" --out full-$kind --log $kind --checkpoint-every never
done
cat >small.mpt <<'MPT'
data points = csv("points.csv") -> (x: f32[1] = columns("a"), y: f32)
module Line() {
    fc = Linear(1, 1)
    forward(x) { return fc(x).squeeze(-1) }
}
model     = Line()
optimizer = SGD(model.parameters(), lr = 0.01)
for epoch in 0..200 {
    for batch in loader(points, batch_size = 2) {
        loss = mse_loss(model(batch.x), batch.y)
        backward(loss)
        optimizer.step()
        optimizer.zero_grad()
        log(loss)
    }
}
MPT
printf 'a,y\n1,0\n2,0\n3,0\n' >points.csv
quietly "$mpc" small.mpt --cpu=generic -O0 -o small
run 0 'done status=0 ' full 8 ./small --out tight --log tensorboard --profile --checkpoint-every never
for note in 'tight/log.jsonl: File too large; the run goes on without it' "event file in 'tight': File too large" \
    "there is no report: cannot write 'tight/report.html': File too large" 'profile.json'; do
    grep -F -- "$note" said >/dev/null || fail "a full disk: nothing of $note"
done
grep -E 'done .*(log|report)=' said && fail "a full disk: files are promised that are not there"
[[ -s tight/model.safetensors && ! -e tight/report.html && ! -e tight/profile.json ]] || fail "a full disk: $(ls tight)"
"$train" --out taken --epochs 1 --log jsonl >/dev/full 2>err && fail "/dev/full takes the records"
grep 'cannot write to the standard output' err >/dev/null || fail "/dev/full: $(cat err)"
grep Success err && fail "/dev/full: 'Success'"

# A signal at any moment: 143, or the run was over; what is there can be continued to the same weights.
quietly "$train" --out whole --epochs 8 --log none
for after in 0.001 0.005 0.02 0.1 0.2 0.3; do
    rm -rf cut
    status=0
    "$train" --out cut --epochs 8 --log none 2>err &
    sleep "$after"
    kill -TERM $! 2>/dev/null || true
    wait $! 2>/dev/null || status=$?
    [[ $status == 143 || $status == 0 ]] || fail "SIGTERM after $after s: status $status, $(cat err)"
    quietly "$train" --out cut --resume --epochs 8 --log none
    same_weights whole cut "SIGTERM after $after s"
done
finish
