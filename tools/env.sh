# shellcheck shell=sh
# What every command of the course needs in its environment. Sourced, from the course's top folder,
# by the Makefile's recipes and by tools/*.sh, so that it stands in one place.

# The environment is our own: packages from the user's home, or put on PYTHONPATH for something
# else, would hide the pinned ones; an active conda or virtual environment must not be written to.
export PYTHONNOUSERSITE=1
unset PYTHONPATH PYTHONHOME VIRTUAL_ENV CONDA_PREFIX
# A kernel of the same name in the user's home must not be found before ours.
export JUPYTER_PREFER_ENV_PATH=1

# No usable HOME (a container, a service account): Jupyter, Matplotlib and the data get one here.
if ! { [ -n "${HOME:-}" ] && [ -d "$HOME" ] && [ -w "$HOME" ]; }; then
    HOME=$PWD/.uv/home
    mkdir -p "$HOME"
    export HOME
    export UV_CACHE_DIR="${UV_CACHE_DIR:-$PWD/.uv/cache}"
    export UV_PYTHON_INSTALL_DIR="${UV_PYTHON_INSTALL_DIR:-$PWD/.uv/python}"
fi

# Where the data is. Kernels start in notebooks/, so a relative path would mean another folder there.
MXNET_HOME=${MXNET_HOME:-$HOME/.mxnet}
case $MXNET_HOME in
    /*) ;;
    '~' | '~/'*) MXNET_HOME=$HOME${MXNET_HOME#'~'} ;;
    *) MXNET_HOME=$(cd -- "$MXNET_HOME" 2>/dev/null && pwd || printf '%s/%s' "$PWD" "$MXNET_HOME") ;;
esac
export MXNET_HOME
