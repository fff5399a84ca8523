package truth

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// variables returns variables of the environment that one node has, or all.
func variables() []mechanism {
	set := func(all ...string) func(b *bed, f fault) {
		return func(b *bed, f fault) { b.each(f, func(h *host) { h.env = append(h.env, all...) }) }
	}
	v := func(name string, scope scope, degrades bool, all ...string) mechanism {
		return mechanism{topic: "variable", name: name, scope: scope, degrades: degrades, causes: "env died",
			make: set(all...)}
	}
	shadow := func(name, text string) func(b *bed, f fault) {
		return func(b *bed, f fault) {
			h := b.hosts[f.at]
			h.env = append(h.env, "PYTHONPATH="+filepath.Dir(b.write(h.Host, "shadow/"+name, text)))
		}
	}
	return []mechanism{
		v("MASTER_ADDR of an earlier job", oneNode, false, "MASTER_ADDR=10.77.0.99"),
		v("MASTER_ADDR is localhost", allNodes, false, "MASTER_ADDR=localhost"),
		v("MASTER_ADDR and MASTER_PORT that are right", allNodes, false, "MASTER_ADDR=host0", "MASTER_PORT=29500"),
		v("MASTER_PORT of an earlier job", oneNode, false, "MASTER_PORT=12345"),
		v("MASTER_PORT of a Service", allNodes, false, "MASTER_PORT=tcp://10.96.14.2:29500",
			"MASTER_SERVICE_HOST=10.96.14.2"),
		v("ranks of an earlier job", oneNode, false, "RANK=0", "WORLD_SIZE=1", "LOCAL_RANK=0", "LOCAL_WORLD_SIZE=1"),
		v("ranks of an earlier job everywhere", allNodes, false, "RANK=0", "WORLD_SIZE=1", "LOCAL_RANK=0"),
		v("NODE_RANK of an earlier job", oneNode, true, "NODE_RANK=7", "GROUP_RANK=7"),
		v("GLOO_SOCKET_IFNAME is right", allNodes, false, "GLOO_SOCKET_IFNAME=eth0"),
		v("GLOO_SOCKET_IFNAME of another machine", oneNode, true, "GLOO_SOCKET_IFNAME=ens99"),
		v("GLOO_SOCKET_IFNAME is loopback", oneNode, true, "GLOO_SOCKET_IFNAME=lo"),
		v("GLOO_SOCKET_IFNAME is loopback everywhere", allNodes, true, "GLOO_SOCKET_IFNAME=lo"),
		v("NCCL_SOCKET_IFNAME of another machine", oneNode, true, "NCCL_SOCKET_IFNAME=ens99"),
		v("NCCL_SOCKET_IFNAME is right", allNodes, false, "NCCL_SOCKET_IFNAME=eth0"),
		v("NCCL settings on one node", oneNode, true, "NCCL_IB_DISABLE=1", "NCCL_ALGO=Ring"),
		v("NCCL logs", oneNode, false, "NCCL_DEBUG=INFO", "TORCH_CPP_LOG_LEVEL=INFO"),
		v("a proxy", oneNode, false, "http_proxy=http://proxy.invalid:3128", "https_proxy=http://proxy.invalid:3128",
			"HTTP_PROXY=http://proxy.invalid:3128", "HTTPS_PROXY=http://proxy.invalid:3128",
			"ALL_PROXY=socks5://proxy.invalid:1080"),
		v("a batch job's shell", allNodes, false, "SLURM_JOB_ID=4711", "SLURM_JOB_NAME=train", "SLURM_NNODES=4",
			"SLURM_JOB_NUM_NODES=4", "SLURM_JOB_NODELIST=n[1-4]", "SLURM_TASKS_PER_NODE=1(x4)"),
		v("SLURM_PROCID=0 everywhere", allNodes, true, "SLURM_JOB_ID=4711", "SLURM_PROCID=0", "SLURM_NTASKS=4",
			"SLURM_STEP_ID=0", "SLURM_NODEID=0"),
		v("another language", oneNode, false, "LANG=tr_TR.UTF-8", "LC_ALL=xx_XX", "TZ=Pacific/Chatham"),
		v("many variables", oneNode, false, "BIG="+strings.Repeat("x", 100_000)),
		v("a library to preload that is missing", oneNode, false, "LD_PRELOAD=/opt/none/libnone.so"),
		v("a folder of libraries that is missing", oneNode, false, "LD_LIBRARY_PATH=/opt/none:/opt/cuda/lib64"),
		v("threads and settings of Python", oneNode, false, "OMP_NUM_THREADS=64", "PYTHONUNBUFFERED=1",
			"PYTHONHASHSEED=0", "PYTHONNOUSERSITE=1", "PYTHONPATH=/opt/site"),
		v("PYTHONHOME of another Python", oneNode, false, "PYTHONHOME=/opt/python"),
		{topic: "variable", name: "PYTHONPATH hides a module", causes: "died command",
			make: shadow("socket.py", "raise ImportError('not this one')\n")},
		{topic: "variable", name: "PYTHONPATH with a module that ends", causes: "died command",
			make: shadow("sitecustomize.py", "import os; os._exit(9)\n")},
		{topic: "variable", name: "PYTHONPATH with a harmless module", make: shadow("extra.py", "\n")},
	}
}

