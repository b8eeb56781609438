# shellcheck shell=sh disable=SC2034,SC2154
# What is wanted on this machine: by GPU= and TORCH=, by what was chosen last time, or by what NVIDIA's
# driver says. Sourced by tools/setup.sh, which explains them; changes no file. Leaves kind (MXNet for cpu or
# cu112), build (PyTorch without CUDA, cpu, or as PyPI has it, pypi), torch (0, 1, only), unsure (not empty:
# `decide` has to be called again when there is a Python), and note (what to say of the choice).

# --- What is wanted? ----------------------------------------------------------------------------
was() { cat ".uv/$1" 2>/dev/null || printf %s "$2"; } # was FILE DEFAULT: what was chosen last time
case ${MGPU_DRIVER:-} in
    '' | later) ;;
    *) fail "MGPU_DRIVER is '$MGPU_DRIVER'; expected later (an image for machines with a driver) or nothing." ;;
esac
kind=$(was kind '') build=$(was build '') unsure=''
case ${GPU:-} in
    1) kind=cu112 unsure=yes ;;
    0) kind=cpu build=cpu ;;
    '') [ -n "$kind" ] && [ -n "$build" ] || unsure=yes ;;
    *) fail "GPU is '$GPU'; expected 1 (NVIDIA GPUs), 0 (CPU) or nothing (as last time)." ;;
esac
torch=${TORCH:-$(was torch 1)}
case $torch in
    0 | 1 | only) ;;
    *) fail "TORCH is '$torch'; expected 1 (PyTorch too), only (PyTorch without MXNet), 0 (no PyTorch)" \
        'or nothing (as last time).' ;;
esac
case $kind,$build in
    cpu,* | cu112,* | ,*) ;;
    *) fail ".uv/kind says '$kind'; expected cpu or cu112. What to do: make clean, then again." ;;
esac

# --- Can this machine run it? -------------------------------------------------------------------
system="$(uname -s) $(uname -m)"
case $system in
    'Linux x86_64' | 'Linux amd64') ;;
    'Linux aarch64' | 'Linux arm64' | 'Darwin arm64')
        [ "${TORCH:-}" != 0 ] || fail "this machine is '$system', but MXNet 1.9.1 is installed here on Linux x86_64 only." \
            "What to do: for PyTorch's chapters, which need no MXNet: make setup" \
            'For the others use a Linux x86_64 machine or container.'
        kind=cpu build=pypi torch=only unsure='' # the only build that is locked for them
        ;;
    *)
        fail "this machine is '$system', but MXNet 1.9.1 is installed here on Linux x86_64 only," \
            "and PyTorch on that, on Linux on Arm and on Apple's own chips (Darwin arm64)." \
            "What to do: use a Linux x86_64 machine or container. On Windows, WSL 2 is one; for PyTorch's" \
            'chapters book/machines.md says how Windows itself serves.'
        ;;
esac
if ls /lib/ld-musl-*.so.1 >/dev/null 2>&1 && [ ! -e /lib64/ld-linux-x86-64.so.2 ] &&
    [ ! -e /lib/ld-linux-aarch64.so.1 ]; then
    fail 'this Linux is built on musl (Alpine), but MXNet and PyTorch need glibc.' \
        'What to do: use Debian, Ubuntu, Fedora or another glibc distribution.'
fi

# NVIDIA's driver is asked the first time, and whenever GPU=1 is named. Any Python can ask; where there is
# none yet, `decide` fails, and is called again when Python 3.11 has been fetched.
note=''
decide() {
    [ -n "$unsure" ] || return 0
    answer=''
    if [ "${MGPU_DRIVER:-}" = later ]; then
        answer='none none'
        [ "${GPU:-}" != 1 ] || build=pypi
    fi
    for py in "$python" python3 python3.11 python; do
        [ -z "$answer" ] || break
        "$py" -I -c 'import sys; sys.exit(sys.version_info < (3, 9))' >/dev/null 2>&1 || continue
        answer=$("$py" -I tools/suggest_packages.py 2>/dev/null) || answer='none none' # a driver that is broken
    done
    [ -n "$answer" ] || return 1
    unsure=''
    note=$(printf '%s\n' "$answer" | sed 1d)
    why=$(printf '%s\n' "$note" | sed 1q)
    answer=$(printf '%s\n' "$answer" | sed 1q)
    case ${answer#* } in
        none) build=${build:-cpu} ;; # no driver, or one that is away for a day: what was chosen holds
        *) [ "${GPU:-}" != 1 ] && [ -n "$build" ] || build=${answer#* } ;;
    esac
    case ${answer% *},$torch,${GPU:-$kind} in # the last: 1, or what was chosen before, or nothing
        none,* | *,cpu | *,cu112) kind=${kind:-cpu} ;; # also on a host from which others are set up
        cu112,*,1) ;;
        cu112,*)
            kind=cu112
            note="$note
For CPUs only: make setup GPU=0"
            ;;
        torch,*,1)
            [ "${TORCH:-}" != 0 ] || fail 'GPU=1 and TORCH=0 leave nothing that could use a GPU here.' "$why" \
                'What to do: make setup GPU=1 TORCH=1 (PyTorch), or make setup GPU=0 TORCH=0 (CPU).'
            kind=cpu
            [ "$torch" != 0 ] || torch=1
            ;;
        torch,* | *,only,*) kind=cpu ;;
        *,)
            kind=cpu
            note="$note
So MXNet for CPUs is installed."
            ;;
        update,*) fail "$why" 'What to do: update the driver, or take the CPU course: make setup GPU=0' ;;
        *) fail "$why" 'What to do: take the CPU course: make setup GPU=0' ;;
    esac
}
decide || :
