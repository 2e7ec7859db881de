# Makes an environment with everything the project needs, at the versions of constraints.txt. Sourced, not run.
#
#   make_environment DIR EXTRAS     e.g. make_environment .venv "dev,hnsw,report"
#
# Sets EVERYTHING to all extras. Does nothing when the environment is already made from the same files. Leaves out hnsw,
# which is compiled, where there is no compiler.

EVERYTHING=dev,docs,hnsw,local,report,view,pandas,sign,falkordb,ladybug,lancedb,postgres,qdrant,dask,ray,zstd,s3,socks

find_python() {
    local candidate
    for candidate in "${PYTHON:-}" python3.13 python3.12 python3.11 python3 python; do
        if [ -n "$candidate" ] && command -v "$candidate" >/dev/null 2>&1 &&
            "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            # Outside of a virtual environment: the one to be made may be active, and would be made of itself.
            "$candidate" -c 'import os, sys; print(os.path.realpath(getattr(sys, "_base_executable", "") or sys.executable))'
            return
        fi
    done
    echo "longmemeval needs Python 3.11 or newer and found none. Install it, or name one: PYTHON=/path/to/python $0" >&2
    return 1
}

has_compiler() {
    local compiler
    for compiler in "${CXX:-}" c++ g++ clang++; do
        if [ -n "$compiler" ] && command -v "$compiler" >/dev/null 2>&1; then return 0; fi
    done
    return 1
}

# The browser that the tests of pages drive. Installed where that is possible without asking; those tests are skipped
# where there is none, unless REQUIRE_BROWSER=1.
find_browser() {
    local candidate
    for candidate in chromium-headless-shell chromium chromium-browser google-chrome google-chrome-stable; do
        if command -v "$candidate" >/dev/null 2>&1; then return 0; fi
    done
    return 1
}

make_browser() {
    if find_browser; then return 0; fi
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
        echo "Installing Chromium for the tests of pages ..." >&2
        apt-get update -qq >/dev/null 2>&1 || true
        local package
        for package in chromium-headless-shell chromium; do
            if DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$package" >/dev/null 2>&1 &&
                find_browser; then return 0; fi
        done
    fi
    echo "No Chromium was found: the tests of pages are skipped. Debian, Ubuntu: apt-get install chromium-headless-shell, or chromium" >&2
}

# Makes a virtual environment; where Python comes without ensurepip, as on Debian without python3-venv, its pip or uv helps.
make_venv() {
    local python=$1 directory=$2
    "$python" -m venv --clear "$directory" >/dev/null 2>&1 && return 0
    "$python" -m venv --clear --without-pip "$directory" || return 1
    PIP_DISABLE_PIP_VERSION_CHECK=1 "$python" -m pip --python "$directory/bin/python" install --quiet pip 2>/dev/null ||
        uv pip install --quiet --python "$directory/bin/python" pip 2>/dev/null
}

make_environment() {
    local directory=$1 extras=$2 left_out= python stamp
    python=$(find_python) || return 1
    if ! has_compiler && [[ ",$extras," == *,hnsw,* ]]; then
        left_out=hnsw
        extras=$(printf ',%s,' "$extras" | sed 's/,hnsw,/,/; s/^,//; s/,$//')
    fi
    stamp=$(cat pyproject.toml constraints.txt <(echo "$python $extras") | cksum)
    if [ -x "$directory/bin/python" ] && [ "$(cat "$directory/.stamp" 2>/dev/null)" = "$stamp" ]; then return 0; fi
    echo "Making the environment $directory (once; a minute or two):" >&2
    if [ "$left_out" ]; then
        echo "  No C++ compiler was found, so hnswlib is left out (to have it: apt-get install g++ python3-dev, or xcode-select --install; then run this again)" >&2
    fi
    echo "  1. a virtual environment of $("$python" --version 2>&1) ..." >&2
    make_venv "$python" "$directory" || {
        echo "Python could not make an environment. Debian and Ubuntu: apt-get install python3-venv" >&2
        return 1
    }
    if ! PIP_DISABLE_PIP_VERSION_CHECK=1 PYTHONPATH=$PWD "$directory/bin/python" scripts/install.py "$extras"; then
        echo "The packages could not be installed; the reason stands above. Is the network there?" >&2
        return 1
    fi
    echo "$stamp" >"$directory/.stamp"
}
