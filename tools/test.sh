#!/usr/bin/env bash
# `make test` runs this: it installs what the tests need, then vets, tests and counts.
# A program that cannot be installed leads to skips with a reason, not to a failure.
set -euo pipefail
cd "$(dirname "$0")/.."

limit=26m # of all tests together

tools/apt.sh iproute2 nftables dnsmasq-base python3-torch openmpi-bin ucx-utils libfabric-bin spin ||
	echo "the tests that need these are skipped"
tools/torch.sh || echo "the tests that need a current torch are skipped"
tools/libs.sh || echo "the tests that need these are skipped"
tools/roce.sh || echo "the tests between virtual machines are skipped"

# unpacked PROGRAM MEGABYTES PACKAGE...: unpacks Debian packages below bin, because
# installing them would start a daemon. PATH below includes them.
unpacked() {
	local program=$1 size=$2 file=bin/debian/usr/bin/$1
	shift 2
	if ! command -v "$program" >/dev/null && [[ ! -x $file ]] && command -v apt-get >/dev/null; then
		echo "unpacking $* under bin/debian: apt downloads about $size MB"
		mkdir -p bin/debian
		(cd bin/debian && apt-get download -q "$@" >/dev/null 2>&1 &&
			for package; do dpkg -x "$package"_*.deb . || exit; done) ||
			echo "$* cannot be downloaded: the tests that need $program are skipped"
	fi
}
unpacked etcd 8 etcd-server
unpacked promtool 19 prometheus
unpacked munge 1 munge libmunge2
export PATH="$PATH:$PWD/bin/debian/usr/bin"

export LAUNCH_TEST_BIN="$PWD/bin/launch"
if [[ -z ${LAUNCH_TEST_PYTHON-} && -x .venv/bin/python ]]; then
	export LAUNCH_TEST_PYTHON="$PWD/.venv/bin/python"
fi
go vet ./...
timeout --kill-after 30s "$limit" go test -json "$@" ./... </dev/null | go run -C tools ./testsum
