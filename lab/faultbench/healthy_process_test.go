package faultbench

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// processOddities returns oddities in what a process inherits, and in when it starts.
func processOddities() []oddity {
	env := func(all ...string) func(*healthy) {
		return func(s *healthy) { s.some(func(h *host) { h.env = append(h.env, all...) }) }
	}
	// nsswitch sets the line about hosts of nsswitch.conf.
	nsswitch := func(line string) func(*healthy) {
		return func(s *healthy) {
			s.some(func(h *host) { h.Etc("nsswitch.conf", "passwd: files\ngroup: files\nhosts: "+line+"\n") })
		}
	}
	prepare := func(lines ...string) func(*healthy) {
		return func(s *healthy) { s.some(func(h *host) { h.Prepare = append(h.Prepare, lines...) }) }
	}
	wrap := func(words ...string) func(*healthy) {
		return func(s *healthy) { s.some(func(h *host) { h.wrap = append(h.wrap, words...) }) }
	}
	return []oddity{
		{name: "one node starts 3 s late", takes: "late",
			make: func(s *healthy) { one(s, s.hosts...).late = 3 * time.Second }},
		{name: "the store host starts 3 s late", takes: "late",
			make: func(s *healthy) { s.hosts[0].late = 3 * time.Second }},
		{name: "nodes start within 2 s", takes: "late", make: func(s *healthy) {
			s.each(func(h *host) { h.late = time.Duration(s.r.IntN(2000)) * time.Millisecond })
		}},
		{name: "a proxy for the web", make: env("http_proxy=http://proxy.invalid:3128",
			"https_proxy=http://proxy.invalid:3128",
			"HTTP_PROXY=http://proxy.invalid:3128", "HTTPS_PROXY=http://proxy.invalid:3128",
			"ALL_PROXY=socks5://proxy.invalid:1080", "no_proxy=localhost")},
		{name: "settings of Python", make: env("PYTHONPATH=/opt/site", "PYTHONUNBUFFERED=1", "PYTHONHASHSEED=0",
			"PYTHONDONTWRITEBYTECODE=1", "PYTHONNOUSERSITE=1")},
		{name: "log settings", make: env("NCCL_DEBUG=INFO", "NCCL_DEBUG_SUBSYS=INIT,NET",
			"TORCH_DISTRIBUTED_DEBUG=INFO", "TORCH_CPP_LOG_LEVEL=INFO")},
		{name: "a setting that is right, on all", takes: "eth0", make: func(s *healthy) {
			set := one(s, "NCCL_SOCKET_IFNAME=eth0", "NCCL_SOCKET_IFNAME=eth", "NCCL_SOCKET_IFNAME=^docker0,lo",
				"GLOO_SOCKET_IFNAME=eth0",
				"NCCL_IB_TIMEOUT=22", "NCCL_SOCKET_NTHREADS=2", "TORCH_NCCL_ASYNC_ERROR_HANDLING=1", "NCCL_CROSS_NIC=2")
			s.each(func(h *host) { h.env = append(h.env, set) })
		}},
		{name: "MASTER_ADDR and MASTER_PORT on all", takes: "master", make: func(s *healthy) {
			s.each(func(h *host) { h.env = append(h.env, "MASTER_ADDR="+s.addr(s.hosts[0]), "MASTER_PORT=29500") })
		}},
		{name: "another language", make: env("LANG=tr_TR.UTF-8", "LC_ALL=xx_XX", "TZ=Pacific/Chatham")},
		{name: "the shell of a batch job", make: env("SLURM_JOB_ID=4711", "SLURM_JOBID=4711", "SLURM_JOB_NAME=train",
			"SLURM_SUBMIT_DIR=/home/u", "SLURM_CLUSTER_NAME=c",
			"SLURM_NNODES=4", "SLURM_JOB_NUM_NODES=4", "SLURM_JOB_NODELIST=n[1-4]", "SLURM_NODELIST=n[1-4]",
			"SLURM_TASKS_PER_NODE=1(x4)", "SLURM_PROCID=0", "SLURM_LOCALID=0", "SLURM_NODEID=0")},
		{name: "ranks of a job that is over", make: env("RANK=0", "WORLD_SIZE=1", "LOCAL_RANK=0", "LOCAL_WORLD_SIZE=1",
			"GROUP_RANK=0")},
		{name: "a Service named master", takes: "master",
			make: env("MASTER_PORT=tcp://10.96.14.2:29500", "MASTER_SERVICE_HOST=10.96.14.2", "MASTER_SERVICE_PORT=29500",
				"MASTER_PORT_29500_TCP=tcp://10.96.14.2:29500")},
		{name: "signals that are ignored", make: wrap("sh", "-c", `trap "" HUP PIPE CHLD USR1; exec "$@"`, "sh")},
		{name: "inherited descriptors", make: prepare("exec 7</dev/null 9>/dev/null")},
		{name: "no stdin", make: wrap("sh", "-c", `exec "$@" <&-`, "sh")},
		{name: "a PATH with missing folders", make: func(s *healthy) {
			s.some(func(h *host) { h.env = append(h.env, "PATH=.:/opt/none/bin:~/bin:"+tools.fake+":"+os.Getenv("PATH")) })
		}},
		{name: "something else has port 29500", takes: "ports", make: func(s *healthy) {
			s.some(func(h *host) { h.assist(s.trial, "listen", "0.0.0.0:29500") })
		}},
		{name: "nsswitch.conf of a desktop", takes: "etc", make: nsswitch("files mdns4_minimal [NOTFOUND=return] dns")},
		{name: "nsswitch.conf with missing services", takes: "etc",
			make: nsswitch("files resolve [!UNAVAIL=return] myhostname wins dns")},
		{name: "umask 077", make: prepare("umask 077")},
		{name: "1024 open files", takes: "machine", make: prepare("ulimit -S -n 1024")}, // enough for Gloo
		{name: "4096 open files", make: prepare("ulimit -S -n 4096")},
		{name: "no core files, a small stack", make: prepare("ulimit -c 0", "ulimit -S -s 4096")},
		{name: "4 GB of addresses", takes: "machine", make: prepare("ulimit -v 4000000")},
		{name: "files of at most 2 TiB, as the soft limit", takes: "machine", make: prepare("ulimit -S -f 4294967296")},
		{name: "a TMPDIR of 100 MiB", takes: "tmp", make: prepare(`mount -t tmpfs -o size=100m none "$TMPDIR"`)},
		{name: "a working directory that is read-only", takes: "cwd",
			make: prepare(`mkdir "$0/ro"`, `mount -t tmpfs -o ro none "$0/ro"`, `cd "$0/ro"`)},
		{name: "no HOME", make: wrap("env", "-u", "HOME")},
		{name: "a missing HOME", make: env("HOME=/home/missing")},
		{name: "nohup", needs: "nohup", make: wrap("nohup")},
		{name: "under timeout", needs: "timeout", make: wrap("timeout", "55")},
		{name: "a low priority", make: wrap("nice", "-n", "19")},
		{name: "a busy machine", make: func(s *healthy) { s.spin(2) }},
		{name: "an ordinary user", takes: "user tmp etc machine", needs: "setpriv",
			make: func(s *healthy) { s.some(func(h *host) { h.unprivileged(s) }) }},
		{name: "an empty nccl.conf", takes: "etc", make: func(s *healthy) {
			s.some(func(h *host) { h.write(s.trial, "etc/nccl.conf", ""); h.overlayEtc() })
		}},
	}
}

