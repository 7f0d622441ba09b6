#!/usr/bin/env bash
# bad_data.sh: data files that are not what the program wants. The program names the file and the
# place in it, ends with status 1, and never trains on such data.
source "$(dirname "${BASH_SOURCE[0]}")/e2e_lib.sh"
cd "$tmp"

net='module Mlp(inputs) {
    fc1 = Linear(inputs, 8)
    fc2 = Linear(8, 3)
    forward(image) { return fc2(relu(fc1(flatten(image, 1)))) }
}'
trainer() {
    echo "trainer {
    model = Mlp($1)
    train_dataset = train_set
    num_train_epochs = 1
    per_device_train_batch_size = 4
    learning_rate = 0.1
}"
}
mkdir source
cat >source/table.mpt <<END
data train_set = csv("table.csv") -> (image: f32[4] = columns("a".."d"), label: i32 = column("label"))
$net
$(trainer 4)
END
cat >source/pictures.mpt <<END
data train_set = idx("images.gz", "labels.gz") -> (image: u8[2, 2], label: u8)
batch of train_set {
    image = f32(image) / 255
}
$net
$(trainer 4)
END
quietly "$mpc" source/table.mpt -o table
quietly "$mpc" source/pictures.mpt -o pictures

# ---- tables ------------------------------------------------------------------------------------
fine_table() {
    echo a,b,c,d,label
    for i in $(seq 10); do echo "$i,0.5,-1e-3,\"2\",$((i % 3))"; done
}
mkdir good bad
fine_table >good/table.csv
quietly ./table --data good --out good_run

# table NAME REGEX: the table on stdin is refused.
table() {
    cat >bad/table.csv
    run 1 "$2" ./table --data bad --out "run_$1"
    grep -q 'table\.csv' said || fail "$1: the message does not name the file"
}
fine_table | sed 's/,d,/,D2,/' | table column "['\"]d['\"]"
fine_table | sed '6s/0\.5/0.5x/' | table number 'table\.csv:6'
fine_table | sed '7s/0\.5//' | table gap 'table\.csv:7'
fine_table | sed '4s/0\.5/nan/' | table nan 'table\.csv:4'
fine_table | sed '4s/0\.5/inf/' | table inf 'table\.csv:4'
fine_table | sed '5s/,[0-9]$/,3/' | table label '(row|line) *[45]|table\.csv:5'
fine_table | sed '5s/,[0-9]$/,-1/' | table negative '(row|line) *[45]|table\.csv:5'
fine_table | sed '5s/,[0-9]$/,1.5/' | table fraction 'table\.csv:5'
fine_table | sed '8s/$/,9/' | table wide 'table\.csv:8'
fine_table | sed '8s/,[0-9]$//' | table narrow 'table\.csv:8'
fine_table | sed '3s/"2"/"2/' | table quote 'table\.csv:3'
echo a,b,c,d,label | table rows '(no rows|no samples|empty|0 rows)'
: | table empty '(empty|header)'
head -c 5000 /dev/urandom | table noise 'table\.csv'
rm bad/table.csv
mkdir nowhere
(cd nowhere && run 1 'table\.csv' ../table --data ../bad --out run_missing)
mkdir bad/table.csv
run 1 'table\.csv' ./table --data bad --out run_folder
rmdir bad/table.csv

# ---- IDX ---------------------------------------------------------------------------------------
bytes() { printf "$(printf '\\x%02x' "$@")"; }
images() { bytes 0 0 8 3 0 0 0 "$1" 0 0 0 2 0 0 0 2; for i in $(seq "$1"); do bytes $i 2 3 255; done; }
labels() { bytes 0 0 8 1 0 0 0 "$1"; for i in $(seq "$1"); do bytes $((i % 3)); done; }
images 10 | gzip -n >good/images.gz
labels 10 | gzip -n >good/labels.gz
quietly ./pictures --data good --out good_pictures

# The same without gzip, under the same names.
mkdir plain
images 10 >plain/images.gz
labels 10 >plain/labels.gz
quietly ./pictures --data plain --out plain_pictures
same_weights good_pictures plain_pictures "gzip and plain"

# pictures NAME FILE REGEX: FILE (on stdin) in place of the good one is refused.
pictures() {
    rm -rf bad
    cp -r good bad
    cat >"bad/$2"
    run 1 "$3" ./pictures --data bad --out "run_$1"
    grep -q "$2\|images\.gz" said || fail "$1: the message does not name the file"
}
head -c 40 good/images.gz | pictures truncated images.gz '(trunc|ends|short|corrupt|damaged)'
{ head -c 30 good/images.gz; bytes 255 255 255 255 7; tail -c +36 good/images.gz; } |
    pictures corrupt images.gz '(corrupt|damaged|inflate|invalid|check)'
{ head -c -8 good/images.gz; bytes 1 2 3 4 5 6 7 8; } | pictures checksum images.gz '(corrupt|damaged|check|crc|length)'
{ bytes 0 0 13 3; images 10 | tail -c +5; } | gzip -n | pictures type images.gz '(f32|type)'
{ bytes 1 0 8 3; images 10 | tail -c +5; } | gzip -n | pictures magic images.gz '(magic|IDX)'
{ bytes 0 0 8 1; images 10 | tail -c +5; } | gzip -n | pictures axes images.gz '(axes|dimension|magic|IDX)'
{ bytes 0 0 8 3 0 0 0 10 0 0 0 3 0 0 0 2; images 10 | tail -c +17; } | gzip -n | pictures size images.gz '3'
{ bytes 0 0 8 3 255 255 255 255 0 0 0 2 0 0 0 2; images 10 | tail -c +17; } | gzip -n |
    pictures huge images.gz '(short|ends|trunc|4294967295|bytes)'
images 10 >all
head -c 30 all | gzip -n | pictures short images.gz '(short|ends|trunc|bytes)'
labels 9 | gzip -n | pictures counts labels.gz '(9.*10|10.*9)'
{ labels 10 | head -c -3; bytes 3 1 1; } | gzip -n | pictures label labels.gz '(row|label|sample).*3'
: | pictures empty images.gz '(empty|short|ends|trunc)'
head -c 3000 /dev/urandom | pictures noise images.gz 'images\.gz'
rm -rf bad
cp -r good bad
rm bad/labels.gz
run 1 'labels\.gz' ./pictures --data bad --out run_missing_labels
grep -q 'bad' said || fail "missing: the message does not say where it looked"

# --init with a file that is none, or of another model.
head -c 100 /dev/urandom >noise.safetensors
run 1 'noise\.safetensors' ./pictures --data good --init noise.safetensors --out run_noise
run 1 'nosuch\.safetensors' ./pictures --data good --init nosuch.safetensors --out run_nosuch
head -c 60 good_run/model.safetensors >cut.safetensors
run 1 'cut\.safetensors' ./table --data good --init cut.safetensors --out run_cut
quietly ./table --data good --init good_run/model.safetensors --out run_init
finish
