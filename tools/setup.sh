#!/bin/sh
# Make the course's environment: .venv with Python 3.11, the packages of the lock, our own package,
# and a Jupyter kernel. Usually called as `make setup`; `sh tools/setup.sh` does the same.
#
#   GPU=1   packages for NVIDIA GPUs (requirements-cu112.txt); remembered until GPU=0
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

# --- Can this machine run MXNet at all? ---------------------------------------------------------
system="$(uname -s) $(uname -m)"
case $system in
    'Linux x86_64' | 'Linux amd64') ;;
    *)
        fail "this machine is '$system', but MXNet 1.9.1 is installed here on Linux x86_64 only." \
            'What to do: use a Linux x86_64 machine or container; on Windows, WSL 2.' \
            'Other machines are what chapter 5 (PyTorch) is for.'
        ;;
esac
if [ -e /lib/ld-musl-x86_64.so.1 ] && [ ! -e /lib64/ld-linux-x86-64.so.2 ]; then
    fail 'this Linux is built on musl (Alpine), but MXNet needs glibc.' \
        'What to do: use Debian, Ubuntu, Fedora or another glibc distribution.'
fi

# --- Which packages? ----------------------------------------------------------------------------
[ -w . ] || [ -e "$stamp" ] || fail "cannot write in '$root'." \
    'What to do: copy the course to a folder of your own and run the same command there.'
. tools/env.sh
case ${GPU:-} in
    1) kind=cu112 ;;
    0) kind=cpu ;;
    '') kind=$(cat .uv/kind 2>/dev/null || printf cpu) ;;
    *) fail "GPU is '$GPU'; expected 1 (NVIDIA GPUs), 0 (CPU) or nothing (as last time)." ;;
esac
# One lock for one kind of machine: `mxnet` and `mxnet-cu112` are never in the same environment.
case $kind in
    cpu) locks=requirements.txt size='300 MB' room=2 what='MXNet for CPUs' ;;
    cu112) locks=requirements-cu112.txt size='2.5 GB' room=8 what='MXNet for NVIDIA GPUs' ;;
    *) fail ".uv/kind says '$kind'; expected cpu or cu112. What to do: make clean, then again." ;;
esac

# --- Is it there already? -----------------------------------------------------------------------
# The folder is part of it: scripts and the kernel name their Python by its full path.
inputs="$locks pyproject.toml tools/setup.sh tools/uv-requirements.txt"
# shellcheck disable=SC2086
key=$({ printf '%s %s\n' "$kind" "$root" && cat $inputs; } | sha256sum | cut -d ' ' -f 1)
stamped() { sed -n "$1p" "$stamp" 2>/dev/null || :; } # line 1: the key; line 2: the folder
ready() { [ "$(stamped 1)" = "$key" ] && "$python" -c '' 2>/dev/null; }
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
printf '%s\n' "$kind" >.uv/kind

# --- uv -----------------------------------------------------------------------------------------
uv_version=$(sed -n 's/^uv==\([^ ]*\).*/\1/p' tools/uv-requirements.txt)

# Old ones (before 0.5) do not know all the options and variables that are used below.
uv_works() {
    case $("$1" --version 2>/dev/null) in
        'uv 0.'[0-4].*) return 1 ;;
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
        # uv's own installer, which checks what it fetches; told to touch nothing but this folder.
        installer="https://astral.sh/uv/$uv_version/install.sh"
        if command -v curl >/dev/null 2>&1; then
            tried=yes
            curl -LsSf --max-time 60 "$installer" >.uv/install.sh 2>>"$log" || rm -f .uv/install.sh
        elif command -v wget >/dev/null 2>&1; then
            tried=yes
            wget -q -T 60 -t 1 -O .uv/install.sh "$installer" 2>>"$log" || rm -f .uv/install.sh
        fi
        if [ -s .uv/install.sh ]; then
            UV_UNMANAGED_INSTALL="$root/.uv/new/bin" sh .uv/install.sh >>"$log" 2>&1 || :
        fi
    fi
    rm -rf .uv/new-venv .uv/install.sh
    if [ -z "$tried" ]; then
        fail 'nothing here can fetch the tools: there is no uv, no Python 3 with pip or venv, no curl, no wget.' \
            'What to do: sudo apt-get install python3-venv (Debian, Ubuntu), or sudo dnf install python3-pip (Fedora),' \
            'then the same command again.'
    fi
    uv_works .uv/new/bin/uv || fail "could not fetch uv $uv_version, which makes the environment: is there a network?" \
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
        say "fetching uv $uv_version, which makes the environment"
        fetch_uv
    fi
fi

