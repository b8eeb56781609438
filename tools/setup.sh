#!/bin/sh
# Make what the course runs in: .venv with Python 3.11, the packages of the locks, our own package and the
# kernels that the notebooks name. Usually called as `make setup`; `sh tools/setup.sh` does the same.
#
# MXNet and PyTorch share .venv, unless both are built for GPUs: both bring NVIDIA's libraries, in other
# versions under the same names (both NCCLs are nvidia/nccl/lib/libnccl.so.2). Then .venv has MXNet for GPUs,
# and .venv-torch PyTorch for GPUs and the MXNet for CPUs. Chapters 1 to 4 name the kernel python3,
# PyTorch's name mgpu-torch; on every machine both are in .venv, and each starts the right Python.
#
#   (nothing)   as last time. The first time NVIDIA's driver is asked: GPU=1 where there is a GPU that can be
#               used, else GPU=0. What was chosen is remembered: a driver that is gone for a day changes nothing.
#   GPU=1       for NVIDIA GPUs; the driver is asked again. Where every GPU is too new for MXNet (compute
#               capability 9.0 and up), MXNet is the one for CPUs; where all are older than 7.5, or the
#               driver is older than CUDA 13, PyTorch is.
#   GPU=0       for CPUs
#   TORCH=0     without PyTorch; remembered until TORCH=1, which is also what there is at first
#   TORCH=only  PyTorch and no MXNet; what there is on macOS and on Linux on Arm, where MXNet has no build
#   MGPU_DRIVER=later (in the environment, for container images)
#               the driver is not here, but will be where this runs: GPU=1 is installed without asking it
#
# Nothing outside this folder is changed, except uv's cache of downloads in the user's home.
# An environment that is up to date is recognised by its stamp, in a few hundredths of a second. Any other is
# made anew in .uv/making, and takes its place when it is whole: until then, whatever happens, the old one works.
set -eu
umask 022

say() { printf 'setup: %s\n' "$*"; }
fail() {
    printf 'setup: %s\n' "$@" >&2
    exit 1
}
# The last line of the log that says something (uv closes with hints, which do not say what happened).
last_line() { grep -v '^ *hint: ' "$log" | sed -n '/[^[:space:]]/p' | tail -n 1 | sed 's/^ *//' | cut -c 1-300; }

cd -- "$(dirname -- "$0")/.."
root=$(pwd -P)
python=.venv/bin/python

# What is wanted here, and can this machine run it?
. tools/wanted.sh

[ -w . ] || [ -e .venv/made-by-setup ] || fail "cannot write in '$root'." \
    'What to do: copy the course to a folder of your own and run the same command there.'
. tools/env.sh

# --- Which environments, of which packages? -----------------------------------------------------
# Each is FOLDER:MXNET:PYTORCH. `mxnet` and `mxnet-cu112` are never in the same one.
plan() {
    case $torch,$kind,$build in
        only,*) environments=".venv:none:$build" ;;
        0,*) environments=".venv:$kind:none" ;;
        1,cu112,pypi) environments='.venv:cu112:none .venv-torch:cpu:pypi' ;;
        *) environments=".venv:$kind:$build" ;;
    esac
}

sha256() { if command -v sha256sum >/dev/null 2>&1; then sha256sum; else shasum -a 256; fi; } # macOS

