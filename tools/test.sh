#!/bin/sh
# Run the tests and the notebooks. `make test` calls it.
#
#   TESTS='tests/test_data.py'        only these files or folders (also notebooks, also by a pattern)
#   SLOW=1                            the tests marked slow, which are left out otherwise
#   PYTEST_ARGS="-k 'ring or tree'"   more options for pytest; both are quoted as in a shell
set -u
cd -- "$(dirname -- "$0")/.."
. tools/env.sh

marked='not slow'
[ -z "${SLOW:-}" ] || marked=slow
nbval="--nbval --nbval-sanitize-with tests/sanitize.cfg --nbval-cell-timeout ${CELL_TIMEOUT:-900}"
# Lists of words, and patterns that the shell completes: splitting is wanted.
# shellcheck disable=SC2086
pytest() { .venv/bin/python -I -S tools/split_arguments.py PYTEST_ARGS TESTS -- -m pytest -m "$marked" $nbval "$@"; }
# Where PyTorch has an environment of its own, its tests run there. (A notebook's kernel is in the right one.)
# shellcheck disable=SC2086
pytorch() {
    files=$(grep -lrs --include='test_*.py' "importorskip('torch'" ${TESTS:-tests})
    [ -x .venv-torch/bin/python ] && [ -n "$files" ] || return 5 # pytest's word for: no test
    .venv-torch/bin/python -I -S tools/split_arguments.py PYTEST_ARGS -- -m pytest -m "$marked" $files
}
# Run one after the other; 5: the words of PYTEST_ARGS chose nothing there. With -x the first failure ends it.
status=5
then_run() {
    case "$status, ${PYTEST_ARGS:-} " in
        0,* | 5,*) ;;
        *' -x '*) return ;;
    esac
    "$@"
    more=$?
    if [ "$status" = 5 ] || { [ "$status" = 0 ] && [ "$more" != 5 ]; }; then
        status=$more
    fi
}

if [ -n "${TESTS:-}" ]; then
    then_run pytest
    then_run pytorch
    exit "$status"
fi

# Most tests wait for processes that start, so two at a time are quicker even on two cores; three are
# not (725 s both). A file's tests stay together: some share what is slow to make. The longest chapters
# start first (conftest.py). tests/test_exercises.py runs the other exercises' cells.
chapters=
[ "$marked" = slow ] || chapters='notebooks exercises/puzzles.ipynb'
# shellcheck disable=SC2086
then_run pytest -n 2 --dist loadfile --no-loadscope-reorder tests $chapters
then_run pytorch
exit "$status"
