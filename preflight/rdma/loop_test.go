package rdma

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"launch/fabric"
	"launch/fabric/verbs"
	"launch/internal/finding"
	"launch/internal/launcher"
	"launch/internal/setting"
	"launch/preflight"
	"launch/preflight/checktest"
)

// fit is what a port that is in order makes of a loopback.
func fit(t verbs.Test) (r verbs.LoopResult) {
	for i, n := range t.Sizes {
		r.Sizes = append(r.Sizes, verbs.LoopSize{Write: verbs.Latency{Size: n, Pings: t.Pings,
			Median: time.Duration(1+i) * 1500 * time.Nanosecond}, Speed: 2e10})
	}
	return r
}

// loops has the ports of some devices fail in a way.
func loops(e verbs.Error, names ...string) func(*preflight.Input) {
	return func(in *preflight.Input) {
		in.Node.Verbs.Present = true
		for _, h := range in.Node.HCAs {
			in.Node.Verbs.Devices = append(in.Node.Verbs.Devices, verbs.Device{Name: h.Name, Opens: true})
		}
		in.Loop = func(_ context.Context, t verbs.Test, _ time.Duration) (verbs.LoopResult, error) {
			for _, n := range names {
				if n == t.Device {
					of := e
					if of.Text == "" {
						of.Text = "what happened to " + n
					}
					return verbs.LoopResult{}, &of
				}
			}
			return fit(t), nil
		}
	}
}