# choose FOLDER:MXNET:PYTORCH: which locks, what they hold, how much of each is downloaded at most (measured
# with an empty cache), and the room that it takes.
choose() {
    folder=${1%%:*} pytorch=${1##*:}
    python=$folder/bin/python
    locks=tools/locks/base.txt what='' sizes='Jupyter and other packages 200 MB' room=1
    case $1 in
        *:cpu:*) locks="$locks tools/locks/cpu.txt" what='MXNet for CPUs' sizes="$sizes, MXNet 50 MB" room=2 ;;
        *:cu112:*)
            locks="$locks tools/locks/cu112.txt" what='MXNet for NVIDIA GPUs' room=8
            sizes="$sizes, MXNet and NVIDIA's libraries 2.3 GB"
            ;;
    esac
    and=${what:+ and }
    case $pytorch,$system in
        cpu,*) what="$what${and}PyTorch" sizes="$sizes, PyTorch 200 MB" room=$((room + 2)) ;;
        pypi,Darwin*) what="$what${and}PyTorch" sizes="$sizes, PyTorch 100 MB" room=$((room + 1)) ;;
        pypi,*) what="$what${and}PyTorch with CUDA" sizes="$sizes, PyTorch and NVIDIA's libraries 2.7 GB" room=$((room + 7)) ;;
    esac
    [ "$torch" != only ] || what="$what without MXNet"
    case $pytorch in
        cpu) locks="$locks tools/locks/torch-cpu.txt" ;;
        pypi) locks="$locks tools/locks/torch.txt" ;;
    esac
    # The folder is part of it: scripts and kernels name their Python by its full path.
    # shellcheck disable=SC2086
    key=$({
        printf '%s\n' "$environments $1 $root"
        cat $locks pyproject.toml tools/setup.sh tools/uv-requirements.txt tools/lab/*.json
    } | sha256 | cut -d ' ' -f 1)
}
made() { "$python" -c '' 2>/dev/null && [ "$(sed 1q "$folder/made-by-setup" 2>/dev/null)" = "$key" ]; }

# --- Is it there already? -----------------------------------------------------------------------
ready() {
    [ -z "$unsure" ] || return 1
    plan
    there=''
    for each in $environments; do
        choose "$each"
        made || return 1
        there="$there, $what in $folder"
    done
    [ "$folder" = .venv-torch ] || [ ! -e .venv-torch ]
}
if ready; then
    say "ready (${there#, })"
    exit 0
fi

mkdir -p .uv
exec 9>.uv/setup.lock
if command -v flock >/dev/null 2>&1 && ! flock -n 9; then
    say 'another setup is at work in this folder; waiting for it'
    flock 9
    if ready; then
        say "ready (${there#, }, made by the other one)"
        exit 0
    fi
fi
log=.uv/setup.log
: >"$log"
trap 'printf "\nsetup: stopped; the same command starts over and keeps what was downloaded.\n" >&2; exit 130' INT TERM HUP
remember() {
    printf '%s\n' "$torch" >.uv/torch
    [ -n "$unsure" ] || printf '%s\n' "$kind" >.uv/kind
    [ -n "$unsure" ] || printf '%s\n' "$build" >.uv/build
}
[ -e .venv/made-by-setup ] || remember # else when the new one takes its place

. tools/get-uv.sh
. tools/uv-settings.sh

cache=${UV_CACHE_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/uv}
if ! { mkdir -p "$cache" && [ -w "$cache" ]; } 2>/dev/null; then
    cache=$root/.uv/cache
    mkdir -p "$cache"
fi
export UV_CACHE_DIR="$cache"
# Files are linked from the cache where that can be, and copied without a warning where it cannot.
disk() { stat -c %d "$1" 2>/dev/null || stat -f %d "$1"; } # GNU's, or that of macOS
[ "$(disk "$cache")" = "$(disk .)" ] || export UV_LINK_MODE="${UV_LINK_MODE:-copy}"

# --- Python 3.11 --------------------------------------------------------------------------------
making=.uv/making
fresh=''
interpreter() {
    python=$making/bin/python
    [ "$folder" != "$fresh" ] || return 0
    [ ! -e "$folder" ] ||
        say "$folder is not finished, or the course or what is wanted of it has changed since; making it anew"
    rm -rf "$making"
    # Relocatable: its scripts look for their Python beside themselves.
    set -- --no-project --relocatable --python 3.11 "$making"
    if ! "$uv" venv --quiet --no-python-downloads "$@" >>"$log" 2>&1; then
        say 'no Python 3.11 here; fetching one (30 MB, for this course only)'
        rm -rf "$making"
        "$uv" venv "$@" >>"$log" 2>&1 || fail \
            'Python 3.11 is missing, and it could not be fetched: is there a network?' \
            "The last message was: $(last_line)" \
            'What to do: connect; or install it yourself: sudo apt-get install python3.11 (Debian 12),' \
            'sudo dnf install python3.11 (Fedora), conda create -n py311 python=3.11 (conda, then activate it);' \
            'then the same command again.'
    fi
    say "Python: $("$python" -c 'import platform; print(platform.python_version())') in $folder"
}
if [ -n "$unsure" ]; then # there was no Python to ask the driver with
    folder=.venv
    interpreter
    fresh=.venv
    decide
    remember
    plan
fi
[ -z "$note" ] || printf '%s\n' "$note" | sed 's/^/setup: /'

# --- Packages -----------------------------------------------------------------------------------
sync() { # sync OPTIONS: exactly what the locks say, nothing compiled here, every file's checksum checked
    # shellcheck disable=SC2086
    "$uv" pip sync --python "$python" --require-hashes --only-binary :all: "$@" $locks
}
ask() { # ask FILE OPTIONS: can what it lists be had? Without a network, `sync` says so after a page of retries.
    file=$1 && shift
    "$uv" pip install --python "$python" --quiet --dry-run --no-deps --require-hashes "$@" --requirement "$file" \
        >>"$log" 2>&1
}
packages() {
    # PyPI has no PyTorch without CUDA for Linux. A folder of wheels may (pip's find-links); else it comes from
    # PyTorch's own index, whose address uv knows. Its checksum is in the lock, wherever it comes from.
    own_index=''
    [ "$pytorch" != cpu ] || own_index='--torch-backend=cpu'
    say "packages in $folder: $what, Jupyter and the rest of $locks"
    ! sync --quiet --offline >>"$log" 2>&1 || return 0
    [ -z "$own_index" ] || ! sync --quiet --offline $own_index >>"$log" 2>&1 || return 0
    say "downloading what is not in the cache yet, at most: $sizes"
    ask tools/uv-requirements.txt ||
        fail 'the packages could not be reached: is there a network?' \
            "The last message was: $(last_line)" \
            'What to do: connect (behind a proxy, set HTTPS_PROXY; with a package mirror, pip config set global.index-url),' \
            'then the same command again.'
    if [ "$pytorch" = cpu ] && ask tools/locks/torch-cpu.txt; then
        own_index=''
    elif [ "$pytorch" = cpu ] && ! ask tools/locks/torch-cpu.txt $own_index; then
        wheel="$(sed -n 's/^\(torch\)==\([^ ]*\).*/\1-\2/p' tools/locks/torch-cpu.txt)-cp311-cp311-manylinux_2_28_x86_64.whl"
        set -- "PyTorch's build for CPUs could not be reached: it is not on PyPI, but in PyTorch's own index." \
            "The last message was: $(last_line)" \
            'What to do: connect; or, where only a package mirror can be reached, fetch the wheel elsewhere' \
            "($wheel)" \
            'and put it into a folder FOLDER; then PIP_FIND_LINKS=FOLDER make setup TORCH=1'
        [ -z "${TORCH:-}" ] || fail "$@"
        printf 'setup: %s\n' "$@" 'Going on without it, and without its chapters.' >&2
        export TORCH=0
        exec sh tools/setup.sh
    fi
    sync $own_index || {
        free=$(df -Pk . | awk 'NR == 2 { print int($4 / 1048576) }')
        [ "$free" -ge "$room" ] || fail "the disk is full: $free GB free in '$root', $room GB needed." \
            'What to do: make room, then the same command again.'
        fail 'the packages could not be installed; the reason is in the lines above.' \
            'What to do: if it speaks of a connection, the same command again goes on where it stopped;' \
            'if of a checksum, a mirror changed a file, and another index is needed.'
    }
}

# --- Kernels and a first breath -----------------------------------------------------------------
kernel() { # kernel NAME TITLE FOLDER: where its Python will be
    "$python" -m ipykernel install --sys-prefix --name "$1" --display-name "$2 (multi-GPU course)" >>"$log" 2>&1 ||
        fail 'a Jupyter kernel could not be registered.' "The last message was: $(last_line)" "All of it: $log"
    spec=$making/share/jupyter/kernels/$1/kernel.json
    sed "s:/$making/bin/:/$3/bin/:" "$spec" >"$spec.new" && mv "$spec.new" "$spec"
}

# How JupyterLab opens: our defaults, below what the user sets, and a first layout, kept in .uv as it is changed.
first_screen() {
    mkdir -p "$making/share/jupyter/lab/settings" .uv/workspaces
    cp tools/lab/overrides.json "$making/share/jupyter/lab/settings/"
    # ipyparallel's tab would start clusters of its own; ours begin with a cell.
    mkdir -p "$making/etc/jupyter/labconfig"
    cp tools/lab/page_config.json "$making/etc/jupyter/labconfig/"
    layout=default-37a8.jupyterlab-workspace # JupyterLab's name for the one that opens by itself
    [ -e ".uv/workspaces/$layout" ] || cp "tools/lab/$layout" .uv/workspaces/
}

# breathe IMPORTS WHAT: does it load?
# Even where PYTHONDONTWRITEBYTECODE is set: MXNet loads in 1.3 s with its bytecode on disk, else in 3.3 s, and
# what each process of PyTorch's loads for its first optimizer (torch._dynamo, sympy) in 1.4 s, else in 4.
breathe() {
    ! env -u PYTHONDONTWRITEBYTECODE "$python" -W ignore -c "import mgpu_helpers, $1" >>"$log" 2>&1 || return 0
    missing=$(sed -n 's/^.*[ :]\(lib[^ :]*\.so[^ :]*\): cannot open shared object.*$/\1/p' "$log" | tail -n 1)
    case $missing in
        libgomp.so.1) deb=libgomp1 rpm=libgomp ;;
        libquadmath.so.0) deb=libquadmath0 rpm=libquadmath ;;
        libstdc++.so.6) deb=libstdc++6 rpm=libstdc++ ;;
        *) fail "$2 was installed but cannot be loaded." "The last message was: $(last_line)" "All of it: $log" ;;
    esac
    fail "$2 needs the system library $missing, which is not here." \
        "What to do: sudo apt-get install $deb (Debian, Ubuntu), sudo dnf install $rpm (Fedora);" \
        'then the same command again.'
}

