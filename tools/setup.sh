#!/bin/sh
# Make the course's environment: .venv with Python 3.11, the packages of the lock, our own package,
# and a Jupyter kernel. Usually called as `make setup`; `sh tools/setup.sh` does the same.
#
#   GPU=1       MXNet for NVIDIA GPUs (locks/cu112.txt); remembered until GPU=0. Where every GPU
#               is too new for MXNet (compute capability 9.0 and up) it means TORCH=1: 2.5 GB that
#               cannot run on them would serve nobody, and PyTorch is what uses them.
#   TORCH=1     PyTorch beside MXNet, for chapter 5 (locks/torch*.txt); remembered until TORCH=0
#   TORCH=only  PyTorch and no MXNet; what TORCH=1 means where MXNet has no build: macOS, Linux on Arm
#   (nothing)   as last time. The first time NVIDIA's driver is asked: GPU=1 where MXNet can use a GPU,
#               TORCH=1 where all are too new for it, else MXNet for CPUs. What was chosen is
#               remembered: a driver that is gone for a day changes nothing.
#   MGPU_DRIVER=later (in the environment, for container images)
#               the driver is not here, but will be where this runs: GPU=1 is installed without it and
#               not loaded, and TORCH=1 means the build with CUDA
#
# Nothing outside this folder is changed, except uv's cache of downloads in the user's home.
# An environment that is up to date is recognised by its stamp, in a few hundredths of a second;
# one that was left half-made has no stamp and is made anew.
set -eu
umask 022

say() { printf 'setup: %s\n' "$*"; }
fail() {
    printf 'setup: %s\n' "$@" >&2
    exit 1
}

cd -- "$(dirname -- "$0")/.."
root=$(pwd -P)
python=.venv/bin/python
stamp=.venv/made-by-setup

# What is wanted here, and can this machine run it?
. tools/wanted.sh

[ -w . ] || [ -e "$stamp" ] || fail "cannot write in '$root'." \
    'What to do: copy the course to a folder of your own and run the same command there.'
. tools/env.sh

# --- Which packages? ----------------------------------------------------------------------------
stamped() { sed -n "$1p" "$stamp" 2>/dev/null || :; } # lines: the key; the folder; the build of PyTorch
sha256() { if command -v sha256sum >/dev/null 2>&1; then sha256sum; else shasum -a 256; fi; } # macOS

# Which build of PyTorch: the driver is asked (0.1 s, more where there is one) when TORCH is named;
# every other command keeps what is there. On Linux x86_64 PyPI's, 2.7 GB, is for GPUs of compute
# capability 7.5 and up and a driver that knows CUDA 13; for any other machine there is one without CUDA,
# 190 MB. On other systems PyPI's is the only one that is locked.
which_build() {
    case $torch,$named,$(stamped 3),$system,${MGPU_DRIVER:-} in
        0,*) echo none ;;
        *,,cpu,* | *,,pypi,*) stamped 3 ;;
        *x86_64, | *amd64,)
            answer=$("$python" -I tools/suggest_packages.py pytorch) || answer=cpu
            printf '%s\n' "$answer" | sed '1d; s/^/setup: /' >&2
            printf '%s\n' "$answer" | sed 1q
            ;;
        *) echo pypi ;;
    esac
}

