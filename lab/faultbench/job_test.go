package faultbench

import (
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// jobFaults returns faults in the set of nodes that join, and in their command lines.
func jobFaults() []fault {
	indexed := func(tr *trial) {
		for i, h := range tr.hosts {
			h.flags = append(h.flags, "--node-rank", strconv.Itoa(i))
		}
	}
	torchrun := func(tr *trial, more ...string) []string {
		return append([]string{"torchrun", "--nnodes", strconv.Itoa(len(tr.hosts)), "--nproc-per-node", "2"}, more...)
	}
	return []fault{{
		group: "job", name: "one node never joins", ci: true, sizes: []int{3, 5},
		inject: func(tr *trial) {
			indexed(tr)
			tr.sick.absent = true
		},
		want: []string{"75 missing: node", "wait progress"},
	}, {
		group: "job", name: "the store host never joins", shared: true,
		inject: func(tr *trial) { tr.hosts[0].absent = true },
		want:   []string{"69 store unreachable", "69 host0"},
	}, {
		group: "job", name: "one node dies while the others wait", sizes: []int{3, 5},
		inject: func(tr *trial) {
			indexed(tr)
			tr.hosts[1].absent = true
			tr.sick.killAfter(tr, 3*time.Second)
		},
		want: []string{"wait left"},
	}, {
		group: "job", name: "the script is missing on one node", ci: true,
		inject: func(tr *trial) {
			tr.sick.Prepare = append(tr.sick.Prepare, "mount -t tmpfs none "+filepath.Dir(tools.script))
		},
		want: []string{"command.script"},
	}, {
		group: "job", name: "a folder is in the script's place",
		inject: func(tr *trial) {
			tr.each(func(h *host) { h.line = torchrun(tr, tools.script) })
			tr.sick.line = torchrun(tr, filepath.Dir(tools.script))
		},
		want: []string{"command.script"},
	}, {
		group: "job", name: "the script is missing on the store host", ci: true,
		inject: func(tr *trial) {
			tr.sick = tr.hosts[0]
			tr.sick.Prepare = append(tr.sick.Prepare, "mount -t tmpfs none "+filepath.Dir(tools.script))
			tr.hosts[len(tr.hosts)-1].late = 2 * time.Second
		},
		want: []string{"command.script"},
	}, {
		group: "job", name: "the script cannot be read on one node",
		inject: func(tr *trial) {
			script := filepath.Join(tr.sick.Dir(), "private.py")
			if err := os.WriteFile(script, []byte("print()\n"), 0o600); err != nil {
				tr.t.Fatal(err)
			}
			tr.sick.wrap = []string{"setpriv", "--reuid", "65534", "--clear-groups"}
			tr.sick.line = torchrun(tr, script)
			tr.each(func(h *host) {
				if h != tr.sick {
					h.line = torchrun(tr, script)
				}
			})
		},
		want: []string{"command.script"},
	}, {
		group: "job", name: "the command is not installed on one node", ci: true,
		inject: func(tr *trial) { tr.sick.line = append([]string{"torchrun-2.15"}, torchrun(tr, tools.script)[1:]...) },
		want:   []string{"command.found"},
	}, {
		group: "job", name: "the command may not be executed on one node",
		inject: func(tr *trial) {
			fake := filepath.Join(tr.sick.Dir(), "torchrun")
			if err := os.WriteFile(fake, []byte("#!/bin/sh\n"), 0o644); err != nil {
				tr.t.Fatal(err)
			}
			tr.sick.line = append([]string{fake}, torchrun(tr, tools.script)[1:]...)
		},
		want: []string{"command.executable"},
	}, {
		group: "job", name: "two nodes claim the same rank", sizes: []int{3, 5},
		inject: func(tr *trial) {
			indexed(tr)
			tr.sick.flags = []string{"--node-rank", "1"}
			tr.sick.late = time.Second
		},
		want: []string{"73 node", "66 is unfit: node rank 1 is taken"},
	}, {
		group: "job", name: "an option is misspelt on one node", ci: true,
		inject: func(tr *trial) { tr.sick.flags = []string{"--restart", "1"} },
		want:   []string{"66 is unfit: unknown flag --restart"},
	}, {
		group: "job", name: "an option is misspelt on the store host",
		inject: func(tr *trial) {
			tr.sick = tr.hosts[0]
			tr.sick.flags = []string{"--restart", "1"}
		},
		want: []string{"66 which hosts the store, is unfit: unknown flag --restart"},
	}, {
		group: "job", name: "the script is missing on the store host, and the others wait", sizes: []int{3},
		inject: func(tr *trial) {
			tr.each(func(h *host) { h.flags = []string{"--fail-fast=false"} })
			tr.sick = tr.hosts[0]
			tr.sick.Prepare = append(tr.sick.Prepare, "mount -t tmpfs none "+filepath.Dir(tools.script))
		},
		want: []string{"75 which hosts the store, is unfit: command.script"},
	}, {
		group: "job", name: "NODE_RANK=0 is exported on every node", ci: true, shared: true, sizes: []int{2, 3},
		inject: func(tr *trial) { tr.each(func(h *host) { h.env = append(h.env, "NODE_RANK=0") }) },
		want:   []string{"73 (from NODE_RANK)", "note node rank 0 is from NODE_RANK"},
	}, {
		group: "job", name: "Slurm's variables of one task are exported on every node", shared: true, sizes: []int{2},
		inject: func(tr *trial) {
			tr.each(func(h *host) { h.env = append(h.env, stepOf(tr, 0)...) })
		},
		want: []string{"73 (from SLURM_NODEID)", "note node rank 0 is from SLURM_NODEID",
			"73 (from SLURM_PROCID)", "note node rank 0 is from SLURM_PROCID"},
	}, {
		group: "job", name: "one line has another number of nodes", sizes: []int{3, 5},
		inject: func(tr *trial) {
			tr.sick.line = []string{"torchrun", "--nnodes", strconv.Itoa(len(tr.hosts) + 1), "--nproc-per-node", "2",
				tools.script}
			tr.sick.late = time.Second
		},
		want: []string{"78 nodes", "75 nodes"},
	}, {
		group: "job", name: "one line has another script", ci: true,
		inject: func(tr *trial) {
			other := filepath.Join(tr.sick.Dir(), "eval.py")
			if err := os.WriteFile(other, []byte("print('eval')\n"), 0o644); err != nil {
				tr.t.Fatal(err)
			}
			tr.sick.line = torchrun(tr, other)
		},
		want: []string{"same.command"},
	}, {
		group: "job", name: "one line has other arguments of the one script", runs: true, ci: true,
		inject: func(tr *trial) { tr.sick.line = torchrun(tr, tools.script, "--lr", "0.5") },
		want:   []string{"same.command"},
	}, {
		group: "job", name: "one line has another number of processes", runs: true,
		inject: func(tr *trial) {
			tr.sick.line = []string{"torchrun", "--nnodes", strconv.Itoa(len(tr.hosts)), "--nproc-per-node", "3", tools.script}
		},
		want: []string{"same.nproc"},
	}, {
		group: "job", name: "one node has an older script", runs: true, ci: true,
		inject: func(tr *trial) {
			old := filepath.Join(tr.sick.Dir(), "train.py")
			if err := os.WriteFile(old, []byte("print('older')\n"), 0o644); err != nil {
				tr.t.Fatal(err)
			}
			tr.sick.Prepare = append(tr.sick.Prepare, "mount --bind "+old+" "+tools.script)
		},
		want: []string{"same.script"},
	}, {
		group: "job", name: "one line has --restarts",
		inject: func(tr *trial) { tr.sick.flags = append(tr.sick.flags, "--restarts", "2") },
		want:   []string{"same.restarts"},
	}, {
		group: "job", name: "one node has no LAUNCH_TOKEN", ci: true,
		inject: func(tr *trial) {
			tr.each(func(h *host) {
				if h != tr.sick {
					h.env = append(h.env, "LAUNCH_TOKEN=0123456789abcdef0123")
				}
			})
		},
		want: []string{"78 TOKEN"},
	}, {
		group: "job", name: "one node has another LAUNCH_TOKEN",
		inject: func(tr *trial) {
			tr.each(func(h *host) { h.env = append(h.env, "LAUNCH_TOKEN=0123456789abcdef0123") })
			tr.sick.env = append(tr.sick.env, "LAUNCH_TOKEN=fedcba9876543210fedc")
		},
		want: []string{"78 TOKEN"},
	}, {
		group: "clock", name: "one clock is 20 s ahead", ci: true, runs: true,
		inject: func(tr *trial) { tr.sick.launch = ahead(tr.t, 20*time.Second) },
		want:   []string{"peer.clock"}, real: "a library sets launch's clock; the kernel's clock is right",
	}, {
		group: "clock", name: "one clock is an hour behind", runs: true,
		inject: func(tr *trial) { tr.sick.launch = ahead(tr.t, -time.Hour) },
		want:   []string{"peer.clock"}, real: "as above",
	}}
}

// stepOf returns the variables of a Slurm step with one task on each host, as task number rank has them.
func stepOf(tr *trial, rank int) []string {
	n, i := strconv.Itoa(len(tr.hosts)), strconv.Itoa(rank)
	return []string{"SLURM_JOB_ID=7", "SLURM_STEP_ID=0", "SLURM_STEP_NUM_NODES=" + n, "SLURM_NNODES=" + n,
		"SLURM_NODEID=" + i, "SLURM_PROCID=" + i, "SLURM_LOCALID=0", "SLURM_STEP_TASKS_PER_NODE=1(x" + n + ")"}
}

// killAfter ends all processes of a host at once, as a power failure does.
func (h *host) killAfter(tr *trial, d time.Duration) {
	h.killed = true
	tr.observable = time.Now().Add(d)
	time.AfterFunc(d, func() { _ = h.Signal(syscall.SIGKILL) })
}