// arguments returns lines that differ by node, and other programs that have the job's port.
func arguments() []mechanism {
	args := func(all ...string) func(b *bed, f fault) {
		return func(b *bed, f fault) { b.hosts[f.at].args = append(b.hosts[f.at].args, all...) }
	}
	// script gives a host a script of its own.
	script := func(name string, change func(text string) string) func(b *bed, f fault) {
		return func(b *bed, f fault) {
			h := b.hosts[f.at]
			h.script = b.write(h.Host, name, change(tools.scripts[b.d.program]))
		}
	}
	// at shows a host another text in the script's place.
	at := func(text func(string) string) func(b *bed, f fault) {
		return func(b *bed, f fault) {
			h := b.hosts[f.at]
			own := b.write(h.Host, "other/train.py", text(tools.scripts[b.d.program]))
			h.Prepare = append(h.Prepare, "mount --bind "+own+" "+b.script)
		}
	}
	same := func(text string) string { return text }
	later := func(text string) string { return text + "\n# a comment of a later version\n" }
	fewer := func(text string) string { return strings.Replace(text, "default=8", "default=2", 1) }
	all := []mechanism{
		{name: "fewer steps", causes: "line died", make: args("--steps", "3")},
		{name: "more steps", causes: "line died", make: args("--steps", "90")},
		{name: "a file of its own", degrades: true, make: func(b *bed, f fault) {
			for _, h := range b.hosts {
				h.args = append(h.args, "--out", filepath.Join("/tmp/results", h.Name+".log"))
			}
		}},
		{name: "a script of its own that is equal", takes: "script", make: script("job/train.py", same)},
		{name: "a script of another name that is equal", takes: "script", degrades: true, make: script("job/start.py", same)},
		{name: "another script", takes: "script", causes: "line died",
			make: script("job/eval.py", func(string) string { return "print('rank 0 done')\n" })},
		{name: "a script that differs in a comment", takes: "script", degrades: true, make: at(later)},
		{name: "an older script with fewer steps", takes: "script", causes: "line died", make: at(fewer)},
		{name: "a script that is broken", takes: "script", causes: "line died command",
			make: at(func(string) string { return "def f(:\n" })},
		{name: "a script that is empty", takes: "script", causes: "line died command",
			make: at(func(string) string { return "" })},
		{name: "one node more in the line", takes: "world", make: func(b *bed, f fault) { b.hosts[f.at].world++ }},
		{name: "one node more in all lines", takes: "world", scope: allNodes, causes: "gone line",
			make: func(b *bed, f fault) { b.each(f, func(h *host) { h.world++ }) }},
		{name: "a rank twice", takes: "world rank", scope: onePair, make: func(b *bed, f fault) {
			b.d.typed = true
			b.hosts[f.at].rank = f.to
		}},
		{name: "a rank too high", takes: "world rank", make: func(b *bed, f fault) {
			b.d.typed = true
			b.hosts[f.at].rank = b.d.hosts + 3
		}},
		{name: "another program has the master port", scope: firstOne, causes: "port died", takes: "port",
			make: func(b *bed, f fault) { b.serves(b.hosts[f.at].Host, "listen.py", masterPort) }},
		{name: "another program has that port on another node", scope: lastOnes,
			make: func(b *bed, f fault) { b.serves(b.hosts[f.at].Host, "listen.py", masterPort) }},
	}
	for i := range all {
		all[i].topic = "line"
		if all[i].causes == "" {
			all[i].causes = "line"
		}
	}
	return all
}

