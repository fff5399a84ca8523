# Sourced by the other scripts. All that the lab makes is below $LAB.
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
LAB=${K8SLAB:-$(cd "$HERE/../.." && pwd)/bin/k8s}
K8S_VERSION=1.34.4                 # staging modules: v0.34.4
BIN=$LAB/bin DEB=$LAB/root VAR=$LAB/var IMG=$LAB/images
export PATH=$BIN:$DEB/usr/bin:$DEB/usr/sbin:$DEB/bin:$PATH
CP_IP=10.99.0.1                    # control plane, on the lab's own bridge
API_VIP=10.96.0.1                  # kubernetes.default.svc, reachable with no kube-proxy
DNS_VIP=10.96.0.10
CONTROLLERS="cpu cpuacct cpuset memory pids blkio devices freezer systemd"
nodepid() { cat "$VAR/$1/pid" 2>/dev/null; }
# in NODE CMD...: run a command in a node's (or cp's) namespaces
in_ns() { local p; p=$(nodepid "$1") || return 1; shift; nsenter -t "$p" -m -n -p -u --wdns="$PWD" -- "$@"; }
