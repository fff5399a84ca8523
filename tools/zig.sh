#!/usr/bin/env bash
# Prints a C compiler that builds for an older glibc, and for other processors: zig's,
# which a package of PyPI has (about 100 MB). It is installed below bin/zig.
set -euo pipefail
cd "$(dirname "$0")/.."
if [[ ! -x bin/zig/bin/python ]] || ! bin/zig/bin/python -m ziglang version >/dev/null 2>&1; then
	python3 -m venv --clear bin/zig >/dev/null
	bin/zig/bin/python -m pip install --quiet --disable-pip-version-check 'ziglang>=0.13' >&2
fi
echo "$PWD/bin/zig/bin/python -m ziglang cc"