# choose BUILD: which locks, what they hold, how much is downloaded at most, and the room that it takes.
# One framework's lock for one kind of machine: `mxnet` and `mxnet-cu112` are never in the same environment.
choose() {
    build=$1 locks=locks/base.txt
    [ "$torch" = only ] || locks="$locks locks/$kind.txt"
    case $kind,$torch,$build,$system in
        cu112,*) size='2.5 GB' room=8 what='MXNet for NVIDIA GPUs' ;;
        *,0,*) size='300 MB' room=2 what='MXNet for CPUs' ;;
        *,1,cpu,*) size='500 MB' room=4 what='MXNet for CPUs and PyTorch' ;;
        *,1,*) size='3 GB' room=9 what='MXNet for CPUs and PyTorch with CUDA' ;;
        *,cpu,*) size='300 MB' room=3 what='PyTorch without MXNet' ;;
        *,Darwin*) size='200 MB' room=2 what='PyTorch without MXNet' ;;
        *) size='3 GB' room=9 what='PyTorch with CUDA, without MXNet' ;;
    esac
    case $build in
        cpu) locks="$locks locks/torch-cpu.txt" ;;
        pypi) locks="$locks locks/torch.txt" ;;
    esac
    # The folder is part of it: scripts and the kernel name their Python by its full path.
    # shellcheck disable=SC2086
    key=$({
        printf '%s\n' "$kind $torch $build $root"
        cat $locks pyproject.toml tools/setup.sh tools/uv-requirements.txt
    } | sha256 | cut -d ' ' -f 1)
}

# --- Is it there already? -----------------------------------------------------------------------
build=''
ready() { "$python" -c '' 2>/dev/null && choose "$(which_build)" && [ "$(stamped 1)" = "$key" ]; }
if ready; then
    say "ready ($what in .venv)"
    exit 0
fi

mkdir -p .uv
exec 9>.uv/setup.lock
if command -v flock >/dev/null 2>&1 && ! flock -n 9; then
    say 'another setup is at work in this folder; waiting for it'
    flock 9
    if ready; then
        say "ready ($what in .venv, made by the other one)"
        exit 0
    fi
fi
log=.uv/setup.log
: >"$log"
trap 'printf "\nsetup: stopped; the same command starts over and keeps what was downloaded.\n" >&2; exit 130' INT TERM HUP
remember() {
    [ "$kind" = unknown ] || printf '%s\n' "$kind" >.uv/kind
    [ "$kind" = unknown ] || printf '%s\n' "$torch" >.uv/torch
}
remember

# --- uv -----------------------------------------------------------------------------------------
# Old ones (before 0.7) do not know all the options and variables that are used below.
uv_works() {
    case $("$1" --version 2>/dev/null) in
        'uv 0.'[0-6].*) return 1 ;;
        'uv '*) return 0 ;;
        *) return 1 ;;
    esac
}

pip_uv() { # pip_uv PYTHON TARGET: the pinned uv by pip; the user's own pip settings hold, --user apart
    PIP_USER=0 PIP_REQUIRE_VIRTUALENV=0 "$1" -m pip install --quiet --disable-pip-version-check \
        --retries 1 --no-deps --only-binary :all: --require-hashes --upgrade --target "$2" \
        --requirement tools/uv-requirements.txt >>"$log" 2>&1
}

