# lint_lib.sh: what the lint scripts share. Sourced, not run.
set -euo pipefail
cd "${MPC_SOURCE_DIR:-$(dirname "${BASH_SOURCE[0]}")/../..}"
failed=0

# Our own sources: every file in the folders of the tree whose name matches one of the patterns.
source_files() {
    local tests=() pattern
    for pattern in "$@"; do
        tests+=(-o -name "$pattern")
    done
    local folders=() folder
    for folder in driver frontend ir passes codegen runtime tests bench examples docs cmake; do
        [[ -d $folder ]] && folders+=("$folder")
    done
    find "${folders[@]}" -path tests/golden -prune -o -type f \( "${tests[@]:1}" \) -print | sort
}

# complain MESSAGE: one finding; the script fails at its end.
complain() {
    echo "$1"
    failed=1
}
