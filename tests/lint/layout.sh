#!/usr/bin/env bash
# layout.sh: the examples and the standard library are as `mpc fmt` leaves them.
source "$(dirname "${BASH_SOURCE[0]}")/lint_lib.sh"

find examples frontend/std -name '*.mpt' -print0 | xargs -0 "${MPC:?the compiler to test}" fmt --check
