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
joincg() { local c; for c in $CONTROLLERS; do [ ! -d /sys/fs/cgroup/$c ] || echo "$1" > /sys/fs/cgroup/$c/k8slab/sys/cgroup.procs; done; }
bg() { # MACHINE LOGNAME CMD...: start a daemon inside a machine
  local m=$1 l=$2 p; shift 2; p=$(nodepid "$m")
  ( joincg $BASHPID; exec setsid nsenter -t "$p" -m -n -p -u -i -- "$@" </dev/null >"$VAR/log/$l.log" 2>&1 ) &
}
t0=$(date +%s.%N); say() { printf '%6.1fs %s\n' "$(echo "$(date +%s.%N) - $t0" | bc -l 2>/dev/null || awk -v a="$(date +%s.%N)" -v b="$t0" 'BEGIN{print a-b}')" "$*"; }
waitfor() { # SECONDS WHAT CMD...
  local s=$1 w=$2; shift 2; for _ in $(seq $((s*5))); do if "$@" >/dev/null 2>&1; then say "$w"; return; fi; sleep 0.2; done; echo "timed out: $w; last log lines:" >&2; tail -n 3 "$VAR"/log/*.log >&2; return 1; }
