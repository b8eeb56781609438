# The course in a container, for a server with NVIDIA GPUs or without. No CUDA toolkit: the driver comes
# from the host (NVIDIA's container toolkit), the other libraries with the packages.
#
#   docker build -t mgpu .                                  MXNet and PyTorch for GPUs, 10 GB
#   docker build -t mgpu-torch --build-arg TORCH=only .     PyTorch for GPUs alone, without chapters 1 to 4
#   docker build -t mgpu-cpu --build-arg GPU=0 .            both for CPUs
#   docker run --rm --init --gpus all --shm-size=1g -p 127.0.0.1:8888:8888 -v mgpu-data:/student/.mxnet mgpu
#
# The last prints an address with a token, for a browser on the same machine; book/elsewhere.md says how from
# another. NCCL and PyTorch's processes exchange data in shared memory: Docker gives 64 MB unless told.

FROM debian:bookworm-20260918-slim@sha256:3783cc01769c7b2b1b83a5c5ad96c815348e28ed7da68e2e3687004faa906251 AS base
# Debian 12, because its own Python is the 3.11 that MXNet needs; libgomp1 and libquadmath0 are what a slim
# image lacks for MXNet, and git is for nbdime and for whoever keeps notes in the notebooks.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends \
        ca-certificates git libgomp1 libquadmath0 make python3 python3-venv \
    && rm -rf /var/lib/apt/lists/*
# The folders for the data and for uv's cache are made here, so that what is mounted there is the user's, too.
RUN useradd --create-home --home-dir /student --shell /bin/bash --uid 1000 student \
    && install -d -o student -g student /student/course /student/.mxnet /student/.cache
USER 1000
WORKDIR /student/course

FROM base
ARG GPU=1
ARG TORCH=1
# No driver is here while the image is made; tools/setup.sh says what that means.
ARG MGPU_DRIVER=later
# Only what setup reads, so that an edited chapter does not install gigabytes again: MXNet's settings and
# checks are all of the package that it loads, and README.md is needed by name only.
COPY --chown=student:student pyproject.toml LICENSE ./
COPY --chown=student:student locks/*.txt locks/
COPY --chown=student:student tools/*.sh tools/suggest_packages.py tools/uv-requirements.txt tools/
COPY --chown=student:student tools/kernels tools/kernels/
COPY --chown=student:student tools/lab tools/lab/
COPY --chown=student:student mgpu_helpers/__init__.py mgpu_helpers/__init__.pyi mgpu_helpers/runtime.py mgpu_helpers/
COPY --chown=student:student mgpu_helpers/devices/driver.py mgpu_helpers/devices/
COPY --chown=student:student mgpu_helpers/processes mgpu_helpers/processes/
RUN --mount=type=cache,target=/student/.cache/uv,uid=1000,gid=1000 \
    touch README.md && sh tools/setup.sh
COPY --chown=student:student . .

# For commands other than the last line's, such as those of cluster/kubernetes.yaml.
ENV PATH=/student/course/.venv/bin:$PATH \
    NVIDIA_VISIBLE_DEVICES=all \
    NVIDIA_DRIVER_CAPABILITIES=compute,utility
EXPOSE 8888
HEALTHCHECK --start-period=1m CMD ["python3", "-c", \
    "import urllib.request as u; u.build_opener(u.ProxyHandler({})).open('http://127.0.0.1:8888/api', timeout=5)"]
# 0.0.0.0 is every address of the container alone; `docker run -p` says who reaches it.
CMD ["make", "lab", "LAB_ARGS=--no-browser --ip=0.0.0.0 --port=8888"]
