#!/bin/sh
# Run the tests and the notebooks. `make test` calls it.
#
#   TESTS='tests/test_data.py'        only these files or folders (also notebooks, also by a pattern)
#   SLOW=1                            the tests marked slow, which are left out otherwise
#   CHANGED=1                         no chapter that has passed and of which nothing has changed
#   PYTEST_ARGS="-k 'ring or tree'"   more options for pytest; both are quoted as in a shell
set -u
cd -- "$(dirname -- "$0")/.."
. tools/env.sh

marked='not slow'
[ -z "${SLOW:-}" ] || marked=slow
nbval="--nbval --nbval-sanitize-with tests/sanitize.cfg --nbval-cell-timeout ${CELL_TIMEOUT:-900}"
# These measure speed-ups, so they have the machine to themselves; the others run beside the tests.
alone='notebooks/0[12358]-*.ipynb'
beside='notebooks/04-*.ipynb'
# Lists of words, and patterns that the shell completes: splitting is wanted.
# shellcheck disable=SC2086
pytest() { .venv/bin/python -I -S tools/words.py PYTEST_ARGS TESTS -- -m pytest -m "$marked" $nbval "$@"; }

if [ -n "${TESTS:-}" ]; then
    pytest
    exit
fi

# Most tests wait for processes that start, so two at a time are quicker even on two cores; three are
# not (725 s both). A file's tests stay together: some share what is slow to make. No notebook is
# marked slow.
# shellcheck disable=SC2086
pytest -n 2 --dist loadfile --no-loadscope-reorder tests $beside
status=$?
# 5: the words of PYTEST_ARGS chose nothing in this half. With -x the first failure ends it all.
case "$status, ${PYTEST_ARGS:-} " in
    0,* | 5,*) ;;
    *' -x '*) exit "$status" ;;
esac
[ "$marked" != slow ] || exit "$status"
# shellcheck disable=SC2086
pytest $alone
more=$?
if [ "$status" = 5 ] || { [ "$status" = 0 ] && [ "$more" != 5 ]; }; then
    status=$more
fi
exit "$status"
