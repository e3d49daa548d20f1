#!/bin/sh
#SBATCH --job-name=twoarm
#SBATCH --array=1-5
#SBATCH --cpus-per-task=4
#SBATCH --time=08:00:00
#SBATCH --requeue
#SBATCH --signal=B:TERM@120
set -eu
# As many as the array has; written down, so that one of them can be submitted again on its own.
SHARDS=5
out="shards/$SLURM_ARRAY_TASK_ID"
# Workspaces on the disk of the node; the run folder and the suite where all nodes see them.
TWOARM_CACHE="${TMPDIR:-/tmp}/twoarm-$(id -u)"
export TWOARM_CACHE
# exec: the signal before the end of the time goes to twoarm itself.
if [ -e "$out/schedule.json" ]; then
  exec twoarm run --resume "$out" --jobs "$SLURM_CPUS_PER_TASK"
fi
exec twoarm run evals/suite.toml --shard "$SLURM_ARRAY_TASK_ID/$SHARDS" --out "$out" --jobs "$SLURM_CPUS_PER_TASK"
