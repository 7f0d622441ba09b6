# need-packages.sh: installs Debian packages that are missing. Sourced by get-started and run-tests.
#
# need_packages REASON PACKAGE... asks dpkg for each one and hands the missing ones to apt-get, as
# root or by sudo (which may ask for a password only where somebody can answer). Where neither
# works it names the packages and stops with status 1.

need_packages() {
    local reason=$1 missing=() package
    shift
    if ! command -v dpkg-query >/dev/null; then
        echo "This is no Debian system; please see to it yourself that these are there: $*" >&2
        return 0
    fi
    for package in "$@"; do
        # Another architecture's or another version's package of the same use counts as well.
        dpkg-query -W -f='${db:Status-Status}\n' "$package" 2>/dev/null | grep -qx installed ||
            missing+=("$package")
    done
    ((${#missing[@]})) || return 0

    local as_root=()
    if (($(id -u) != 0)); then
        if command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
            as_root=(sudo -n)
        elif command -v sudo >/dev/null && [[ -t 0 && -t 2 ]]; then
            as_root=(sudo)
        else
            echo "$reason needs packages that are not installed:" >&2
            echo "    ${missing[*]}" >&2
            echo "Neither root nor sudo is at hand. Have them installed, then run this again:" >&2
            echo "    apt-get install ${missing[*]}" >&2
            exit 1
        fi
    fi
    echo "installing: ${missing[*]}"
    local log
    log=$(mktemp)
    if ! { "${as_root[@]}" apt-get update &&
        "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
            apt-get install -y --no-install-recommends "${missing[@]}"; } >"$log" 2>&1; then
        tail -n 20 "$log" >&2
        rm -f "$log"
        echo "apt-get could not install: ${missing[*]}" >&2
        exit 1
    fi
    rm -f "$log"
}

# What both commands need. gcc or clang, ninja or make: whichever is there already will do.
mpc_build_packages() {
    command -v cc >/dev/null && [[ -e /usr/include/stdio.h ]] || echo build-essential
    command -v ninja >/dev/null || command -v make >/dev/null || echo ninja-build
    echo cmake flex bison zlib1g-dev libjansson-dev
}

# build PRESET: configures once, then builds what changed; says little unless something fails.
build() {
    local preset=$1 log generator="Unix Makefiles"
    command -v ninja >/dev/null && generator=Ninja
    log=$(mktemp)
    if [[ ! -e build/$preset/CMakeCache.txt ]]; then
        echo "configuring build/$preset"
        cmake --preset "$preset" -G "$generator" >"$log" 2>&1 || { cat "$log" >&2; rm -f "$log"; exit 1; }
    fi
    echo "building build/$preset"
    cmake --build --preset "$preset" -j "$(nproc)" >"$log" 2>&1 || { tail -n 60 "$log" >&2; rm -f "$log"; exit 1; }
    rm -f "$log"
}
