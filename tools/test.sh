#!/bin/sh
# Run the tests: first those in tests/, two at a time, then the notebooks, one cell after the other.
# `make test` calls it.
#
#   TESTS='tests/test_data.py'  only these files or folders (also notebooks), one at a time
#   SLOW=1                      the tests marked slow, which are left out otherwise
#   PYTEST_ARGS='-k words'      more options for pytest
set -u
cd -- "$(dirname -- "$0")/.."
. tools/env.sh

pytest() { .venv/bin/python -m pytest "$@"; }
nbval="--nbval --nbval-sanitize-with tests/sanitize.cfg --nbval-cell-timeout ${CELL_TIMEOUT:-900}"
marked='not slow'
[ -z "${SLOW:-}" ] || marked=slow

# What the user wrote, and our own options, are words with spaces between them: splitting is wanted.
# shellcheck disable=SC2086
if [ -n "${TESTS:-}" ]; then
    pytest -m "$marked" $nbval ${PYTEST_ARGS:-} $TESTS
    exit
fi

# Most tests wait for processes that start, so two at a time are quicker even on two
# cores. A file's tests stay together: some of them share what is slow to make.
# shellcheck disable=SC2086
pytest -m "$marked" -n 2 --dist loadfile ${PYTEST_ARGS:-} tests
status=$?
# 5: the words of PYTEST_ARGS chose nothing in this half. With -x the first failure ends it all.
case "$status, ${PYTEST_ARGS:-} " in
    0,* | 5,*) ;;
    *' -x '*) exit "$status" ;;
esac
# No notebook is marked slow. They have the machine to themselves, because they measure speed-ups.
[ "$marked" != slow ] || exit "$status"
# shellcheck disable=SC2086
pytest $nbval ${PYTEST_ARGS:-} notebooks
more=$?
if [ "$status" = 5 ] || { [ "$status" = 0 ] && [ "$more" != 5 ]; }; then
    status=$more
fi
exit "$status"
