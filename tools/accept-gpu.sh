#!/usr/bin/env bash
# `make accept-gpu` runs this on a machine with NVIDIA GPUs. It compares launch's facts
# with nvidia-smi's, runs NCCL under launch's plan, and records the machine. Without a
# GPU it prints so and ends with 0.
set -euo pipefail
cd "$(dirname "$0")/.."
launch=$PWD/bin/launch
out=$PWD/bin/accept-gpu
mkdir -p "$out"

skip() { echo "skipped: $*"; exit 0; }
command -v nvidia-smi >/dev/null || skip "no nvidia-smi, so no NVIDIA driver"
gpus=$(nvidia-smi -L 2>&1) || skip "nvidia-smi fails: ${gpus%%$'\n'*}"
count=$(grep -c '^GPU ' <<<"$gpus") || skip "nvidia-smi lists no GPU"
echo "$gpus"

echo
echo "== launch fabric against nvidia-smi; a recording in $out/machine.json"
export LAUNCH_ACCEPT_GPU=$out LAUNCH_TEST_BIN=$launch
if command -v go >/dev/null; then
	go test -count=1 -v -run '^TestAcceptGPU$' ./fabric/gpu
else # built elsewhere: go test -c -o bin/gpu.test ./fabric/gpu
	bin/gpu.test -test.v -test.run '^TestAcceptGPU$'
fi

echo
echo "== NCCL under launch"
python=
for p in "${LAUNCH_TEST_PYTHON-}" .venv/bin/python python3; do
	if [[ -n $p ]] && "$p" -c 'import sys, torch
sys.exit(not (torch.cuda.is_available() and torch.distributed.is_nccl_available()))' 2>/dev/null; then
		python=$(command -v "$p")
		break
	fi
done
[[ -n $python ]] || skip "NCCL: no Python has a torch that sees a GPU (LAUNCH_TEST_PYTHON names one)"

# Two nodes on this machine have half of the GPUs each, or share the only one.
# NCCL_HOSTID makes NCCL treat them as two hosts, which use the network.
address=$("$launch" --json fabric |
	"$python" -c 'import json, sys; print(json.load(sys.stdin).get("route", {}).get("src", ""))')
address=${address:-127.0.0.1} # without a default route
half=$((count > 1 ? count / 2 : 1))
line=("$python" -m torch.distributed.run --nnodes 2 --nproc-per-node "$half" examples/train.py --steps 20)
export NCCL_DEBUG=INFO OMP_NUM_THREADS=1

"$launch" env --format dotenv --nnodes 2 --store "$address" "${line[@]}" >"$out/plan.env"
echo "the plan:"
sed 's/^/    /' "$out/plan.env"

node() { # NAME, its GPUs
	NCCL_HOSTID=$1 CUDA_VISIBLE_DEVICES=$2 timeout 300 "$launch" --nnodes 2 --store "$address" --job "accept-$$" \
		"${line[@]}" >"$out/$1.log" 2>&1
}
first=$(seq -s, 0 $((half - 1)))
second=$first
((count == 1)) || second=$(seq -s, "$half" $((2 * half - 1)))
node a "$first" &
a=$!
status=0
node b "$second" || status=$?
wait "$a" || status=$?
if ((status != 0)) || ! grep -q '^done: loss' "$out/a.log" "$out/b.log"; then
	echo "NCCL under launch failed, exit status $status:"
	tail -n 30 "$out/a.log" "$out/b.log"
	exit 1
fi
grep -h '^done: loss' "$out/a.log" "$out/b.log"
grep -hoE 'NET/[A-Za-z]+ ?: Using .*' "$out/a.log" "$out/b.log" | sort -u | sed 's/^/    /' || true

# NCCL logs each variable that it reads.
missed=0
for name in $(sed -n 's/^\(NCCL_[A-Z0-9_]*\)=.*/\1/p' "$out/plan.env"); do
	if grep -qhE "$name set (by environment )?to" "$out/a.log" "$out/b.log"; then
		echo "NCCL has read $name"
	else
		echo "NCCL did not log that it has read $name"
		missed=1
	fi
done
((missed == 0)) || exit 1
echo
echo "accepted; logs are in $out"
