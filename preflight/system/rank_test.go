package system

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"launch/fabric"
	"launch/internal/finding"
	"launch/preflight"
	"launch/preflight/checktest"
)

// cluster is a job of some nodes with GPUs and rails on each.
func cluster(nodes, gpus int, edit ...func(*preflight.Input)) preflight.Input {
	in := checktest.Nodes(checktest.Railed(8, "InfiniBand"), nodes)
	in.Node.GPUs.Devices = in.Node.GPUs.Devices[:gpus]
	in = checktest.NProc(in, fmt.Sprint(gpus))
	in.Node.Limits = fabric.Limits{Nofile: 1024, NofileHard: 1 << 20, NofileKnown: true}
	for _, e := range edit {
		e(&in)
	}
	return in
}

// overTCP removes the rails.
func overTCP(in *preflight.Input) { in.Node.HCAs, in.Node.PCI = nil, nil }

func vars(pairs ...string) func(*preflight.Input) {
	return func(in *preflight.Input) { *in = checktest.Env(*in, pairs...) }
}

func limited(soft, hard uint64) func(*preflight.Input) {
	return func(in *preflight.Input) { in.Node.Limits.Nofile, in.Node.Limits.NofileHard = soft, hard }
}

func oneProcess(in *preflight.Input) {
	*in = program(*in)
	in.Job.NProc = checktest.Four().Job.NProc
}

func TestOpenFilesOfARank(t *testing.T) {
	cloud := func(name string) func(*preflight.Input) {
		return func(in *preflight.Input) { in.Node.Cloud.Provider = name }
	}
	for name, tt := range map[string]struct {
		in   preflight.Input
		want string
	}{
		"four nodes of four died at 1024": {cluster(4, 4), "warn NCCL with 16 ranks may need about 1136"},
		"the same at 4096":                {cluster(4, 4, limited(4096, 4096)), "ok 4096 files, about 1136"},
		"thirty nodes of eight":           {cluster(30, 8, limited(4096, 1<<20)), "ok 4096 files"},
		"as many over TCP":                {cluster(30, 8, overTCP, limited(4096, 1<<20)), "ok 4096 files, about 2912"},
		"one node":                        {cluster(1, 8), "ok 1024 files"},
		"one process with eight GPUs": {cluster(4, 8, oneProcess, limited(4096, 4096)),
			"warn NCCL with 32 ranks may need about 5504"},
		"TCP on EC2": {cluster(4, 4, overTCP, cloud("aws"), limited(8192, 8192)),
			"warn may need about 10096"},
		"TCP on Google's cards": {cluster(4, 4, overTCP, cloud("gcp"), limited(8192, 8192)),
			"ok 8192 files, about 3376"},
		"RDMA on EC2": {cluster(4, 4, cloud("aws"), limited(2048, 4096)), "ok 2048 files"},
		"many sockets were asked for": {cluster(4, 4, overTCP, limited(65536, 65536),
			vars("NCCL_SOCKET_NTHREADS", "16", "NCCL_NSOCKS_PERTHREAD", "16")), "ok 65536 files, about 36976"},
		"a bad value": {cluster(4, 4, overTCP, limited(4096, 4096), vars("NCCL_SOCKET_NTHREADS", "-1")), "ok 4096 files"},
	} {
		t.Run(name, func(t *testing.T) {
			checktest.Wants(t, checktest.Verdict(t, Checks(), "limits.nofile", tt.in), tt.want)
		})
	}
}

func TestASoftLimitThatMayBeRaised(t *testing.T) {
	for name, tt := range map[string]struct{ hard, want any }{
		"far above": {uint64(1 << 20), "ulimit -n 1048576 "},
		"too low":   {uint64(1024), "ulimit -n 65536"},
		"unknown":   {uint64(0), "ulimit -n 65536"},
	} {
		f := checktest.Verdict(t, Checks(), "limits.nofile", cluster(4, 8, limited(1024, tt.hard.(uint64))))
		if f.Status != finding.Warn || !strings.Contains(f.Fix, tt.want.(string)) {
			t.Errorf("%s: %s %q, want a warning with %q", name, f.Status, f.Fix, tt.want)
		}
	}
}

func TestLockedMemoryOfARank(t *testing.T) {
	lock := func(limit uint64) func(*preflight.Input) {
		return func(in *preflight.Input) { in.Node.Limits.Memlock = limit }
	}
	direct := func(in *preflight.Input) { in.Node.GPUDirect.Peermem = true }
	for name, tt := range map[string]struct {
		in   preflight.Input
		want string
	}{
		"a rank with GPUDirect":      {cluster(4, 8, lock(512<<20), direct), "ok 512 MiB, about 384 MiB"},
		"a rank without":             {cluster(4, 8, lock(512<<20)), "warn a process of this job may need 1.2 GiB"},
		"eight ranks in one process": {cluster(4, 8, lock(4<<30), oneProcess), "warn may need 8.2 GiB"},
		"eight ranks in one, direct": {cluster(4, 8, lock(4<<30), oneProcess, direct), "ok 4 GiB, about 1.2 GiB"},
		"the kernel's default":       {cluster(4, 8, lock(8<<20), direct), "warn memlock is 8 MiB"},
		"a user's limit of 64 KiB":   {cluster(2, 1, lock(64<<10)), "warn memlock is 64 KiB"},
		"the kernel's default, may do it": {cluster(4, 8, lock(8<<20),
			func(in *preflight.Input) { in.Node.System.IPCLock = true }), "ok CAP_IPC_LOCK"},
	} {
		t.Run(name, func(t *testing.T) {
			checktest.Wants(t, checktest.Verdict(t, Checks(), "limits.memlock", tt.in), tt.want)
		})
	}
}

func TestTheFoldersThatTheCommandNames(t *testing.T) {
	in := checktest.Env(checktest.Four())
	in.Dir = "/project"
	in.Job.Line.Argv = []string{"torchrun", "/project/t.py", "--data", "/mnt/set", "--out=/ckpt/run7", "x=/not/an/option",
		"relative/path", "/mnt/set/"}
	in.Job.Line.Script, in.Job.Line.Rest = 1, 1
	var got []string
	for _, u := range uses(in) {
		if u.what == "named by the command" {
			got = append(got, u.path)
		}
	}
	if strings.Join(got, " ") != "/mnt/set /ckpt/run7" {
		t.Errorf("got %q", got)
	}
	in.Disks = func(_ context.Context, paths []string) (out []fabric.Disk) {
		for _, p := range paths {
			d := fabric.Disk{Path: p, Mount: "/", Kind: "ext4"}
			switch p {
			case "/mnt/set":
				d = fabric.Disk{Path: p, Mount: p, Kind: "nfs4", Source: "filer:/set", Proto: "tcp", Meant: "rdma",
					MeantBy: "its port 20049"}
			case "/ckpt/run7":
				d = fabric.Disk{Path: p, Mount: "/ckpt", Kind: "lustre", Source: "mgs:/ckpt", Late: "3s"}
			}
			out = append(out, d)
		}
		return out
	}
	checktest.Wants(t, checktest.Verdict(t, Checks(), "storage.answers", in),
		"warn /ckpt/run7, named by the command, does not")
	checktest.Wants(t, checktest.Verdict(t, Checks(), "storage.nfs", in),
		"warn nfs4 of filer:/set at /mnt/set uses tcp, and its port 20049 asks for RDMA")
}
