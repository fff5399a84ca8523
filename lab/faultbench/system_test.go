package faultbench

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"launch/lab/programs"
)

// systemFaults returns faults in limits, disks and software of the sick host.
func systemFaults() []fault {
	prepare := func(lines ...string) func(*trial) {
		return func(tr *trial) { tr.sick.Prepare = append(tr.sick.Prepare, lines...) }
	}
	onGPUs := func(lines ...string) func(*trial) {
		return func(tr *trial) {
			tr.equip(onIB)
			tr.sick.Prepare = append(tr.sick.Prepare, lines...)
		}
	}
	// checks adds a check of the user's to every host, another one to the sick host.
	checks := func(sick string) func(*trial) {
		return func(tr *trial) {
			tr.each(func(h *host) {
				h.write(tr, "checks/fs-mounted", "#!/bin/sh\necho mounted\n")
				h.flags = append(h.flags, "--check-dir", h.file("checks"))
			})
			tr.sick.write(tr, "checks/fs-mounted", "#!/bin/sh\n"+sick+"\n")
		}
	}
	venvs := func(gpus bool, torch, nccl, sickTorch, sickNCCL string) func(*trial) {
		return func(tr *trial) {
			if gpus {
				tr.equip(onIB)
			}
			tr.each(func(h *host) {
				if h == tr.sick {
					h.venv(tr, sickTorch, "12.8", sickNCCL)
				} else {
					h.venv(tr, torch, "12.8", nccl)
				}
			})
		}
	}
	all := []fault{
		{name: "64 open files", ci: true, runs: true, inject: prepare("ulimit -S -n 64"), want: []string{"limits.nofile"}},
		{name: "too few addresses for launch", inject: prepare("ulimit -v 900000"),
			want: []string{"65 ulimit -v is 900000 KiB"}},
		{name: "64 KiB of shared memory", ci: true, runs: true, inject: onGPUs("mount -t tmpfs -o size=64k none /dev/shm"),
			want: []string{"shm.size"}},
		{name: "64 KiB of shared memory, and one process for all GPUs", runs: true, inject: func(tr *trial) {
			onGPUs("mount -t tmpfs -o size=64k none /dev/shm")(tr)
			tr.oneProgram()
		}, want: []string{"shm.size"}},
		{name: "shared memory that others filled", runs: true,
			inject: onGPUs("mount -t tmpfs -o size=16m none /dev/shm", "head -c 16000000 /dev/zero >/dev/shm/left"),
			want:   []string{"shm.size"}},
		{name: "a full TMPDIR", ci: true, runs: true, inject: prepare(`mount -t tmpfs -o size=1m none "$TMPDIR"`,
			`{ head -c 2m /dev/zero >"$TMPDIR/left"; true; } 2>/dev/null`), want: []string{"storage.space"}},
		{name: "a TMPDIR without inodes", runs: true, inject: prepare(`mount -t tmpfs -o nr_inodes=20 none "$TMPDIR"`),
			want: []string{"storage.space"}},
		{name: "a TMPDIR that is read-only", runs: true, inject: prepare(`mount -t tmpfs -o ro none "$TMPDIR"`),
			want: []string{"storage.space"}},
		{name: "a missing TMPDIR", runs: true,
			inject: func(tr *trial) { tr.sick.env = append(tr.sick.env, "TMPDIR=/scratch/of/another/node") },
			want:   []string{"storage.space"}},
		{name: "the working directory is gone", runs: true,
			inject: prepare(`mkdir "$0/gone"`, `cd "$0/gone"`, `rmdir "$0/gone"`), want: []string{"storage.space"}},
		{name: "a tenth of a core", runs: true, inject: group("cpu", "cpu.cfs_quota_us", "10000"),
			want: []string{"limits.cpu"}},
		{name: "40 processes at most", runs: true, inject: group("pids", "pids.max", "40"), want: []string{"limits.pids"}},
		{name: "300 MiB of memory", runs: true, inject: group("memory", "memory.limit_in_bytes", "314572800"),
			want: []string{"limits.memory"}},
		{name: "8 GiB of memory, without an OOM killer", ci: true, runs: true, inject: group("memory",
			"memory.limit_in_bytes", "8589934592", "memory.oom_control", "1"),
			want: []string{"warn limits.memory OOM killer is off"}},
		{name: "a check of the user's fails", ci: true, inject: checks("echo not mounted; exit 1"),
			want: []string{"user.fs-mounted"}},
		{name: "a check of the user's hangs", runs: true, inject: checks("exec sleep 100"),
			want: []string{"user.fs-mounted"}},
		{name: "torch before and after its store changed", ci: true, inject: venvs(false, "2.9.0", "", "2.0.1", ""),
			want: []string{"same.torch"}},
		{name: "another torch", runs: true, inject: venvs(false, "2.9.0", "", "2.8.0", ""), want: []string{"same.torch"}},
		{name: "another NCCL", ci: true, inject: venvs(true, "2.9.0", "2.27.5", "2.9.0", "2.26.2"),
			want: []string{"same.nccl"}},
		{name: "another launch", runs: true, inject: func(tr *trial) {
			other, err := otherLaunch()
			if err != nil {
				tr.t.Fatal(err)
			}
			tr.sick.Prepare = append(tr.sick.Prepare, "mount --bind "+other+" "+tools.launch)
		}, want: []string{"same.launch"}},
	}
	for i := range all {
		all[i].group, all[i].real = "system", "all is real"
		if strings.HasPrefix(all[i].want[0], "same.") {
			all[i].real = "versions from files, without the libraries"
		}
	}
	return all
}

// otherLaunch is launch with another version, built once.
var otherLaunch = sync.OnceValues(func() (string, error) {
	file := filepath.Join(filepath.Dir(tools.fake), "launch-other")
	return file, programs.Go(file, "launch/cmd/launch", "-ldflags", "-X main.version=v0.0.1-other")
})

// group puts the sick host's processes into a control group with a limit. It needs
// a controller of version 1, which several hosts of one machine may share.
func group(controller string, files ...string) func(*trial) {
	return func(tr *trial) {
		dir := filepath.Join("/sys/fs/cgroup", controller,
			filepath.Base(tr.t.TempDir())+strings.ReplaceAll(tr.t.Name(), "/", "-"))
		if err := os.Mkdir(dir, 0o755); err != nil {
			tr.t.Skipf("needs control groups of version 1: %v", err)
		}
		tr.t.Cleanup(func() { removeGroup(tr.t, dir) })
		for pair := range slices.Chunk(files, 2) {
			if err := os.WriteFile(filepath.Join(dir, pair[0]), []byte(pair[1]), 0o644); err != nil {
				tr.t.Fatal(err)
			}
		}
		tr.sick.Prepare = append(tr.sick.Prepare,
			"mount -t tmpfs none /sys/fs/cgroup", "mkdir /sys/fs/cgroup/"+controller,
			"mount -t cgroup -o "+controller+" none /sys/fs/cgroup/"+controller,
			"echo $$ >"+dir+"/cgroup.procs")
	}
}

// removeGroup waits until a group is empty: the companion outlives the command
// by up to a second.
func removeGroup(t *testing.T, dir string) {
	deadline := time.After(10 * time.Second)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for os.Remove(dir) != nil {
		select {
		case <-deadline:
			t.Errorf("%s is not empty", dir)
			return
		case <-tick.C:
		}
	}
}
