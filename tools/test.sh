#!/usr/bin/env bash
# What `make test` runs: installs what the tests need, then vets, tests, and
# counts. What cannot be installed is a skip with its reason, not a failure.
set -euo pipefail
cd "$(dirname "$0")/.."

limit=20m # of all tests together

tools/apt.sh iproute2 nftables dnsmasq-base python3-torch openmpi-bin ucx-utils libfabric-bin spin || echo "the tests that need these are skipped"
tools/torch.sh || echo "the tests that need a current torch are skipped"
tools/libs.sh || echo "the tests that need these are skipped"
tools/roce.sh || echo "the tests between virtual machines are skipped"

# Debian's etcd, unpacked and not installed: its package would start a daemon.
etcd=bin/debian/usr/bin/etcd
if ! command -v etcd >/dev/null && [[ ! -x $etcd ]] && command -v apt-get >/dev/null; then
	echo "unpacking etcd-server under bin/debian: apt downloads about 8 MB"
	mkdir -p bin/debian
	(cd bin/debian && apt-get download -q etcd-server >/dev/null 2>&1 && dpkg -x etcd-server_*.deb .) ||
		echo "etcd-server cannot be downloaded: the tests that need it are skipped"
fi
[[ ! -x $etcd ]] || export PATH="$PATH:$PWD/${etcd%/etcd}"

export LAUNCH_TEST_BIN="$PWD/bin/launch"
if [[ -z ${LAUNCH_TEST_PYTHON-} && -x .venv/bin/python ]]; then
	export LAUNCH_TEST_PYTHON="$PWD/.venv/bin/python"
fi
go vet ./...
timeout --kill-after 30s "$limit" go test -json "$@" ./... </dev/null | go run -C tools ./testsum