fetch_uv() {
    rm -rf .uv/new .uv/new-venv
    tried=''
    for py in python3 python3.11 python; do
        "$py" -c 'import sys; sys.exit(sys.version_info < (3, 8))' >/dev/null 2>&1 || continue
        if "$py" -m pip --version >/dev/null 2>&1; then
            tried=yes
            pip_uv "$py" .uv/new && break
        elif "$py" -m venv .uv/new-venv >>"$log" 2>&1; then
            tried=yes
            pip_uv .uv/new-venv/bin/python .uv/new && break
        fi
    done
    if [ ! -x .uv/new/bin/uv ]; then
        # uv's own release, by the checksum that its makers publish in git (astral-sh/setup-uv); 0.12.5 is the
        # newest that we could look up there. Nothing of another file is unpacked or run.
        case $system in
            *x86_64 | *amd64)
                target=x86_64-unknown-linux-gnu
                sum=68a509da24b06b4223a1c0175fb5eb5bc79342b76cbeff0cfe51ac3f5b17b6b2
                ;;
            Linux*)
                target=aarch64-unknown-linux-gnu
                sum=9bf43b4d1a07665bf64d4c4e710930b382321a785e0eb10aac07f46471f86a31
                ;;
            *)
                target=aarch64-apple-darwin
                sum=5bb0e5fe008a773c3dbcb97ff79cd89e1241464fe9d2f986d52ad8f1b037bd62
                ;;
        esac
        archive="https://github.com/astral-sh/uv/releases/download/0.12.5/uv-$target.tar.gz"
        if command -v curl >/dev/null 2>&1; then
            tried=yes
            curl -LsSf --max-time 300 "$archive" >.uv/uv.tar.gz 2>>"$log" || rm -f .uv/uv.tar.gz
        elif command -v wget >/dev/null 2>&1; then
            tried=yes
            wget -q -T 60 -t 1 -O .uv/uv.tar.gz "$archive" 2>>"$log" || rm -f .uv/uv.tar.gz
        fi
        if [ -s .uv/uv.tar.gz ] && [ "$(sha256 <.uv/uv.tar.gz | cut -d ' ' -f 1)" = "$sum" ]; then
            mkdir -p .uv/new/bin
            tar -xzf .uv/uv.tar.gz -C .uv/new/bin --strip-components=1 >>"$log" 2>&1 || :
        elif [ -s .uv/uv.tar.gz ]; then
            printf '%s\n' "what came from $archive is not the published file, so it was not used" >>"$log"
        fi
    fi
    rm -rf .uv/new-venv .uv/uv.tar.gz
    if [ -z "$tried" ]; then
        fail 'nothing here can fetch the tools: there is no uv, no Python 3 with pip or venv, no curl, no wget.' \
            'What to do: sudo apt-get install python3-venv (Debian, Ubuntu), or sudo dnf install python3-pip (Fedora),' \
            'then the same command again.'
    fi
    uv_works .uv/new/bin/uv || fail 'could not fetch uv, which makes the environment: is there a network?' \
        "The last message was: $(last_line)" \
        'What to do: connect (behind a proxy, set HTTPS_PROXY; with a package mirror, pip config set global.index-url),' \
        'or install uv another way; then the same command again.'
    mkdir -p .uv/bin
    mv -f .uv/new/bin/uv .uv/bin/uv
    rm -rf .uv/new
}

# The last line of the log that says something (uv closes with hints, which do not say what happened).
last_line() { grep -v '^ *hint: ' "$log" | sed -n '/[^[:space:]]/p' | tail -n 1 | sed 's/^ *//' | cut -c 1-300; }

uv=$(command -v uv || :)
if [ -z "$uv" ] || ! uv_works "$uv"; then
    uv=$root/.uv/bin/uv
    if ! uv_works "$uv"; then
        say 'fetching uv, which makes the environment'
        fetch_uv
    fi
fi

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
# What a finished setup left is brought up to date; anything else is made anew.
if [ "$(stamped 2)" = "$root" ] &&
    "$python" -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' 2>/dev/null; then
    say 'the course, or what is wanted of it, has changed since .venv was made; bringing it up to date'
    rm -f "$stamp"
else
    [ ! -e .venv ] || say '.venv is not finished, or from another folder; making it anew'
    rm -rf .venv
    if ! "$uv" venv --quiet --no-project --no-python-downloads --python 3.11 .venv >>"$log" 2>&1; then
        say 'no Python 3.11 here; fetching one (30 MB, for this course only)'
        rm -rf .venv
        "$uv" venv --no-project --python 3.11 .venv >>"$log" 2>&1 || fail \
            'Python 3.11 is missing, and it could not be fetched: is there a network?' \
            "The last message was: $(last_line)" \
            'What to do: connect; or install it yourself: sudo apt-get install python3.11 (Debian 12),' \
            'sudo dnf install python3.11 (Fedora), conda create -n py311 python=3.11 (conda, then activate it);' \
            'then the same command again.'
    fi
    say "Python: $("$python" -c 'import platform; print(platform.python_version())') in .venv"
fi

decide || kind=cpu
remember
[ -z "$note" ] || printf '%s\n' "$note" | sed 's/^/setup: /'
[ -n "$build" ] || choose "$(which_build)"