// spin keeps a host busy with some processes until the start is over.
func (s *healthy) spin(n int) {
	h := one(s, s.hosts...)
	for range n {
		ctx, cancel := context.WithCancel(context.Background())
		cmd := h.Command(ctx, "sh", "-c", "while :; do :; done")
		err := cmd.Start()
		s.t.Cleanup(func() { cancel(); _ = cmd.Wait() })
		if err != nil {
			s.t.Fatal(err)
		}
	}
}

// unprivileged runs launch as user nobody, with its own temporary directory and an
// nccl.conf that only root can read. It excludes machines with RDMA, which need more
// locked memory than this user may have.
func (h *host) unprivileged(s *healthy) {
	for dir := h.Dir(); dir != filepath.Clean(os.TempDir()) && dir != "/"; dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil {
			s.t.Fatal(err)
		}
	}
	if err := os.Chmod(filepath.Dir(tools.fake), 0o755); err != nil {
		s.t.Fatal(err)
	}
	h.write(s.trial, "etc/nccl.conf", "NCCL_DEBUG=INFO\n")
	h.overlayEtc()
	h.Prepare = append(h.Prepare, "chmod 600 /etc/nccl.conf", "chmod 644 /etc/hosts /etc/resolv.conf",
		"chmod 1777 /dev/shm", "mount -t tmpfs -o mode=1777 none /mnt")
	h.env = append(h.env, "TMPDIR=/mnt", "HOME=/mnt")
	h.wrap = append(h.wrap, "setpriv", "--reuid", strconv.Itoa(65534), "--regid", strconv.Itoa(65534), "--clear-groups")
}
