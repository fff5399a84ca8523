#!/usr/bin/env bash
# Makes .venv with a current torch, unless it exists. LAUNCH_TORCH_INDEX may name a
# package index of CPU-only wheels, which comes first. If pip cannot install torch, it
# installs Debian's outside .venv and removes .venv.
set -euo pipefail
cd "$(dirname "$0")/.."

whole() { .venv/bin/python -c 'import torch, numpy' 2>/dev/null; }
! whole || exit 0
if ! python3 -m venv --clear .venv >/dev/null 2>&1; then
	tools/apt.sh python3 python3-venv
	python3 -m venv --clear .venv
fi
log=$(mktemp) && trap 'rm -f "$log"; whole || rm -rf .venv' EXIT
pip=(.venv/bin/python -m pip --quiet --disable-pip-version-check)
# A probe that reads the index's page and downloads no wheel.
answers() { timeout 60 "${pip[@]}" index versions --timeout 15 --retries 1 "$@" torch >/dev/null 2>&1; }
# The connection may break, or the disk fill up; in CI the limit is short.
into() {
	timeout "$([[ -n ${CI-} ]] && echo 5m || echo 1h)" \
		"${pip[@]}" install --no-cache-dir "$@" torch numpy 2>"$log" && whole
}
failed() { echo "pip failed: $(grep . "$log" | tail -n 1)"; }

why="pip's index does not answer"
if [[ -n ${LAUNCH_TORCH_INDEX-} ]] && answers --index-url "$LAUNCH_TORCH_INDEX"; then
	echo "torch: into .venv from your CPU wheel index: a few hundred MB"
	into --index-url "$LAUNCH_TORCH_INDEX" || why=$(failed)
elif (($(df --output=avail -k . | tail -n 1) < 9000000)); then
	why="pip temporarily needs 9 GB of disk, and less is free"
elif answers; then
	# Measured with torch 2.15 in November 2026, 76 s on a fast line.
	echo "torch: into .venv with pip: downloads about 2.7 GB, 5.4 GB on disk, mostly CUDA"
	echo "torch: set LAUNCH_TORCH_INDEX to an index of CPU-only wheels to download less"
	into || why=$(failed)
fi
if ! whole; then
	echo "torch: $why; using Debian's torch, which is older"
	tools/apt.sh python3-torch
	exit 0
fi
# The tests of launch doctor compare with and without Python stacks.
timeout 1m "${pip[@]}" install --no-cache-dir py-spy 2>/dev/null || echo "torch: py-spy cannot be installed"
echo "torch: $(.venv/bin/python -c 'import torch; print(torch.__version__)') in .venv"