// commands returns commands that cannot run, and other versions.
func commands() []mechanism {
	// as replaces the command of one host by a file.
	as := func(text string, mode os.FileMode) func(b *bed, f fault) {
		return func(b *bed, f fault) {
			h := b.hosts[f.at]
			name := map[bool]string{true: "python3", false: "torchrun"}[b.d.program == plain]
			h.python = b.write(h.Host, "own/"+name, text)
			if err := os.Chmod(h.python, mode); err != nil {
				b.t.Fatal(err)
			}
			h.torch = h.python
		}
	}
	named := func(name string) func(b *bed, f fault) {
		return func(b *bed, f fault) { b.hosts[f.at].python, b.hosts[f.at].torch = name, name }
	}
	all := []mechanism{
		{name: "a command that is missing", make: func(b *bed, f fault) {
			b.hosts[f.at].python, b.hosts[f.at].torch = "/opt/none/bin/python3", "/opt/none/bin/torchrun"
		}},
		{name: "a command of another name that is missing", make: named("torchrun-2.15")},
		{name: "a command that fails", make: as("#!/bin/sh\necho 'error: libnone.so: cannot open' >&2\nexit 127\n", 0o755)},
		{name: "a command that fails after a second", make: as("#!/bin/sh\nsleep 1\nexit 1\n", 0o755)},
		{name: "a command with a missing interpreter", make: as("#!/opt/none/bin/python3\n", 0o755)},
		{name: "a command that may not be executed", make: as("#!/bin/sh\nexit 1\n", 0o644)},
		{name: "a command that is empty", make: as("", 0o755)},
		{name: "a command of another machine", make: as("\x7fELF\x02\x01\x01\x00", 0o755)},
		{name: "a command that is a folder", make: named("/usr")},
		{name: "a command that hangs", causes: "gone died line", make: as("#!/bin/sh\nexec sleep 600\n", 0o755)},
		{name: "a script that is a folder", takes: "script", make: func(b *bed, f fault) {
			b.hosts[f.at].script = filepath.Dir(b.script)
		}},
		{name: "a script that is missing", takes: "script", make: func(b *bed, f fault) {
			b.hosts[f.at].script = b.script + ".old"
		}},
		{name: "another torch", causes: "version", degrades: true, make: func(b *bed, f fault) {
			dir := filepath.Join(b.hosts[f.at].Dir(), "venv")
			if err := makeVenv(dir, "2.14.1"); err != nil {
				b.t.Fatal(err)
			}
			b.hosts[f.at].python, b.hosts[f.at].torch = filepath.Join(dir, "bin/python3"), filepath.Join(dir, "bin/torchrun")
		}},
		{name: "a wrapper", make: func(b *bed, f fault) {
			b.hosts[f.at].wrap = append(b.hosts[f.at].wrap, "nice", "-n", strconv.Itoa(3))
		}},
	}
	for i := range all {
		all[i].topic = "command"
		all[i].takes += " command"
		if all[i].causes == "" {
			all[i].causes = "command died"
		}
	}
	return all
}
