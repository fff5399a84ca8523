package system

import (
	"math"
	"slices"
	"strings"
	"testing"

	"launch/fabric"
	"launch/fabric/gpu"
	"launch/internal/launcher"
	"launch/preflight"
	"launch/preflight/checktest"
)

func TestLimits(t *testing.T) {
	with := func(in preflight.Input, l fabric.Limits, hcaState int) preflight.Input {
		in.Node.Limits = l
		if hcaState > 0 {
			in.Node.HCAs = []fabric.HCA{{Name: "mlx5_0", Ports: []fabric.Port{{Num: 1, State: hcaState}}}}
		}
		return in
	}
	many, cpus, recorded := checktest.NProc(checktest.Nodes(checktest.Four(), 256), "8"), checktest.NProc(checktest.Four(),
		"8"), checktest.NProc(checktest.Four(), "8")
	cpus.Node.GPUs, recorded.Node.GPUs = gpu.Facts{Absent: "no driver"}, gpu.Facts{}
	amd, intel := checktest.NProc(cpus, "8"), program(checktest.Four())
	amd.Node.Cards = slices.Repeat([]fabric.Card{{Vendor: "amd"}}, 8)
	intel.Node.Cards = slices.Repeat([]fabric.Card{{Vendor: "intel"}}, 4)
	cuda := amd
	cuda.Node.Software.CUDA, cuda.Node.Software.Torch.Version = "12.8", "2.9.0+cu128"
	for _, tt := range []struct {
		name, id string
		in       preflight.Input
		want     string
	}{
		{"unlimited", "limits.memlock", with(checktest.Four(), fabric.Limits{Memlock: math.MaxUint64}, 4), "ok unlimited"},
		{"enough", "limits.memlock", with(checktest.Four(), fabric.Limits{Memlock: 64 << 30}, 4), "ok 64 GiB"},
		{"the kernel's default", "limits.memlock", with(checktest.Four(), fabric.Limits{Memlock: 8 << 20}, 4),
			"warn memlock is 8 MiB"},
		{"port down", "limits.memlock", with(checktest.Four(), fabric.Limits{Memlock: 8 << 20}, 1), "skip no active RDMA"},
		{"no RDMA", "limits.memlock", with(checktest.Four(), fabric.Limits{Memlock: 8 << 20}, 0), "skip no active RDMA"},

		{"small job", "limits.nofile", with(checktest.Four(), fabric.Limits{Nofile: 1024, NofileKnown: true}, 0),
			"ok 1024 files"},
		{"large job", "limits.nofile", with(many, fabric.Limits{Nofile: 1024, NofileKnown: true}, 0),
			"warn 2048 ranks may need about 8448"},
		{"unknown", "limits.nofile", with(many, fabric.Limits{Nofile: 1024}, 0), "skip could not tell"},

		{"room", "shm.size", with(checktest.NProc(checktest.GPUs(checktest.Four(), 8), "8"),
			fabric.Limits{Shm: 1 << 30, ShmSize: 1 << 30}, 0), "ok 1 GiB free"},
		{"docker's default", "shm.size", with(checktest.NProc(checktest.GPUs(checktest.Four(), 8), "8"),
			fabric.Limits{Shm: 64 << 20, ShmSize: 64 << 20}, 0), "warn 64 MiB free of 64 MiB, 8 processes need about 512 MiB"},
		{"full of other jobs", "shm.size", with(checktest.NProc(checktest.GPUs(checktest.Four(), 8), "gpu"),
			fabric.Limits{Shm: 1 << 20, ShmSize: 1 << 40}, 0), "warn 1 MiB free of 1 TiB"},
		{"not mounted", "shm.size", with(checktest.NProc(checktest.GPUs(checktest.Four(), 8), "8"), fabric.Limits{Shm: -1},
			0), "warn not mounted"},
		{"of root alone", "shm.size", with(checktest.Four(), fabric.Limits{Shm: 1 << 30, ShmSize: 1 << 30,
			ShmDenied: true}, 0), "warn may not write"},
		{"a program that sees eight GPUs", "shm.size", with(program(checktest.GPUs(checktest.Four(), 8)),
			fabric.Limits{Shm: 64 << 20, ShmSize: 64 << 20}, 0), "warn 64 MiB free of 64 MiB, 8 GPUs need about 512 MiB"},
		{"the same with room", "shm.size", with(program(checktest.GPUs(checktest.Four(), 8)),
			fabric.Limits{Shm: 8 << 30, ShmSize: 8 << 30}, 0), "ok 8 GiB free for 8 GPUs"},
		{"a program that sees one GPU", "shm.size", with(program(checktest.GPUs(checktest.Four(), 1)),
			fabric.Limits{Shm: 64 << 20, ShmSize: 64 << 20}, 0), "ok 64 MiB free for 1 process"},
		{"one process, little room", "shm.size", with(program(checktest.GPUs(checktest.Four(), 1)),
			fabric.Limits{Shm: 64 << 10, ShmSize: 64 << 10}, 0), "warn 64 KiB free of 64 KiB, NCCL's buffers need about 64 MiB"},
		{"one process on one node", "shm.size", with(checktest.Nodes(program(checktest.GPUs(checktest.Four(), 1)), 1),
			fabric.Limits{Shm: 64 << 10, ShmSize: 64 << 10}, 0), "skip one process"},
		{"one process of torchrun", "shm.size", with(checktest.GPUs(checktest.Four(), 8), fabric.Limits{Shm: 64 << 20}, 0),
			"ok 64 MiB free for 1 process"},
		{"full, and no GPUs", "shm.size", with(cpus, fabric.Limits{ShmSize: 64 << 20}, 0), "warn no space or no inode"},
		{"no GPUs", "shm.size", with(cpus, fabric.Limits{Shm: 64 << 20}, 0), "skip no NVIDIA GPU"},
		{"AMD's GPUs", "shm.size", with(amd, fabric.Limits{Shm: 64 << 20, ShmSize: 64 << 20}, 0),
			"warn /dev/shm has 64 MiB free of 64 MiB, 8 processes need about 512 MiB"},
		{"AMD's GPUs with room", "shm.size", with(amd, fabric.Limits{Shm: 8 << 30}, 0), "ok 8 GiB free for 8 processes"},
		{"AMD's GPUs, which this torch cannot use", "shm.size", with(cuda, fabric.Limits{Shm: 64 << 20}, 0), "skip"},
		{"a program that sees four of Intel's", "shm.size", with(intel, fabric.Limits{Shm: 64 << 20}, 0),
			"warn 4 GPUs need about 256 MiB"},
		{"GPUs without an answer", "shm.size", with(recorded, fabric.Limits{Shm: 64 << 20}, 0), "skip was not asked for"},
	} {
		t.Run(tt.id+" "+tt.name, func(t *testing.T) {
			checktest.Wants(t, checktest.Verdict(t, Checks(), tt.id, tt.in),
				tt.want)
		})
	}
}

