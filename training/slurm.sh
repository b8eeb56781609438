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
# The ports follow from the job's number, and there is no password: whoever is logged in on one of
# the nodes, or reaches it, can run code there as you. So, unless you trust them all, whole nodes:
# #SBATCH --exclusive
set -eu

SERVERS=${SERVERS:-1}
WORKERS=$((SLURM_NTASKS - 1 - SERVERS))
PYTHON=${PYTHON:-.venv/bin/python}
# This script runs on the first node of the job, and so does task 0. If its name means 127.0.1.1 to
# itself (some systems write that into /etc/hosts), set ROOT to its address.
ROOT=${ROOT:-$SLURMD_NODENAME}
# Task i takes port PORT + i. Jobs one after the other, with as many tasks, have ports side by side
# in 12000 to 32767, below those that the kernel gives away. If another job has one of them on a
# node, `join` says so and the job ends: submit it again, or set PORT.
PORT=${PORT:-$((12000 + SLURM_JOB_ID % (20768 / SLURM_NTASKS) * SLURM_NTASKS))}

# `join` learns from SLURM_PROCID which task it is. When one task fails, the others never notice:
# --kill-on-bad-exit ends them. When one hangs, --time above does.
exec srun --kill-on-bad-exit=1 --label \
    "$PYTHON" -m mgpu_helpers join -n "$WORKERS" -s "$SERVERS" --root "$ROOT" --port "$PORT" \
    -- "$PYTHON" training/train_cluster.py "$@"