func TestWhatALoopbackThatFailsMeans(t *testing.T) {
	const ib, roce = "InfiniBand", "Ethernet"
	healthy := loops(verbs.Error{})
	bound := func(in *preflight.Input) { in.Node.Limits.Memlock = 64 << 10 }
	of := func(c verbs.Cause, step string) func(*preflight.Input) {
		return loops(verbs.Error{Cause: c, Step: step}, "mlx5_2")
	}
	all := func(e verbs.Error) func(*preflight.Input) {
		return func(in *preflight.Input) {
			var names []string
			for _, h := range in.Node.HCAs {
				names = append(names, h.Name)
			}
			loops(e, names...)(in)
		}
	}
	driver := func(name string) func(*preflight.Input) {
		return ofAll(func(h *fabric.HCA, _ *fabric.Port) { h.Driver = name })
	}
	for _, tt := range []struct {
		name string
		in   preflight.Input
		want string
	}{
		{"healthy", checktest.Railed(8, ib, healthy), "ok 8 ports: all data came back unchanged, in 1.5 µs"},
		{"other bytes", checktest.Railed(8, ib, of(verbs.Corrupt, "")),
			"fail mlx5_2 changes the data that it carries: what happened to mlx5_2"},
		{"other bytes on two", checktest.Railed(8, ib, loops(verbs.Error{Cause: verbs.Corrupt}, "mlx5_2", "mlx5_5")),
			"fail 2 of 8 RDMA ports fail alike (mlx5_2, mlx5_5): mlx5_2 changes"},
		{"memlock on all", checktest.Railed(8, ib, bound, all(verbs.Error{Cause: verbs.Memlock, Step: "register memory"})),
			"fail 8 of 8 RDMA ports fail alike (mlx5_0, mlx5_1, mlx5_2, mlx5_3 and 4 more): mlx5_0 cannot"},
		{"a limit that does not bind", checktest.Railed(8, ib, bound, of(verbs.Memlock, "register memory"),
			func(in *preflight.Input) { in.Node.System.IPCLock = true }), "warn mlx5_2 cannot carry data to itself"},
		{"a limit that was not reached", checktest.Railed(8, ib, of(verbs.Memlock, "register memory"),
			func(in *preflight.Input) { in.Node.Limits.Memlock = 8 << 20 }), "warn mlx5_2"},
		{"it is gone when it is to connect", checktest.Railed(8, ib, of(verbs.Gone, "create a queue pair")), "fail mlx5_2"},
		{"it is gone before it opens", checktest.Railed(8, ib, of(verbs.Gone, "open")), "warn mlx5_2"},
		{"it may not be used", checktest.Railed(8, ib, of(verbs.Permission, "register memory")), "fail mlx5_2"},
		{"it may not be opened", checktest.Railed(8, ib, of(verbs.Permission, "open")), "warn mlx5_2"},
		{"another namespace", checktest.Railed(8, roce, of(verbs.NotHere, "connect a queue pair")), "fail mlx5_2"},
		{"all in use", checktest.Railed(8, ib, of(verbs.Resources, "create a queue pair")), "warn mlx5_2"},
		{"firmware", checktest.Railed(8, ib, of(verbs.Faulty, "create a queue pair")), "warn mlx5_2"},
		{"library and driver", checktest.Railed(8, ib, of(verbs.Provider, "open")), "warn mlx5_2"},
		{"the driver hangs", checktest.Railed(8, ib, of(verbs.Stuck, "wait")), "warn mlx5_2"},
		{"nothing is heard of any", checktest.Railed(2, ib, all(verbs.Error{Cause: verbs.Stuck, Step: "wait"})),
			"skip could not tell: mlx5_0"},
		{"a process that said nothing", checktest.Railed(8, ib, of(verbs.Other, "wait")), "ok 7 ports"},
		{"the library crashes", checktest.Railed(8, ib, of(verbs.Crashed, "wait")), "warn mlx5_2"},
		{"the link was lost meanwhile", checktest.Railed(8, ib, of(verbs.PortDown, "query")), "warn mlx5_2"},
		{"no partition key", checktest.Railed(8, ib, of(verbs.NoPKey, "query")), "warn mlx5_2"},
		{"no answer", checktest.Railed(8, ib, of(verbs.Unreachable, "")), "warn mlx5_2"},
		{"no answer of a card that may not reach itself", checktest.Railed(8, ib, driver("irdma"), of(verbs.Unreachable, "")),
			"ok 7 ports: all data came back unchanged, in 1.5 µs; could not tell of mlx5_2 (what happened to mlx5_2)"},
		{"an address that leads nowhere", checktest.Railed(8, roce, of(verbs.NoGID, "connect a queue pair")), "warn mlx5_2"},
		{"no address, which rdma.gid reports", checktest.Railed(8, roce, of(verbs.NoGID, "query"),
			checktest.OfHCA(2, func(_ *fabric.HCA, p *fabric.Port) { p.GIDs = nil })), "ok 7 ports"},
		{"the time ran out", checktest.Railed(2, ib, all(verbs.Error{Cause: verbs.Late})),
			"skip could not tell: mlx5_0 (what happened to mlx5_0), mlx5_1"},
		{"no reliable connections", checktest.Railed(2, ib, all(verbs.Error{Cause: verbs.NoRC, Step: "create a queue pair"})),
			"skip could not tell"},
		{"an unknown error", checktest.Railed(8, ib, loops(verbs.Error{Cause: verbs.Other, Errno: 200}, "mlx5_2")),
			"warn mlx5_2"},

		{"iWARP", checktest.Railed(2, ib, healthy, ofAll(func(h *fabric.HCA, _ *fabric.Port) {
			h.NodeType, h.Driver = 4,
				"erdma"
		})), "skip no port here has reliable connections"},
		{"a recording or a dry run", checktest.Railed(8, ib, healthy, func(in *preflight.Input) { in.Loop = nil }),
			"skip a recording or a dry run sends nothing"},
		{"libibverbs was not asked", checktest.Railed(8, ib, healthy,
			func(in *preflight.Input) { in.Node.Verbs = verbs.Facts{} }), "skip could not tell: libibverbs was not asked"},
		{"a build without verbs", checktest.Railed(8, ib, healthy,
			func(in *preflight.Input) { in.Node.Verbs = verbs.Facts{Err: verbs.ErrNoCgo.Error()} }),
			"skip could not tell: this build"},
		{"no device", checktest.HGX(healthy), "skip no RDMA device here"},
		{"a job on one node", checktest.Railed(8, ib, healthy,
			func(in *preflight.Input) { in.Job.Nodes = setting.Value[int]{V: 1} }), "skip a job on one node"},
		{"a check without a command", checktest.Railed(8, ib, of(verbs.Corrupt, ""), func(in *preflight.Input) {
			in.Job.Nodes, in.Job.Line.Argv = setting.Value[int]{V: 1}, nil
		}), "fail mlx5_2"},
		{"UCX by mpirun", checktest.Railed(8, ib, of(verbs.Corrupt, ""),
			func(in *preflight.Input) { in.Job.Line.Kind = launcher.Mpirun }), "fail mlx5_2"},

		{"one that the settings leave out", checktest.Railed(8, ib, of(verbs.Corrupt, ""),
			func(in *preflight.Input) { in.Ports = []string{"mlx5_0:1", "mlx5_3:1"} }), "ok 2 ports"},
		{"one that the settings choose", checktest.Railed(8, ib, of(verbs.Corrupt, ""),
			func(in *preflight.Input) { in.Ports = []string{"mlx5_2:1"} }), "fail mlx5_2"},
		{"the settings choose none", checktest.Railed(8, ib, healthy, func(in *preflight.Input) { in.Ports = []string{} }),
			"skip the settings exclude"},
	} {
		t.Run(tt.name, func(t *testing.T) { checktest.Wants(t, checktest.Verdict(t, Checks(), "rdma.loop", tt.in), tt.want) })
	}
}

