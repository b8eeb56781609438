#!/bin/sh
# Write the locks: which exact files, with their checksums, each kind of machine installs.
# A lock keeps the versions that it has; `make lock UPGRADE=1` takes the newest that fit pyproject.toml.
set -eu
cd -- "$(dirname -- "$0")/.."
. tools/env.sh

uv=$(command -v uv || printf %s .uv/bin/uv)
"$uv" --version >/dev/null 2>&1 || {
    printf '%s\n' "lock: there is no uv; 'make setup' fetches one" >&2
    exit 1
}

# lock FILE EXTRA WHAT
lock() {
    command="uv pip compile pyproject.toml --extra $2 --extra notebooks --extra dev --generate-hashes"
    command="$command --python-version 3.11 --python-platform x86_64-manylinux_2_28"
    command="$command --no-emit-index-url --no-emit-find-links --no-header --output-file $1"
    printf '%s\n' "lock: $1"
    # Only words without spaces: splitting is what is wanted here.
    # shellcheck disable=SC2086
    "$uv" ${command#uv } --quiet ${UPGRADE:+--upgrade}
    {
        printf '# Lock of the course, %s. Do not edit: change pyproject.toml, then run `make lock`:\n' "$3"
        printf '#   %s\n' "$command"
        cat "$1"
    } >"$1.new"
    mv "$1.new" "$1"
}

lock requirements.txt cpu 'Linux x86-64 without GPUs (make setup)'
lock requirements-cu112.txt cu112 'Linux x86-64 with NVIDIA GPUs (make setup GPU=1)'
