#!/usr/bin/env bash
# format.sh: every C file is as clang-format leaves it. Another major version lays out differently,
# so without version 14 the test is skipped.
source "$(dirname "${BASH_SOURCE[0]}")/lint_lib.sh"

tool=$(command -v clang-format-14 || command -v clang-format || true)
if [[ -z $tool ]] || ! "$tool" --version | grep -q 'version 14\.'; then
    echo "clang-format 14 not found"
    exit 77
fi
source_files '*.c' '*.h' | xargs "$tool" --dry-run --Werror