# What a user told pip, uv hears too: a mirror, a folder of wheels, a certificate, a proxy.
# (Extra indexes are left out: everything in the locks is on the main one.)
pip_settings=$(python3 -m pip config list 2>/dev/null || :)
pip_setting() { # pip_setting NAME: from the environment, else from pip's files
    name=$(printf 'PIP_%s' "$1" | tr 'a-z-' 'A-Z_')
    value=$(printenv "$name" || :)
    for section in install global; do
        [ -n "$value" ] || value=$(printf '%s\n' "$pip_settings" |
            sed -n "s/^$section\.$1=['\"]\(.*\)['\"]\$/\1/p" | sed 's/\\n/ /g' | tail -n 1)
    done
    printf '%s' "$value"
}
pass_on() { # pass_on UV_NAME VALUE: unless the user set uv's own variable, or there is nothing to say
    [ -z "$2" ] || [ -n "$(printenv "$1" || :)" ] || export "$1=$2"
}
links=''
for link in $(pip_setting find-links); do
    case $link in
        *://*) links="$links,$link" ;;
        *) [ ! -e "$link" ] || links="$links,$link" ;; # pip passes over a missing folder, uv stops
    esac
done
pass_on UV_FIND_LINKS "${links#,}"
pass_on UV_DEFAULT_INDEX "$(pip_setting index-url)"
pass_on UV_INSECURE_HOST "$(pip_setting trusted-host)"
pass_on SSL_CERT_FILE "$(pip_setting cert)"
pass_on HTTPS_PROXY "$(pip_setting proxy)"
pass_on UV_HTTP_TIMEOUT "$(pip_setting timeout)"
pass_on UV_HTTP_TIMEOUT 120 # seconds without a byte; MXNet's wheel is large
# Settings for other projects that would change what a lock means, or which Python is written to.
unset UV_SYSTEM_PYTHON UV_PYTHON UV_CONSTRAINT UV_OVERRIDE UV_EXCLUDE_NEWER UV_NO_BINARY UV_TARGET UV_PREFIX

cache=${UV_CACHE_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/uv}
if ! { mkdir -p "$cache" && [ -w "$cache" ]; } 2>/dev/null; then
    cache=$root/.uv/cache
    mkdir -p "$cache"
fi
export UV_CACHE_DIR="$cache"
# Files are linked from the cache where that can be, and copied without a warning where it cannot.
[ "$(stat -c %d "$cache")" = "$(stat -c %d .)" ] || export UV_LINK_MODE="${UV_LINK_MODE:-copy}"

# --- Python 3.11 --------------------------------------------------------------------------------
# What a finished setup left is brought up to date; anything else is made anew.
if [ "$(stamped 2)" = "$root" ] &&
    "$python" -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' 2>/dev/null; then
    say 'the course has changed since .venv was made; bringing it up to date'
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

# Asked before 2.5 GB are fetched for nothing.
if [ "$kind" = cu112 ] && ! "$python" -c 'import ctypes; ctypes.CDLL("libcuda.so.1")' 2>>"$log"; then
    fail "MXNet for GPUs needs NVIDIA's driver (libcuda.so.1), which is not here." \
        'What to do: install the driver, or take the CPU course: make setup GPU=0'
fi

# --- Packages -----------------------------------------------------------------------------------
sync() { # sync OPTIONS: exactly what the locks say, nothing compiled here, every file's checksum checked
    # shellcheck disable=SC2086
    "$uv" pip sync --python "$python" --require-hashes --only-binary :all: "$@" $locks
}
say "packages: $what, Jupyter and the rest of $locks"
if ! sync --quiet --offline >>"$log" 2>&1; then
    say "downloading what is not in the cache yet (up to $size)"
    # One small question first: without a network, uv would say so only after a page of retries.
    "$uv" pip install --python "$python" --quiet --dry-run --no-deps --require-hashes \
        --requirement tools/uv-requirements.txt >>"$log" 2>&1 ||
        fail 'the packages could not be reached: is there a network?' \
            "The last message was: $(last_line)" \
            'What to do: connect (behind a proxy, set HTTPS_PROXY; with a package mirror, pip config set global.index-url),' \
            'then the same command again.'
    sync || {
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

# Even where PYTHONDONTWRITEBYTECODE is set: MXNet loads in 1.3 s with its bytecode on disk, else in 3.3 s.
if ! env -u PYTHONDONTWRITEBYTECODE "$python" -W ignore -c 'import mgpu_helpers, mxnet, d2l.mxnet' >>"$log" 2>&1; then
    missing=$(sed -n 's/^.*[ :]\(lib[^ :]*\.so[^ :]*\): cannot open shared object.*$/\1/p' "$log" | tail -n 1)
    case $missing in
        libgomp.so.1)
            fail 'MXNet needs the system library libgomp.so.1, which is not here.' \
                'What to do: sudo apt-get install libgomp1 (Debian, Ubuntu), sudo dnf install libgomp (Fedora);' \
                'then the same command again.'
            ;;
        libstdc++.so.6)
            fail 'MXNet needs the system library libstdc++.so.6, which is not here.' \
                'What to do: sudo apt-get install libstdc++6 (Debian, Ubuntu), sudo dnf install libstdc++ (Fedora);' \
                'then the same command again.'
            ;;
        *) fail 'MXNet was installed but cannot be loaded.' "The last message was: $(last_line)" "All of it: $log" ;;
    esac
fi

printf '%s\n' "$key" "$root" >"$stamp.new"
mv "$stamp.new" "$stamp"
say "ready ($what in .venv)"
