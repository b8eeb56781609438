# shellcheck shell=sh
# What uv is told by the user's settings, and what not. Sourced by tools/setup.sh and tools/lock.sh.

# What a user told pip, uv hears too: a mirror, a folder of wheels, a certificate, a proxy.
# (Extra indexes are left out: everything in the locks is on the main one, or where uv looks itself.)
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
unset UV_SYSTEM_PYTHON UV_PYTHON UV_CONSTRAINT UV_OVERRIDE UV_EXCLUDE_NEWER UV_NO_BINARY UV_TARGET UV_PREFIX \
    UV_TORCH_BACKEND
