#!/bin/sh
# Make the book in build/book/site: the stored notebooks and the pages of book/ as a site that asks nothing of
# another host. Usually called as `make book`. It needs neither MXNet nor PyTorch, and executes nothing.
#
#   PDF=1   also print it, as build/book/site/book.pdf: needs Chromium, or what CHROME names
#   SERVE=1 also serve it on this machine's port 8000 (SERVE=8080: on that): a browser does not let a page
#           that is a file read others, and so the search would find them, but show no excerpt
#   BOOK_REPOSITORY (in the environment)
#           the address of the repository, for links that edit, and for buttons that open a chapter in Binder
#           or Colab; without it there are none
#   BOOK_URL (in the environment)
#           where the site will be, with a slash at the end: for what a link to a page shows elsewhere
set -eu
umask 022

say() { printf 'book: %s\n' "$*"; }
fail() {
    printf 'book: %s\n' "$@" >&2
    exit 1
}
last_line() { sed -n '/[^[:space:]]/p' "$log" | tail -n 1 | cut -c 1-300; }
sha256() { if command -v sha256sum >/dev/null 2>&1; then sha256sum; else shasum -a 256; fi; } # macOS

cd -- "$(dirname -- "$0")/.."
root=$(pwd -P)
system="$(uname -s) $(uname -m)"
. tools/env.sh

# --- An environment of its own, by its own lock ---------------------------------------------------
python=.venv-book/bin/python
key=$({ printf '%s\n' "$root" && cat tools/locks/book.txt; } | sha256 | cut -d ' ' -f 1)
if [ "$(cat .venv-book/made-by-book 2>/dev/null)" != "$key" ]; then
    mkdir -p .uv
    log=.uv/book.log
    : >"$log"
    . tools/get-uv.sh
    . tools/uv-settings.sh
    say 'the environment .venv-book: at most 60 MB to download'
    rm -rf .venv-book
    "$uv" venv --quiet --no-project --python 3.11 .venv-book >>"$log" 2>&1 &&
        "$uv" pip sync --quiet --python "$python" --require-hashes --only-binary :all: tools/locks/book.txt >>"$log" 2>&1 ||
        fail 'the environment could not be made: is there a network?' "The last message was: $(last_line)" \
            'What to do: connect, then the same command again.'
    printf '%s\n' "$key" >.venv-book/made-by-book
fi

# --- The site -------------------------------------------------------------------------------------
# Sphinx reads one folder. In it, our pages lie at the top and everything else where it lies here, so links
# between notebooks and to figures lead where they lead in JupyterLab.
out=build/book
rm -rf "$out/source" "$out/site"
mkdir -p "$out/source"
for path in book/*.md notebooks img exercises training mgpu_helpers LICENSE; do
    [ ! -e "$path" ] || cp -R "$path" "$out/source/"
done
# The date and commit at the foot of each page; a copy without git has neither.
BOOK_STATE=$(git log -1 --format='%cs, commit %h' 2>/dev/null) || BOOK_STATE=
export BOOK_STATE
"$python" -m sphinx --quiet --fail-on-warning --jobs auto --doctree-dir "$out/read" --conf-dir book "$out/source" "$out/site"
say "the site: $out/site/index.html (with excerpts in its search: make book SERVE=1)"

# --- On paper ---------------------------------------------------------------------------------------
[ -z "${PDF:-}" ] || "$python" book/paper.py "$out/site" "$out/site/book.pdf"

# --- On this machine ----------------------------------------------------------------------------------
[ -n "${SERVE:-}" ] || exit 0
[ "$SERVE" != 1 ] || SERVE=8000
say "http://127.0.0.1:$SERVE/ until Ctrl+C"
exec "$python" -m http.server --bind 127.0.0.1 --directory "$out/site" "$SERVE"
