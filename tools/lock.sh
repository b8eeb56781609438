#!/bin/sh
# Write the locks: which exact files, with their checksums, each kind of machine installs.
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

all='--generate-hashes --python-version 3.11 --no-emit-index-url --no-emit-find-links --no-header'
linux='--python-platform x86_64-manylinux_2_28'

# lock FILE WHAT INPUT OPTIONS: INPUT is pyproject.toml, or one requirement, which then goes to stdin
lock() {
    file=$1 what=$2 input=$3 options="$4 $all --output-file $1"
    printf '%s\n' "lock: $file"
    case $input in
        *.toml) command="uv pip compile $input $options" ;;
        *) command="echo $input | uv pip compile - $options" ;;
    esac
    # Only words without spaces: splitting is what is wanted here.
    # shellcheck disable=SC2086
    case $input in
        *.toml) "$uv" pip compile "$input" $options --quiet ${UPGRADE:+--upgrade} ;;
        *) echo "$input" | "$uv" pip compile - $options --quiet ${UPGRADE:+--upgrade} ;;
    esac || return 1
    {
        printf '# Lock of the course, %s. Do not edit: change pyproject.toml, then run `make lock`:\n' "$what"
        printf '#   %s\n' "$command"
        cat "$file"
    } >"$file.new"
    mv "$file.new" "$file"
}

lock requirements.txt 'Linux x86-64 without GPUs (make setup)' \
    pyproject.toml "--extra cpu --extra notebooks --extra dev $linux"
lock requirements-cu112.txt 'Linux x86-64 with NVIDIA GPUs (make setup GPU=1)' \
    pyproject.toml "--extra cu112 --extra notebooks --extra dev $linux"

# PyTorch's locks hold PyTorch and what only it needs: they are installed together with another lock,
# and must agree with it. First PyPI's wheels, for every system; a folder of wheels does not count.
torch=$(sed -n 's/^ *"\(torch==[^"]*\)".*/\1/p' pyproject.toml)
wheels=${UV_FIND_LINKS:-}
unset UV_FIND_LINKS
lock requirements-torch.txt 'PyTorch, any system (make setup TORCH=1)' \
    "$torch" '--universal --constraints requirements.txt'
# With two equals signs 2.13.0 also means 2.13.0+cpu, in a folder of wheels or installed before.
sed "s/^torch==/torch===/" requirements-torch.txt >requirements-torch.txt.new
mv requirements-torch.txt.new requirements-torch.txt

lock requirements-no-mxnet.txt 'any system, without MXNet (make setup TORCH=only)' \
    pyproject.toml '--extra notebooks --extra dev --universal --constraints requirements-torch.txt'

# The build without CUDA: PyPI has none for Linux. In a folder of wheels (pip's find-links), or in
# PyTorch's own index, which uv knows.
[ -z "$wheels" ] || export UV_FIND_LINKS="$wheels"
cpu() {
    lock requirements-torch-cpu.txt 'PyTorch on Linux x86-64 without GPUs (make setup TORCH=1)' \
        "$torch+cpu" "$linux --constraints requirements.txt${1:+ $1}"
}
if ! cpu '' 2>/dev/null && ! cpu '--torch-backend cpu'; then
    printf 'lock: %s\n' "$torch+cpu is neither in a folder of wheels (PIP_FIND_LINKS=${wheels:-}) nor could" \
        "PyTorch's own index be asked; requirements-torch-cpu.txt is left as it was." \
        'What to do: connect, or put its wheel into a folder and name that in PIP_FIND_LINKS.' >&2
    exit 1
fi
