#!/usr/bin/env bash
# layers.sh: runs layers.awk over every source, and over a tree made to break each rule: a lint that
# cannot fail would be none.
source "$(dirname "${BASH_SOURCE[0]}")/lint_lib.sh"
rules=$PWD/tests/lint/layers.awk

mapfile -t files < <(source_files '*.c' '*.h' '*.def' '*.l' '*.y')
awk -f "$rules" "${files[@]}" || failed=1

tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cd "$tmp"
mkdir -p driver frontend ir/base passes runtime/abi
touch ir/ir.h ir/base/vec.h ir/secret.h passes/pass.h runtime/abi/mpc_rt.h frontend/frontend.h
echo '#include "passes/pass.h"' >frontend/sibling.c
echo '#include "frontend/frontend.h"' >ir/upwards.c
echo '#include "ir/secret.h"' >passes/private.c
echo '#include "ir/ir.h"' >runtime/compiler.c
echo '#include "runtime/abi/mpc_rt.h"' >frontend/runtime_tables.c
echo '#include "ir/missing.h"' >passes/missing.c
echo '#include "ir/cycle_b.h"' >ir/cycle_a.h
echo '#include "ir/cycle_a.h"' >ir/cycle_b.h
printf '#include "ir/ir.h"\n#include "ir/base/vec.h"\n' >driver/fine.c
mapfile -t files < <(find . -type f | sed 's,^\./,,' | sort)
found=$(awk -f "$rules" "${files[@]}" || true)
for name in sibling upwards private compiler runtime_tables missing cycle_; do
    grep -q "/$name" <<<"$found" || complain "layers.awk does not see the breach in $name"
done
! grep -q fine.c <<<"$found" || complain "layers.awk complains about a fine file"
exit "$failed"
