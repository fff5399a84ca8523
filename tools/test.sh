#!/usr/bin/env bash
# `make test` runs this: it installs what the tests need, then vets, tests and counts.
# A program that cannot be installed leads to skips with a reason, not to a failure.
set -euo pipefail
cd "$(dirname "$0")/.."

limit=26m # of all tests together

# These begin first: the machines of lab/roce are emulated, and those of rendezvous mostly wait next to them.
first=(./lab/roce ./rendezvous/...)

tools/apt.sh iproute2 nftables dnsmasq-base python3-torch openmpi-bin openssh-client ucx-utils libfabric-bin spin ||
	echo "the tests that need these are skipped"
tools/torch.sh || echo "the tests that need a current torch are skipped"
tools/libs.sh || echo "the tests that need these are skipped"
tools/launchers.sh accelerate colossalai deepspeed dlrover lightning nvidia-resiliency-ext torchx ||
	echo "the tests that need these are skipped"
tools/roce.sh || echo "the tests between virtual machines are skipped"

# Installing these would start a daemon. PATH below includes them.
tools/unpack.sh etcd 8 etcd-server
tools/unpack.sh promtool 19 prometheus
tools/unpack.sh munge 1 munge libmunge2
tools/unpack.sh sshd 1 openssh-server libwrap0
tools/unpack.sh srun 6 slurmctld slurmd slurm-client slurm-wlm-basic-plugins libpmix2 libpmix-dev libhwloc15 libnuma1 \
	liblz4-1 libreadline8 libdbus-1-3 libyaml-0-2 libjson-c5 liblua5.1-0
export PATH="$PATH:$PWD/bin/debian/usr/bin"

export LAUNCH_TEST_BIN="$PWD/bin/launch"
if [[ -z ${LAUNCH_TEST_PYTHON-} && -x .venv/bin/python ]]; then
	export LAUNCH_TEST_PYTHON="$PWD/.venv/bin/python"
fi
go vet ./...

# A test that waits for real processes can be late on a busy machine. At most three that
# failed are tried once more, alone, and are named at the end.
again=$(mktemp)
trap 'rm -f "$again"' EXIT
if ! timeout --kill-after 30s "$limit" go test -timeout "$limit" -json "$@" "${first[@]}" ./... </dev/null | go run -C tools ./testsum -again "$again"; then
	[[ -s $again ]] || exit 1
	while read -r package name; do
		echo "once more, alone: $package $name"
		timeout --kill-after 30s 5m go test -count=1 -json -run "$name" "$package" </dev/null | go run -C tools ./testsum
	done <"$again"
	echo "failed among the others, and passed alone:"
	cat "$again"
fi
