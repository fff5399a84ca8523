#!/usr/bin/env bash
# Installs what `make hangs-peers` compares launch doctor with, below bin/peers: what
# torch's debug server needs, and NVIDIA's attribution. Its wheel asks for a newer libc
# than its Python code needs.
set -euo pipefail
cd "$(dirname "$0")/.."
[[ ! -d bin/peers/nvidia_resiliency_ext ]] || exit 0
into=(.venv/bin/python -m pip install --quiet --disable-pip-version-check --upgrade --target bin/peers)
"${into[@]}" jinja2 aiohttp tabulate
"${into[@]}" --no-deps --only-binary=:all: --platform manylinux_2_39_x86_64 'nvidia-resiliency-ext>=0.6' ||
	echo "the comparison with nvidia-resiliency-ext is skipped"
