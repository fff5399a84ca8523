package benchlab

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"launch/lab/netns"
)

// Rates of a healthy and of a faulty link in Mbit/s, low enough for the processors
// of a small machine.
const healthy, sick = 80, 40

// shaped returns hosts with two rails, each in its own network.
func shaped(t *testing.T, n int) *netns.Lab {
	lab := netns.New(t, n)
	if out, err := lab.Hosts[0].Command(t.Context(), "tc", "qdisc", "replace", "dev", "lo", "root", "tbf", "rate", "1gbit",
		"burst", "1mb", "latency", "50ms").CombinedOutput(); err != nil {
		t.Skipf("this kernel shapes no links (sch_tbf): %v: %s", err, out)
	}
	for i, h := range lab.Hosts {
		h.NIC("eth1", fmt.Sprintf("10.78.0.%d/24", i+1))
		// Both are on one switch, and by default each answers for the other's address.
		h.Run("", "sysctl", "-q", "net.ipv4.conf.all.arp_ignore=1", "net.ipv4.conf.all.arp_announce=2")
		for _, nic := range rails {
			h.Shape(nic, healthy, healthy)
		}
	}
	return lab
}

var rails = []string{"eth0", "eth1"}

// fault is the fault that a seed chooses.
type fault struct {
	name string
	want []string // as outcome.slow has it, sorted
	host *netns.Host
	out  map[string]int // by interface
	in   map[string]int
}

func draw(lab *netns.Lab, seed int) fault {
	r := rand.New(rand.NewPCG(uint64(seed), 6))
	f := fault{host: lab.Hosts[r.IntN(len(lab.Hosts))], out: map[string]int{}, in: map[string]int{}}
	nic := rails[r.IntN(len(rails))]
	switch seed % 3 {
	case 0:
		f.name, f.want = "link", []string{f.host.Name + " " + nic + " port"}
		f.out[nic], f.in[nic] = sick, sick
	case 1:
		f.name = "node"
		for _, nic := range rails {
			f.want = append(f.want, f.host.Name+" "+nic+" node")
			f.out[nic], f.in[nic] = sick, sick
		}
	case 2:
		way, rates := "out", f.out
		if r.IntN(2) == 0 {
			way, rates = "in", f.in
		}
		f.name, f.want = "direction "+way, []string{f.host.Name + " " + nic + " " + way}
		rates[nic] = sick
	}
	return f
}

func (f fault) set(sick bool) {
	for _, nic := range rails {
		out, in := f.out[nic], f.in[nic]
		if !sick && out > 0 {
			out = healthy
		}
		if !sick && in > 0 {
			in = healthy
		}
		f.host.Shape(nic, out, in)
	}
}

// seeds returns how many faults are run: BENCHLAB=50, or a few.
func seeds(few int) int {
	if n, err := strconv.Atoi(os.Getenv("BENCHLAB")); err == nil {
		return n
	}
	return few
}

// TestOnlyTheFaultyLinkNodeOrDirectionIsNamed runs launch bench on eight
// hosts with two rails and one fault.
func TestOnlyTheFaultyLinkNodeOrDirectionIsNamed(t *testing.T) {
	lab := shaped(t, 8)
	right, n := 0, seeds(3)
	for seed := range n {
		f := draw(lab, seed)
		f.set(true)
		all := together(t, lab, "--rails", "eth0,eth1")
		f.set(false)
		got := all[0].slow(lab)
		slices.Sort(got)
		t.Logf("seed %d, %s: %v, %d pairs in %s", seed, f.name, got, all[0].bench.Measured,
			all[0].took.Round(10*time.Millisecond))
		if diff := cmp.Diff(f.want, got); diff != "" {
			t.Errorf("seed %d (-want +got):\n%s%+v\n%s", seed, diff, all[0].findings, all[0].errs)
			continue
		}
		right++
		for i, o := range all {
			want := 66
			if lab.Hosts[i] == f.host {
				want = 65
			}
			if o.code != want {
				t.Errorf("seed %d: %s ended with %d, want %d\n%s", seed, lab.Hosts[i].Name, o.code, want, o.errs)
			}
		}
	}
	t.Logf("named right: %d of %d", right, n)
}

// TestNoNodeIsNamedWithoutAFault is the same without a fault.
func TestNoNodeIsNamedWithoutAFault(t *testing.T) {
	lab := shaped(t, 8)
	n := seeds(2)
	var took []time.Duration
	for seed := range n {
		all := together(t, lab, "--rails", "eth0,eth1")
		took = append(took, all[0].took)
		for i, o := range all {
			if o.code != 0 || len(o.findings) > 0 || o.bench.Measured < 24 {
				t.Errorf("seed %d: %s ended with %d: %v %+v\n%s", seed, lab.Hosts[i].Name, o.code, o.slow(lab), o.findings, o.errs)
				break
			}
		}
		t.Logf("seed %d: %+v, %d cleared, %s", seed, all[0].bench.Rails, all[0].bench.Unnamed,
			all[0].took.Round(10*time.Millisecond))
	}
	slices.Sort(took)
	t.Logf("healthy runs: %d, median %s, longest %s", n, took[n/2].Round(10*time.Millisecond),
		took[n-1].Round(10*time.Millisecond))
}

// TestADisturbedRailIsNotNamed starts another job on a rail of one host during the
// measurement: a client of launch bench whose server is not part of the lab's job.
func TestADisturbedRailIsNotNamed(t *testing.T) {
	lab := shaped(t, 5)
	for seed := range seeds(1) {
		server, job := lab.Hosts[4], lab.Hosts[:4]
		client := job[seed%4]
		measuring := make(chan struct{})
		var wg sync.WaitGroup
		all := make([]outcome, len(job))
		for i, h := range job {
			var said chan struct{}
			if h == client {
				said = measuring
			}
			wg.Go(func() {
				all[i] = benchSaying(t, h, said, "--store", "host0:22100", "--nnodes", "4", "--join-timeout", "60s", "--rails",
					"eth0,eth1")
			})
		}
		other := []string{"--rails", "eth1", "--force", "--bench-port", "22300", "--join-timeout", "30s"}
		wg.Go(func() { benchOn(t, server, append(other, "--server")...) })
		wg.Go(func() {
			select {
			case <-measuring:
			case <-t.Context().Done():
			case <-time.After(time.Minute): // the test then prints the output of the hosts
			}
			benchOn(t, client, append(other, "--client", server.Addr)...)
		})
		wg.Wait()
		busy := slices.ContainsFunc(all[0].findings, func(f found) bool {
			return f.ID == "bench.busy" && f.Status == "skip" && strings.Contains(f.What, "others used eth1 of ") &&
				strings.Contains(f.What, "while it was measured")
		})
		if !busy || all[0].code != 0 || len(all[0].bench.Named) > 0 {
			t.Errorf("seed %d: %s ended with %d: %v, %+v\n%s", seed, client.Name, all[0].code, all[0].slow(lab), all[0].findings,
				all[0].errs)
		}
	}
}
