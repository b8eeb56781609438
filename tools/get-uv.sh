# shellcheck shell=sh disable=SC2154
# uv, which makes the environments: the one that is here, or one that is fetched into .uv/bin. Sourced by
# tools/setup.sh; leaves uv.

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
        --timeout 5 --retries 0 --no-deps --only-binary :all: --require-hashes --upgrade --target "$2" \
        --requirement tools/uv-requirements.txt >>"$log" 2>&1
}

fetch_uv() {
    rm -rf .uv/new .uv/new-venv
    tried=''
    for py in python3 python3.11 python; do
        # The interpreter itself: through pyenv's shim, each pip waits for pyenv's lock, a minute if a killed one left it.
        py=$("$py" -c 'import sys; print(sys.version_info < (3, 8) or sys.executable)' 2>/dev/null) || continue
        [ -x "$py" ] || continue
        if "$py" -m pip --version >/dev/null 2>&1; then
            tried=yes
            pip_uv "$py" .uv/new || : # no other Python: a dead proxy would cost its time again
            break
        elif "$py" -m venv .uv/new-venv >>"$log" 2>&1; then
            tried=yes
            pip_uv .uv/new-venv/bin/python .uv/new || :
            break
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
        # At most 100 MB (uv has 25; ulimit counts blocks of 512 bytes), and five minutes.
        if command -v curl >/dev/null 2>&1; then
            tried=yes
            (ulimit -f 200000; exec curl -LsSf --connect-timeout 3 --max-time 300 "$archive" >.uv/uv.tar.gz) 2>>"$log" ||
                rm -f .uv/uv.tar.gz
        elif command -v wget >/dev/null 2>&1; then
            tried=yes
            (ulimit -f 200000; exec timeout 300 wget -q -T 60 -t 1 -O .uv/uv.tar.gz "$archive") 2>>"$log" ||
                rm -f .uv/uv.tar.gz
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

uv=$(command -v uv || :)
if [ -z "$uv" ] || ! uv_works "$uv"; then
    uv=$root/.uv/bin/uv
    if ! uv_works "$uv"; then
        say 'fetching uv, which makes the environment'
        fetch_uv
    fi
fi
