#!/usr/bin/env bash
# Runs the example on one machine: two nodes of two processes, started as on two hosts,
# with the embedded store. `make demo` runs it.
set -euo pipefail
cd "$(dirname "$0")/.."
train=examples/train.py
export OMP_NUM_THREADS=1 # torchrun would choose it and print a page about it
work=$(mktemp -d) && export TMPDIR=$work # torchrun leaves a folder there
trap 'rm -rf "$work"' EXIT

# Reports whether the torchrun in PATH can run one step of the example. torch 1.13 on
# Python 3.11 loses the defaults of the two PET_* variables and needs them set; 9:1 is
# a local rank that does not exist.
works() {
	local path one
	path=$(command -v torchrun) || return
	echo "demo: trying $path"
	one=("$path" --standalone --nproc_per_node 1 "$train" --steps 1)
	"${one[@]}" >/dev/null 2>&1 && return
	export PET_REDIRECTS=9:1 PET_TEE=9:1
	"${one[@]}" >/dev/null 2>&1 && return
	unset PET_REDIRECTS PET_TEE
	echo "demo: it does not work: ${one[*]}"
	return 1
}

nodes=() printers=() # process ids
start_node() {       # NAME: its output goes to the terminal, prefixed, and to the log
	local out
	exec {out}> >(trap '' INT TERM HUP && sed -u "s/^/$1 | /" | tee -a "$work/log")
	printers+=($!)
	bin/launch --store 127.0.0.1 --nnodes 2 --job "demo-$$" --join-timeout 1m \
		torchrun --nnodes 2 --nproc_per_node 2 "$train" >&"$out" 2>&1 {out}>&- &
	nodes+=($!)
	exec {out}>&-
}

if ! works; then
	env -u TMPDIR tools/torch.sh # makes .venv
	PATH="$PWD/.venv/bin:$PATH"
	works || exit 1
fi
# Background commands of bash ignore Ctrl-C: forward it as SIGTERM.
trap 'how=stopped; kill -TERM "${nodes[@]}" 2>/dev/null || true' INT TERM HUP

echo "demo: two nodes of two processes"
start=$SECONDS worst=0
start_node "node a"
start_node "node b"
for pid in "${nodes[@]}"; do # a signal ends the wait, not the node: wait again
	while code=0; wait "$pid" || code=$?; kill -0 "$pid" 2>/dev/null; do :; done
	((code <= worst)) || worst=$code
done
wait "${printers[@]}" || true
((worst == 0)) || { echo "demo: ${how-failed}, exit status $worst" && exit "$worst"; }
loss=$(sed -n 's/.*done: \(loss [^,]*\),.*/\1/p' "$work/log")
echo "demo: ok, 2 nodes x 2 processes trained in $((SECONDS - start)) s, $loss"