// program is a command that is not torchrun.
func program(in preflight.Input) preflight.Input {
	in.Job.Line = launcher.Line{Kind: launcher.Program, Argv: []string{"accelerate", "launch", "train.py"}}
	return in
}

func TestTCPThatGivesUpSoon(t *testing.T) {
	for n, want := range map[int]string{0: "skip", 2: "warn this node gives up a TCP connection after 1.4s without",
		5: "warn this node gives up a TCP connection after 12.6s without", 6: "ok", 15: "ok TCP sends a packet 15 times"} {
		in := checktest.Four()
		in.Node.Retries = n
		f := retries(t.Context(), in)
		if got := string(f.Status) + " " + f.What; !strings.HasPrefix(got, want) {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
}

func TestAConnectionTableThatForgetsSoon(t *testing.T) {
	for seconds, want := range map[int]string{0: "skip", 4: "warn this node's connection table forgets a TCP connection " +
		"that is idle for 4 s", 299: "warn", 300: "ok", 86400: "ok an idle connection is forgotten after 86400 s"} {
		in := checktest.Four()
		in.Node.Forgets = seconds
		f := idleConnections(t.Context(), in)
		if got := string(f.Status) + " " + f.What; !strings.HasPrefix(got, want) {
			t.Errorf("%d s: %q, want %q", seconds, got, want)
		}
	}
}