there=''
for each in $environments; do
    choose "$each"
    there="$there, $what in $folder"
    ! made || continue
    interpreter
    case $each,${MGPU_DRIVER:-} in # asked before gigabytes are fetched for nothing
        *:cu112:*,) "$python" -c 'import ctypes; ctypes.CDLL("libcuda.so.1")' 2>>"$log" ||
            fail "MXNet for GPUs needs NVIDIA's driver (libcuda.so.1), which is not here." \
                'What to do: install the driver, or take the CPU course: make setup GPU=0' ;;
    esac
    packages
    # Our own package: a link to this folder, built with what the lock just installed.
    "$uv" pip install --python "$python" --quiet --offline --no-deps --no-build-isolation --editable . >>"$log" 2>&1 ||
        fail 'our own package could not be installed.' "The last message was: $(last_line)" "All of it: $log"
    kernel python3 'Python 3' "$folder"
    case $environments in
        *.venv-torch:*) kernel mgpu-torch PyTorch .venv-torch ;;
        *) kernel mgpu-torch PyTorch "$folder" ;;
    esac
    first_screen
    case $each,${MGPU_DRIVER:-} in
        *:none:*) ;;
        *:cu112:*,later) say "MXNet was not loaded: that needs NVIDIA's driver, which comes with the machine where this runs" ;;
        *) breathe 'mxnet, d2l.mxnet' MXNet ;;
    esac
    case $each in
        *:none) ;;
        *) breathe 'torch, torch._dynamo, torch.distributed.run; torch.ones(1).numpy()' PyTorch ;;
    esac
    printf '%s\n' "$key" >"$making/made-by-setup"
    remember
    rm -rf .uv/old
    mv -f "$folder" .uv/old 2>/dev/null || : # there may be none
    mv "$making" "$folder"
    rm -rf .uv/old
done
[ "$folder" = .venv-torch ] || rm -rf .venv-torch # of a choice that was taken back
say "ready (${there#, })"