// Each cause that is not a skip has something to do of its own.
func TestEachCauseHasItsRemedy(t *testing.T) {
	in := checktest.Railed(1, "InfiniBand")
	h := in.Node.HCAs[0]
	general := fixFor(in, verbs.Other, h)
	for _, c := range []verbs.Cause{
		verbs.NoLibrary, verbs.NoStack, verbs.NotListed, verbs.NoNode, verbs.Permission, verbs.Memlock, verbs.Resources,
		verbs.NotHere, verbs.Provider,
		verbs.Faulty, verbs.Gone, verbs.PortDown, verbs.NoLID, verbs.NoGID, verbs.NoPKey, verbs.Unreachable, verbs.Lost,
		verbs.Rejected, verbs.Corrupt, verbs.Stuck, verbs.Crashed,
	} {
		if fix := fixFor(in, c, h); fix == "" || fix == general {
			t.Errorf("%s: %q", c, fix)
		}
	}
}

func TestCausesAreToldApart(t *testing.T) {
	in := checktest.Railed(8, "InfiniBand", func(in *preflight.Input) {
		loops(verbs.Error{})(in)
		in.Node.Limits.Memlock = math.MaxUint64
		in.Loop = func(_ context.Context, t verbs.Test, _ time.Duration) (verbs.LoopResult, error) {
			switch t.Device {
			case "mlx5_1", "mlx5_6":
				return verbs.LoopResult{}, &verbs.Error{Cause: verbs.Corrupt, Text: "a message arrived with another byte"}
			case "mlx5_4":
				return verbs.LoopResult{}, &verbs.Error{Cause: verbs.Resources, Text: "create a queue pair on mlx5_4: no memory"}
			case "mlx5_5":
				return verbs.LoopResult{}, &verbs.Error{Cause: verbs.Rejected, Text: "write 64 bytes: refused"}
			case "mlx5_7":
				return verbs.LoopResult{}, errors.New("no process could be started")
			}
			return fit(t), nil
		}
	})
	var got []string
	for _, f := range checktest.Verdicts(t, Checks(), "rdma.loop", in) {
		got = append(got, fmt.Sprintf("%s %d %s", f.Status, len(f.Seen), f.Fix[strings.LastIndex(f.Fix, "\n")+1:]))
	}
	want := []string{
		"fail 2 until then leave it out: NCCL_IB_HCA=^=mlx5_1,mlx5_6",
		"warn 1 until then leave it out: NCCL_IB_HCA=^=mlx5_4",
		"warn 1 until then leave it out: NCCL_IB_HCA=^=mlx5_5",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// What is tried, and how: the address that the plan would take, the key that the
// settings say, and all ports at the same time.
func TestPortsAreTriedAsTheJobWouldUseThem(t *testing.T) {
	var got []verbs.Test
	asked, start := make(chan verbs.Test), make(chan struct{})
	in := checktest.Railed(2, "Ethernet", loops(verbs.Error{}))
	in.Job.Decided = slices.Grow(in.Job.Decided, 1)[:1]
	in.Job.Decided[0].Name, in.Job.Decided[0].Value = "NCCL_IB_PKEY", "2"
	in.Loop = func(_ context.Context, t verbs.Test, _ time.Duration) (verbs.LoopResult, error) {
		asked <- t
		<-start
		return fit(t), nil
	}
	done := make(chan finding.Finding)
	go func() { done <- checktest.Verdict(t, Checks(), "rdma.loop", in) }()
	got = append(got, <-asked, <-asked)
	close(start)
	checktest.Wants(t, <-done, "ok 2 ports")
	slices.SortFunc(got, func(a, b verbs.Test) int { return strings.Compare(a.Device, b.Device) })
	want := []verbs.Test{{Device: "mlx5_0", Port: 1, GID: 3, PKey: 2}, {Device: "mlx5_1", Port: 1, GID: 3, PKey: 2}}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(verbs.Test{}, "Sizes", "Pings")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// On a machine that has no time for its ports, one that is late says nothing.
func TestABusyMachineIsNoDriverThatHangs(t *testing.T) {
	for slow, want := range map[time.Duration]string{
		10 * time.Millisecond: "warn mlx5_2 cannot carry data to itself: the driver did not answer",
		2 * time.Second: "ok 7 ports: all data came back unchanged, in 1.5 µs; could not tell of mlx5_2 (the " +
			"driver did not answer)",
	} {
		synctest.Test(t, func(t *testing.T) {
			in := checktest.Railed(8, "InfiniBand", loops(verbs.Error{}))
			in.Loop = func(_ context.Context, t verbs.Test, limit time.Duration) (verbs.LoopResult, error) {
				if t.Device == "mlx5_2" {
					time.Sleep(limit)
					return verbs.LoopResult{}, &verbs.Error{Cause: verbs.Stuck, Step: "wait", Text: "the driver did not answer"}
				}
				time.Sleep(slow)
				return fit(t), nil
			}
			checktest.Wants(t, checktest.Verdict(t, Checks(), "rdma.loop", in), want)
		})
	}
}
