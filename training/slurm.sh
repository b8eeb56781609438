#!/bin/bash
# Chapter 4's training as a Slurm job. In the folder of the course, which all nodes must share:
#
#     sbatch training/slurm.sh --epochs 3
#
# One task for each role: 1 scheduler, SERVERS servers, and the rest are workers.
#SBATCH --job-name=mgpu
#SBATCH --nodes=2
#SBATCH --ntasks=4
#SBATCH --cpus-per-task=1
#SBATCH --mem-per-cpu=2G
#SBATCH --time=00:30:00
#SBATCH --output=slurm-%j.out
# On nodes with GPUs, one for each task (the scheduler and the servers leave theirs alone):
# #SBATCH --gpus-per-task=1
# The ports follow from the job's number, and there is no password: anyone who is logged in on a
# node, or reaches it, can run code there as you. Unless you trust them all, take whole nodes:
# #SBATCH --exclusive
set -eu

SERVERS=${SERVERS:-1}
WORKERS=$((SLURM_NTASKS - 1 - SERVERS))
PYTHON=${PYTHON:-.venv/bin/python}
# This script and task 0 run on the job's first node. If that node resolves its own name to 127.0.1.1
# (some systems write that into /etc/hosts), set ROOT to its address.
ROOT=${ROOT:-$SLURMD_NODENAME}
# Task i takes port PORT + i. Consecutive jobs with the same number of tasks get adjacent ranges in
# 12000 to 32767, below the kernel's ephemeral ports. If a port is taken on a node, `join` says so
# and the job ends: submit it again, or set PORT.
PORT=${PORT:-$((12000 + SLURM_JOB_ID % (20768 / SLURM_NTASKS) * SLURM_NTASKS))}

# `join` reads its task number from SLURM_PROCID. If a task fails, the others do not notice:
# --kill-on-bad-exit ends them. If one hangs, --time above ends the job.
exec srun --kill-on-bad-exit=1 --label \
    "$PYTHON" -m mgpu_helpers join -n "$WORKERS" -s "$SERVERS" --root "$ROOT" --port "$PORT" \
    -- "$PYTHON" training/train_cluster.py "$@"
