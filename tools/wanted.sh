# shellcheck shell=sh disable=SC2034,SC2154
# Which environment is wanted on this machine: by GPU= and TORCH=, by what was chosen last time, or by
# what NVIDIA's driver says. Sourced by tools/setup.sh, which explains them; changes no file. Leaves kind
# (cpu, cu112, or unknown until `decide` can ask), torch (0, 1, only), system, note (what to say of the
# choice) and named (not empty: PyTorch's build is to be looked up anew).

# --- What is wanted? ----------------------------------------------------------------------------
was() { cat ".uv/$1" 2>/dev/null || printf %s "$2"; } # was FILE DEFAULT: what was chosen last time
case ${MGPU_DRIVER:-} in
    '' | later) ;;
    *) fail "MGPU_DRIVER is '$MGPU_DRIVER'; expected later (an image for machines with a driver) or nothing." ;;
esac
case ${GPU:-} in
    1) kind=cu112 ;;
    0) kind=cpu ;;
    '')
        kind=$(was kind cpu)
        [ -n "${TORCH:-}" ] || [ -e .uv/kind ] || [ -e .uv/torch ] || kind=unknown # until the driver was asked
        ;;
    *) fail "GPU is '$GPU'; expected 1 (NVIDIA GPUs), 0 (CPU) or nothing (as last time)." ;;
esac
case $kind in
    cpu | cu112 | unknown) ;;
    *) fail ".uv/kind says '$kind'; expected cpu or cu112. What to do: make clean, then again." ;;
esac
case ${TORCH:-} in
    0 | 1 | only) torch=$TORCH ;;
    '') torch=$(was torch 0) ;;
    *) fail "TORCH is '$TORCH'; expected 1 (PyTorch too), only (PyTorch without MXNet), 0 (no PyTorch)" \
        'or nothing (as last time).' ;;
esac
case $torch in
    0 | 1 | only) ;;
    *) fail ".uv/torch says '$torch'; expected 0, 1 or only. What to do: make clean, then again." ;;
esac

# --- Can this machine run it? -------------------------------------------------------------------
system="$(uname -s) $(uname -m)"
case $system in
    'Linux x86_64' | 'Linux amd64') ;;
    'Linux aarch64' | 'Linux arm64' | 'Darwin arm64')
        [ "$torch" != 0 ] || fail "this machine is '$system', but MXNet 1.9.1 is installed here on Linux x86_64 only." \
            'What to do: for chapter 5, which needs no MXNet: make setup TORCH=1' \
            'For the others use a Linux x86_64 machine or container.'
        torch=only
        ;;
    *)
        fail "this machine is '$system', but MXNet 1.9.1 is installed here on Linux x86_64 only," \
            "and PyTorch on that, on Linux on Arm and on Apple's own chips (Darwin arm64)." \
            'What to do: use a Linux x86_64 machine or container. On Windows, WSL 2 is one; for chapter 5' \
            'the README says how Windows itself serves.'
        ;;
esac
if ls /lib/ld-musl-*.so.1 >/dev/null 2>&1 && [ ! -e /lib64/ld-linux-x86-64.so.2 ] &&
    [ ! -e /lib/ld-linux-aarch64.so.1 ]; then
    fail 'this Linux is built on musl (Alpine), but MXNet and PyTorch need glibc.' \
        'What to do: use Debian, Ubuntu, Fedora or another glibc distribution.'
fi

# Asked where the driver decides: the first time, and whenever GPU=1 is named. Any Python can ask; where
# there is none yet, `decide` fails, and is called again when Python 3.11 has been fetched.
note=''
decide() {
    case $kind,${GPU:-},${MGPU_DRIVER:-},$system in
        unknown,* | cu112,1,,*x86_64 | cu112,1,,*amd64) ;;
        *) return 0 ;;
    esac
    answer=''
    for py in "$python" python3 python3.11 python; do
        "$py" -I -c 'import sys; sys.exit(sys.version_info < (3, 9))' >/dev/null 2>&1 || continue
        answer=$("$py" -I tools/suggest_packages.py mxnet 2>/dev/null) || answer=none # a driver that is broken
        break
    done
    [ -n "$answer" ] || return 1
    note=$(printf '%s\n' "$answer" | sed 1d)
    why=$(printf '%s\n' "$note" | sed 1q)
    answer=$(printf '%s\n' "$answer" | sed 1q)
    case $answer,$kind in
        none,unknown) kind=cpu ;;
        none,*) ;; # a host from which others are set up: what was named holds
        cu112,unknown)
            kind=cu112
            note="$note
So MXNet for NVIDIA GPUs is installed, up to 2.5 GB; the one for CPUs: make setup GPU=0"
            ;;
        cu112,*) ;;
        torch,*)
            [ "${TORCH:-}" != 0 ] || fail "GPU=1 and TORCH=0 leave nothing that could use a GPU here." "$why" \
                'What to do: make setup TORCH=1 (PyTorch), or make setup GPU=0 TORCH=0 (CPU).'
            kind=cpu
            [ "$torch" != 0 ] || torch=1
            named=1
            note="$note
Without PyTorch: make setup TORCH=0"
            ;;
        update,unknown | old,unknown)
            kind=cpu
            note="$note
So MXNet for CPUs is installed."
            ;;
        update,*) fail "$why" 'What to do: update the driver, or take the CPU course: make setup GPU=0' ;;
        *) fail "$why" 'What to do: take the CPU course: make setup GPU=0' ;;
    esac
}
named=${TORCH:-}
decide || :

if [ "$kind" = cu112 ] && [ "$torch" != 0 ]; then
    last=''
    [ -n "${GPU:-}" ] || last=' (GPU=1 since last time)'
    [ -n "${TORCH:-}" ] || last=" (TORCH=$torch since last time)"
    fail "GPU=1 and TORCH=$torch cannot share an environment$last: MXNet and PyTorch bring NVIDIA's libraries in" \
        'other versions under the same names (both NCCLs are nvidia/nccl/lib/libnccl.so.2).' \
        'What to do: make setup GPU=1 TORCH=0 for chapters 1 to 4, and make setup GPU=0 TORCH=1 for chapter 5;' \
        "what was downloaded stays in uv's cache, so this is quick. Or use a second clone of the course for one of them."
fi
