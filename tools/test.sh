#!/usr/bin/env bash
# `make test` runs this: it installs what the tests need, then vets, tests and counts.
# A program that cannot be installed leads to skips with a reason, not to a failure.
set -euo pipefail
cd "$(dirname "$0")/.."

limit=20m # of all tests together

tools/apt.sh iproute2 nftables dnsmasq-base python3-torch openmpi-bin ucx-utils libfabric-bin spin ||
	echo "the tests that need these are skipped"
tools/torch.sh || echo "the tests that need a current torch are skipped"
tools/libs.sh || echo "the tests that need these are skipped"
tools/roce.sh || echo "the tests between virtual machines are skipped"

# unpacked PROGRAM PACKAGE MEGABYTES: unpacks a Debian package below bin, because
# installing it would start a daemon. PATH below includes it.
unpacked() {
	local file=bin/debian/usr/bin/$1
	if ! command -v "$1" >/dev/null && [[ ! -x $file ]] && command -v apt-get >/dev/null; then
		echo "unpacking $2 under bin/debian: apt downloads about $3 MB"
		mkdir -p bin/debian
		(cd bin/debian && apt-get download -q "$2" >/dev/null 2>&1 && dpkg -x "$2"_*.deb .) ||
			echo "$2 cannot be downloaded: the tests that need $1 are skipped"
	fi
}
unpacked etcd etcd-server 8
unpacked promtool prometheus 19
export PATH="$PATH:$PWD/bin/debian/usr/bin"

export LAUNCH_TEST_BIN="$PWD/bin/launch"
if [[ -z ${LAUNCH_TEST_PYTHON-} && -x .venv/bin/python ]]; then
	export LAUNCH_TEST_PYTHON="$PWD/.venv/bin/python"
fi
go vet ./...
timeout --kill-after 30s "$limit" go test -json "$@" ./... </dev/null | go run -C tools ./testsum