# Asked before 2.5 GB are fetched for nothing.
if [ "$kind,${MGPU_DRIVER:-}" = cu112, ] && ! "$python" -c 'import ctypes; ctypes.CDLL("libcuda.so.1")' 2>>"$log"; then
    fail "MXNet for GPUs needs NVIDIA's driver (libcuda.so.1), which is not here." \
        'What to do: install the driver, or take the CPU course: make setup GPU=0'
fi

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
# PyPI has no PyTorch without CUDA for Linux. A folder of wheels may (pip's find-links); else it comes from
# PyTorch's own index, whose address uv knows. Its checksum is in the lock, wherever it comes from.
own_index=''
[ "$build" != cpu ] || own_index='--torch-backend=cpu'
say "packages: $what, Jupyter and the rest of $locks"
if ! sync --quiet --offline >>"$log" 2>&1 &&
    ! { [ -n "$own_index" ] && sync --quiet --offline $own_index >>"$log" 2>&1; }; then
    say "downloading what is not in the cache yet (up to $size)"
    ask tools/uv-requirements.txt ||
        fail 'the packages could not be reached: is there a network?' \
            "The last message was: $(last_line)" \
            'What to do: connect (behind a proxy, set HTTPS_PROXY; with a package mirror, pip config set global.index-url),' \
            'then the same command again.'
    if [ "$build" = cpu ] && ask locks/torch-cpu.txt; then
        own_index=''
    elif [ "$build" = cpu ]; then
        ask locks/torch-cpu.txt $own_index ||
            fail "PyTorch's build for CPUs could not be reached: it is not on PyPI, but in PyTorch's own index." \
                "The last message was: $(last_line)" \
                'What to do: connect; or, where only a package mirror can be reached, fetch the wheel elsewhere' \
                "($(sed -n 's/^\(torch\)==\([^ ]*\).*/\1-\2/p' locks/torch-cpu.txt)-cp311-cp311-manylinux_2_28_x86_64.whl)" \
                'and put it into a folder FOLDER; then PIP_FIND_LINKS=FOLDER make setup TORCH=1'
    fi
    sync $own_index || {
        free=$(df -Pk . | awk 'NR == 2 { print int($4 / 1048576) }')
        [ "$free" -ge "$room" ] || fail "the disk is full: $free GB free in '$root', $room GB needed." \
            'What to do: make room, then the same command again.'
        fail 'the packages could not be installed; the reason is in the lines above.' \
            'What to do: if it speaks of a connection, the same command again goes on where it stopped;' \
            'if of a checksum, a mirror changed a file, and another index is needed.'
    }
fi
# Our own package: a link to this folder, built with what the lock just installed.
"$uv" pip install --python "$python" --quiet --offline --no-deps --no-build-isolation --editable . >>"$log" 2>&1 ||
    fail 'our own package could not be installed.' "The last message was: $(last_line)" "All of it: $log"

# --- Kernel and a first breath ------------------------------------------------------------------
say 'kernel: Python 3 (multi-GPU course)'
"$python" -m ipykernel install --sys-prefix --name python3 --display-name 'Python 3 (multi-GPU course)' >>"$log" 2>&1 ||
    fail 'the Jupyter kernel could not be registered.' "The last message was: $(last_line)" "All of it: $log"

# breathe IMPORTS WHAT: does it load?
# Even where PYTHONDONTWRITEBYTECODE is set: MXNet loads in 1.3 s with its bytecode on disk, else in 3.3 s.
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
case $kind,$torch,${MGPU_DRIVER:-} in
    *,only,*) ;;
    cu112,*,later) say "MXNet was not loaded: that needs NVIDIA's driver, which comes with the machine where this runs" ;;
    *) breathe 'mxnet, d2l.mxnet' MXNet ;;
esac
[ "$torch" = 0 ] || breathe 'torch; torch.ones(1).numpy()' PyTorch

printf '%s\n' "$key" "$root" "$build" >"$stamp.new"
mv "$stamp.new" "$stamp"
say "ready ($what in .venv)"
