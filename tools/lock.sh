#!/bin/sh
# Write the locks: which exact files, with their checksums, an environment is made of (pyproject.toml
# says why they are requirement files). tools/locks/base.txt is everything but a framework, the same versions
# on every system; beside it comes one framework's, or MXNet's and PyTorch's: only what base.txt lacks.
# A lock keeps the versions that it has; `make lock UPGRADE=1` takes the newest that fit pyproject.toml.
set -eu
cd -- "$(dirname -- "$0")/.."
. tools/env.sh
. tools/uv-settings.sh

uv=$(command -v uv || printf %s .uv/bin/uv)
"$uv" --version >/dev/null 2>&1 || {
    printf '%s\n' "lock: there is no uv; 'make setup' fetches one" >&2
    exit 1
}

lock() { # lock NAME WHAT INPUT OPTIONS: INPUT is pyproject.toml, - for a requirement on stdin, or --group
    file=tools/locks/$1.txt what=$2 input=$3
    shift 3
    printf '%s\n' "lock: $file"
    "$uv" pip compile "$input" "$@" --generate-hashes --python-version 3.11 --no-emit-index-url --no-emit-find-links \
        --no-header --quiet ${UPGRADE:+--upgrade} --output-file "$file" || return 1
    {
        printf '# Lock of the course: %s. Do not edit: change pyproject.toml, then `make lock`.\n' "$what"
        # What was left out is in another lock; of two builds of PyTorch, `torch==2.13.0` would allow either.
        sed -e '/^# The following packages were excluded/,$d' -e "$pin" "$file"
    } >"$file.new"
    mv "$file.new" "$file"
}
pin=''
lock base 'all but a framework, for any system' pyproject.toml --universal --extra cpu --extra notebooks --extra dev \
    --no-emit-package mxnet
lock book 'what makes the book, for any system' --group book --universal

# Only words without spaces from here on: splitting is what is wanted.
# shellcheck disable=SC2046
beside() { lock "$@" --constraints tools/locks/base.txt $(sed -n 's/^\([a-z0-9-]*\)==.*/--no-emit-package \1/p' tools/locks/base.txt); }
linux='--python-platform x86_64-manylinux_2_28'
# shellcheck disable=SC2086
beside cpu 'MXNet for Linux x86-64' pyproject.toml --extra cpu $linux
# shellcheck disable=SC2086
beside cu112 'MXNet for NVIDIA GPUs, Linux x86-64' pyproject.toml --extra cu112 $linux

# PyPI's wheels of PyTorch, for every system: a folder of wheels does not count, nor what is in it pass.
wheels=${UV_FIND_LINKS:-}
unset UV_FIND_LINKS
pin='s/^torch==/torch===/'
beside torch 'PyTorch, any system' pyproject.toml --universal --extra torch
# The build without CUDA: PyPI has none for Linux. In a folder of wheels (pip's find-links), or in
# PyTorch's own index, which uv knows.
pin=''
torch=$(sed -n 's/^ *"\(torch==[^"]*\)".*/\1/p' pyproject.toml)+cpu
[ -z "$wheels" ] || export UV_FIND_LINKS="$wheels"
# shellcheck disable=SC2086
cpu() { echo "$torch" | beside torch-cpu 'PyTorch without CUDA, Linux x86-64' - $linux "$@"; }
cpu 2>/dev/null || cpu --torch-backend cpu || {
    printf 'lock: %s\n' "$torch is neither in a folder of wheels (PIP_FIND_LINKS=$wheels) nor could" \
        "PyTorch's own index be asked; tools/locks/torch-cpu.txt is left as it was." \
        'What to do: connect, or put its wheel into a folder and name that in PIP_FIND_LINKS.' >&2
    exit 1
}
