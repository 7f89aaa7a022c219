#!/bin/sh
# Makes .venv on a machine that has python3 (3.11 or newer) and perhaps nothing else.
# Three ways, the first that works: python's own venv; virtualenv by pip (into a folder beside, so
# that a pip closed by the distribution will do); python3-venv by apt, as root.
set -eu
cd "$(dirname "$0")"
venv=.venv

say() { printf '%s\n' "$*" >&2; }

find_python() {
    for each in "${PYTHON:-python3}" python3 python3.14 python3.13 python3.12 python3.11; do
        if "$each" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            command -v "$each"
            return
        fi
    done
    say "python 3.11 or newer is needed; install it, or name it: PYTHON=/path/to/python3.12 make ..."
    exit 1
}

usable() { "$venv/bin/python" -m pip --version >/dev/null 2>&1; }

by_venv() {
    rm -rf "$venv"
    "$python" -m venv "$venv" >/dev/null 2>&1 && usable
}

by_virtualenv() {
    "$python" -m pip --version >/dev/null 2>&1 || return 1
    tools=$(mktemp -d)
    rm -rf "$venv"
    "$python" -m pip install --quiet --disable-pip-version-check --target "$tools" virtualenv >&2 &&
        PYTHONPATH="$tools" "$python" -m virtualenv --quiet "$venv" >&2 || { rm -rf "$tools"; return 1; }
    rm -rf "$tools"
    usable
}

by_apt() {
    command -v apt-get >/dev/null 2>&1 || return 1
    [ "$(id -u)" = 0 ] || return 1
    say "no venv and no pip here: installing python3-venv by apt-get"
    apt-get update -qq >&2 && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq python3-venv >&2 || return 1
    by_venv
}

if usable; then
    exit 0
fi
python=$(find_python)
if by_venv || by_virtualenv || by_apt; then
    exit 0
fi
rm -rf "$venv"
say "no virtual environment can be made with $python; type: sudo apt-get install -y python3-venv"
exit 1
